"""gpugpt.py - the reference trainer's GPT in PyTorch on one GPU (or the processor), for contrib/bench/gpupeer.

  gpugpt.py weights FOLDER --layers .. --vocab N    writes first weights, as `train --init FOLDER` and --load read them;
                                                    whole ones, or none where it is ended
  gpugpt.py train ... --tokens FILE --log FILE      trains, as `train` does with --ddp-order=distributed, constant rates
                                                    and the whole of --tokens to train on: the same samples

--dtype: one, or several with commas, with each of which it trains anew. The log has a line of JSON per step, {"dtype",
"step", "loss", "tokens_per_s"}; standard output gets one of settings. In bfloat16 the products are autocast's, as
PyTorch's users have it: float32 weights, residual stream and losses. On a GPU bfloat16 attention is flash attention's
kernel; TF32 is off. --compile: torch.compile, as it comes. A step is timed to its end. Exit code: 3, the GPU's memory
is too small; 77, no PyTorch, or one that sees no GPU."""
import argparse
import contextlib
import ctypes
import json
import os
import struct
import sys
import time

HEADER = 256 * 4  # bytes, of llm.c's token files
EXIT_MEMORY, EXIT_NO_TORCH = 3, 77


def leave(code, text):
    print(f"gpugpt.py: {text}".splitlines()[0], file=sys.stderr)
    sys.exit(code)


try:
    import torch
    from torch import nn
except ImportError as e:
    leave(EXIT_NO_TORCH, f"{sys.executable} has no PyTorch: {e}")

sys.dont_write_bytecode = True
from gptmodel import Gpt, make_adamw  # noqa: E402


# ---- weights ----

def draw(model, layers, seed):
    """GPT-2's initialisation."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 2:
                p.normal_(0, 0.02 / (2 * layers) ** 0.5 if name.endswith("c_proj.weight") else 0.02)
            else:
                p.fill_(1.0 if name.endswith("weight") else 0.0)


def write_weights(o):
    model = Gpt(o)
    draw(model, o.layers, o.seed)
    turned, head, parts, at = model.turned(), {}, [], 0
    for name, p in model.named_parameters():
        rows = (p.t() if id(p) in turned else p).detach().contiguous()
        data = ctypes.string_at(rows.data_ptr(), rows.numel() * rows.element_size())  # numpy may not be there
        shape = list(p.shape[::-1] if id(p) in turned else p.shape)
        head["transformer." + name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(o.folder, exist_ok=True)
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
              "n_layer": o.layers, "n_embd": o.width, "n_head": o.heads, "n_positions": o.context, "n_ctx": o.context,
              "vocab_size": o.vocab, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True}
    with open(os.path.join(o.folder, "config.json"), "w", encoding="ascii") as file:
        json.dump(config, file)
    path = os.path.join(o.folder, "model.safetensors")
    with open(path + ".part", "wb") as file:
        file.writelines([struct.pack("<Q", len(text)), text, *parts])
    os.rename(path + ".part", path)


def read_weights(model, folder):
    path = os.path.join(folder, "model.safetensors")
    with open(path, "rb") as file:
        head = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    turned = model.turned()
    with torch.no_grad():
        for name, p in model.named_parameters():
            entry = head["transformer." + name]
            begin, end = entry["data_offsets"]
            x = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).view(entry["shape"])
            p.copy_(x.t() if id(p) in turned else x)


# ---- training ----

class Samples:
    """Window s of the file is tokens [s * context, (s + 1) * context], in DistributedSampler's order on one rank."""

    def __init__(self, o):
        with open(o.tokens, "rb") as file:
            file.seek(HEADER)
            self.tokens = torch.frombuffer(bytearray(file.read()), dtype=torch.int16).long() & 0xffff
        self.o = o
        self.n = (self.tokens.numel() - 1) // o.context
        self.epoch, self.order = -1, iter(())

    def next(self):
        for s in self.order:
            return s
        self.epoch += 1
        g = torch.Generator()
        g.manual_seed(self.o.seed + self.epoch)
        self.order = iter(torch.randperm(self.n, generator=g).tolist())
        return self.next()

    def batch(self, device):
        at = [self.next() * self.o.context for _ in range(self.o.batch)]
        x = torch.stack([self.tokens[i:i + self.o.context + 1] for i in at])
        return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x


def flash(dtype, device):
    """bfloat16 attention on a GPU: flash attention's kernel, or an error."""
    if device.type != "cuda" or dtype != "bf16":
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel(SDPBackend.FLASH_ATTENTION)


def autocast(dtype, device):
    return torch.autocast(device.type, torch.bfloat16) if dtype == "bf16" else contextlib.nullcontext()


class Trainer:
    def __init__(self, o, dtype):
        self.o, self.dtype, self.device = o, dtype, torch.device(o.device)
        self.model = Gpt(o)
        if o.load:
            read_weights(self.model, o.load)
        else:
            draw(self.model, o.layers, o.seed)
        self.model.to(self.device)
        self.optimizer, self.adamw = make_adamw(self.model, o)
        self.forward = torch.compile(self.model) if o.compile else self.model
        self.samples = Samples(o)

    def step(self):
        batches = [self.samples.batch(self.device) for _ in range(self.o.accum)]
        loss = torch.zeros((), device=self.device)
        for tokens in batches:
            with autocast(self.dtype, self.device):
                part = self.forward(tokens) / self.o.accum
            part.backward()
            loss += part.detach()
        if self.o.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.o.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()  # waits for the loss; the rest of the step for the next

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def run(self, log):
        o = self.o
        with flash(self.dtype, self.device):
            for k in range(o.steps):
                began = time.perf_counter()
                loss = self.step()
                self.synchronize()
                rate = o.batch * o.accum * o.context / (time.perf_counter() - began)
                log.write(json.dumps({"dtype": self.dtype, "step": k + 1, "loss": loss, "tokens_per_s": rate}) + "\n")
                log.flush()


def train(o):
    if o.device == "cuda" and not torch.cuda.is_available():
        leave(EXIT_NO_TORCH, f"PyTorch {torch.__version__} sees no GPU")
    with open(o.log, "w", encoding="ascii") as log:
        for dtype in o.dtype.split(","):
            trainer = Trainer(o, dtype)
            print(json.dumps({"torch": torch.__version__, "adamw": trainer.adamw, "compiled": o.compile, "dtype": dtype,
                              "parameters": sum(p.numel() for p in trainer.model.parameters())}), flush=True)
            trainer.run(log)


def options():
    p = argparse.ArgumentParser()
    p.add_argument("verb", choices=["weights", "train"])
    p.add_argument("folder", nargs="?")
    for name in "layers", "width", "heads", "context", "vocab":
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--accum", type=int, default=1)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--lr", type=float, default=1e-4)
    p.add_argument("--weight-decay", type=float, default=0.1)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--device", default="cuda")
    p.add_argument("--dtype", default="bf16")
    p.add_argument("--compile", action="store_true")
    for name in "load", "tokens", "log":
        p.add_argument("--" + name)
    o = p.parse_args()
    if o.verb == "weights" and not o.folder or o.verb == "train" and not (o.tokens and o.log):
        p.error("weights needs a folder; train needs --tokens and --log")
    if set(o.dtype.split(",")) - {"f32", "bf16"}:
        p.error("--dtype: f32, bf16, or both with a comma")
    return o


def main():
    o = options()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    if "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if o.verb == "weights":
        write_weights(o)
        return
    try:
        train(o)
    except torch.cuda.OutOfMemoryError as e:
        leave(EXIT_MEMORY, e)


main()

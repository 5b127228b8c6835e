"""gpt.py - the GPT of `ddp bench step` in PyTorch DistributedDataParallel over gloo, for contrib/bench/peers: the same
layers (pre-norm blocks, tanh GELU, tied head), the same first weights (a file that `ddp bench step --dump` wrote), the
same samples in the same order, AdamW and clipping with the same settings, and the same commands: see
runtime/bench/step.c for --lockstep and bench/train.h for the samples.

RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and OMP_NUM_THREADS come from the environment. What this version of PyTorch
offers is used: fused AdamW (else foreach), scaled_dot_product_attention, foreach clipping; the first line of output
says which."""
import argparse
import contextlib
import inspect
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

sys.dont_write_bytecode = True
from gptmodel import HAS_SDPA, Gpt, make_adamw  # noqa: E402

MASK = (1 << 64) - 1
SAMPLES, SEED = 65536, 42
TOKENS = 16


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def load(model, path):
    """From a file of all weights in a row."""
    with open(path, "rb") as file:
        flat = torch.frombuffer(bytearray(file.read()), dtype=torch.float32)
    at, turned = 0, model.turned()
    with torch.no_grad():
        for p in model.parameters():
            part = flat[at:at + p.numel()]
            p.copy_(part.view(p.shape[1], p.shape[0]).t() if id(p) in turned else part.view(p.shape))
            at += p.numel()
    if at != flat.numel():
        raise SystemExit(f"gpt.py: {path} holds {flat.numel()} weights, the model has {at}: dump it at the same sizes")


class Trainer:
    def __init__(self, o):
        self.o = o
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.model = Gpt(o)
        load(self.model, o.load)
        bucket = {"bucket_cap_mb": o.bucket_mb} if o.bucket_mb else {}
        self.ddp = nn.parallel.DistributedDataParallel(self.model, gradient_as_bucket_view=True,
                                                       broadcast_buffers=False, **bucket)
        self.optimizer, self.adamw = make_adamw(self.model, o)
        clip = nn.utils.clip_grad_norm_
        self.clip_options = {"foreach": True} if "foreach" in inspect.signature(clip).parameters else {}
        order = torch.utils.data.DistributedSampler(range(SAMPLES), shuffle=True, seed=SEED)
        self.samples = iter(order)
        self.flat = self.spare = None

    def batch(self):
        length = self.o.context + 1
        n_tokens = min(TOKENS, self.o.vocab)
        rows = [next(self.samples) for _ in range(self.o.batch)]
        return torch.tensor([[mix(s * length + i) % n_tokens for i in range(length)] for s in rows])

    def micro_step(self, tokens, is_last):
        start = time.perf_counter()
        with contextlib.nullcontext() if is_last else self.ddp.no_sync():
            loss = self.ddp(tokens) / self.o.accum
            forward = time.perf_counter()
            loss.backward()
        end = time.perf_counter()
        return end - start, end - forward, loss.detach()

    def meet(self, k):
        """All ranks begin the micro-steps that are compared at once. Seconds that it took."""
        if self.o.accum < 3 or k < self.o.accum - 2:
            return 0.0
        start = time.perf_counter()
        dist.barrier()
        return time.perf_counter() - start

    def step(self):
        """step_s, quiet_s, sync_s, backward_s of this rank, and its loss. Making samples is not timed."""
        batches = [self.batch() for _ in range(self.o.accum)]
        start = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=self.o.set_to_none)
        loss, quiet, backward, meeting = 0, 0.0, 0.0, 0.0
        for k, tokens in enumerate(batches):
            meeting += self.meet(k)
            took, in_backward, part = self.micro_step(tokens, k == self.o.accum - 1)
            loss = loss + part
            if k == self.o.accum - 2:
                quiet, backward = took, in_backward
        if self.o.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.o.clip, **self.clip_options)
        self.optimizer.step()
        return [time.perf_counter() - start - meeting, quiet, took, backward or in_backward], loss

    def steps(self, n):
        done = [self.step() for _ in range(n)]
        times = torch.tensor([t for t, _ in done], dtype=torch.float64)
        dist.all_reduce(times, op=dist.ReduceOp.MAX)
        loss = torch.stack([x for _, x in done]).double()
        dist.all_reduce(loss)
        names = "step_s", "quiet_s", "sync_s", "backward_s"
        return dict(zip(names, times.t().tolist()), loss=(loss / self.size).tolist())

    @torch.no_grad()
    def products(self):
        """The matrix products of the linear layers and the head, forward and backward, at the shapes of one step."""
        o, rows = self.o, self.o.batch * self.o.context
        shapes = [(m.weight, torch.zeros(rows, m.in_features), torch.zeros(rows, m.out_features))
                  for m in {(m.in_features, m.out_features): m for m in self.model.linears()}.values()]
        buffers = {w.shape: (x, y, torch.zeros(w.shape)) for w, x, y in shapes}
        weights = [m.weight for m in self.model.linears()]
        wte = self.model.wte.weight
        buffers[wte.shape] = torch.zeros(rows, o.width), torch.zeros(rows, o.vocab), torch.zeros(wte.shape)
        start = time.perf_counter()
        for _ in range(o.accum):
            for w in weights + [wte]:
                x, y, dw = buffers[w.shape]
                torch.mm(x, w.t(), out=y)
                torch.mm(y.t(), x, out=dw)
                torch.mm(y, w, out=x)
        return time.perf_counter() - start

    def comm(self):
        if self.flat is None:
            self.flat = torch.zeros(sum(p.numel() for p in self.model.parameters()))
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(self.flat)
        return time.perf_counter() - start

    def measure(self, what, n):
        times = torch.tensor([getattr(self, what)() for _ in range(n)], dtype=torch.float64)
        dist.all_reduce(times, op=dist.ReduceOp.MAX)
        return {what + "_s": times.tolist()}

    def obey(self, line):
        verb, n = line.split()
        if verb not in ("steps", "products", "comm"):
            raise SystemExit(f"gpt.py: \"{line.strip()}\" is no command: there are steps N, products N, comm N")
        return self.steps(int(n)) if verb == "steps" else self.measure(verb, int(n))


def options():
    p = argparse.ArgumentParser()
    for name in "layers", "width", "heads", "context", "vocab", "batch":
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--accum", type=int, default=1)
    p.add_argument("--weight-decay", type=float, default=0.1)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--load", required=True)
    p.add_argument("--lockstep", required=True)
    p.add_argument("--bucket-mb", type=float)
    p.add_argument("--set-to-none", action="store_true")
    p.set_defaults(lr=1e-3)
    return p.parse_args()


def main():
    o = options()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group("gloo")
    trainer = Trainer(o)

    def say(x):
        if trainer.rank == 0:
            print(json.dumps(x), flush=True)

    with open(f"{o.lockstep}.{trainer.rank}", encoding="ascii") as commands:
        say({"torch": torch.__version__, "adamw": trainer.adamw, "attention": "SDPA" if HAS_SDPA else "written out",
             "clip": "foreach" if trainer.clip_options else "per tensor", "threads": torch.get_num_threads(),
             "parameters": sum(p.numel() for p in trainer.model.parameters())})
        for line in commands:
            say(trainer.obey(line))
    dist.destroy_process_group()


main()

#!/usr/bin/env python3
"""gpt.py - a small GPT on a file's bytes, as a PyTorch loop writes it; the lines with slurm_ddp are what makes it
survive kills.

    srun -N2 --ntasks-per-node=2 --ddp=on,requeue=auto python3 gpt.py --data FILE --ckpt FOLDER
    ddp run -n 2 python3 gpt.py --data FILE --ckpt FOLDER

The same command goes on from the newest checkpoint; exit code 75: it was asked to stop, and has saved.
"""
import argparse
import ctypes
import hashlib
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import slurm_ddp


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, dropout, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width),
                                 nn.Dropout(dropout))

    def forward(self, x, mask):
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(256, o.width), nn.Embedding(o.context, o.width)
        self.h = nn.ModuleList(Block(o.width, o.heads, o.dropout) for _ in range(o.layers))
        self.ln_f = nn.LayerNorm(o.width)

    def forward(self, x):
        t = x.size(1)
        mask = torch.full((t, t), float("-inf")).triu(1)
        y = self.wte(x) + self.wpe.weight[:t]
        for block in self.h:
            y = block(y, mask)
        return F.linear(self.ln_f(y), self.wte.weight)


class Windows(torch.utils.data.Dataset):
    """Sample i: its number, and bytes i * context .. (i + 1) * context of the file."""

    def __init__(self, path, context):
        with open(path, "rb") as file:
            self.data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
        self.context = context

    def __len__(self):
        return (len(self.data) - 1) // self.context

    def __getitem__(self, i):
        return i, self.data[i * self.context:(i + 1) * self.context + 1].long()


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--data", required=True, help="a file")
    p.add_argument("--ckpt", required=True, help="folder of checkpoints, which all nodes share")
    for name, value in (("steps", 300), ("batch", 4), ("accumulate", 1), ("layers", 2), ("width", 64), ("heads", 2),
                        ("context", 32), ("workers", 0), ("ckpt-every", None)):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--pace", type=float, default=0, help="seconds that each step waits")
    p.add_argument("--log-json", default=os.devnull, help="a line for each step")
    p.add_argument("--ids", help="folder for RANK, lines STEP EPOCH SAMPLE...: what was used when")
    p.add_argument("--print-hash", action="store_true", help="of the parameters, at the end")
    return p.parse_args()


def endless(loader):
    while True:
        yield from loader


def main():
    o = options()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = Windows(o.data, o.context)
    # DDP otherwise regroups its buckets after a process's first backward pass, so that a resume has other last bits.
    model = nn.parallel.DistributedDataParallel(Gpt(o), find_unused_parameters=True)
    torch.manual_seed(2 + rank)  # dropout differs from rank to rank
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)

    sampler = slurm_ddp.Sampler(data, o.batch, o.accumulate, seed=7)
    metrics = slurm_ddp.Metrics(o.log_json)
    ckpt = slurm_ddp.Checkpoint(o.ckpt, every=o.ckpt_every, model=model, optimizer=optimizer, scheduler=scheduler,
                                sampler=sampler, metrics=metrics)
    batches = endless(torch.utils.data.DataLoader(data, batch_sampler=sampler, num_workers=o.workers))
    ids = open(os.path.join(o.ids, str(rank)), "a", buffering=1, encoding="ascii") if o.ids else None
    say = print if rank == 0 else lambda *args, **kwargs: None
    say(f"{len(data)} samples of {o.context} bytes", flush=True)
    if ckpt.resumed:
        say(f"resumed from {o.ckpt}, at step {ckpt.steps}", flush=True)

    while ckpt.steps < o.steps:
        for _ in range(o.accumulate):
            i, tokens = next(batches)
            if ids:
                ids.write(f"{ckpt.steps + 1} {sampler.epoch} {' '.join(map(str, i.tolist()))}\n")
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            (loss / o.accumulate).backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        metrics.log(step=ckpt.steps + 1, loss=loss.item())
        say(f"step {ckpt.steps + 1} loss {loss.item():.4f}", flush=True)
        time.sleep(o.pace)
        ckpt.step()
    ckpt.save()
    if o.print_hash:
        values = b"".join(ctypes.string_at(p.data_ptr(), p.numel() * p.element_size()) for p in model.parameters())
        say(f"params hash {hashlib.sha256(values).hexdigest()[:16]}")


main()

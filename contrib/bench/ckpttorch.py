#!/usr/bin/env python3
"""ckpttorch.py FOLDER - for contrib/bench/checkpoint: how long a PyTorch loop (DDP over gloo, AdamW) stands still for a
checkpoint, by slurm_ddp.Checkpoint, by torch.distributed.checkpoint's async_save, with and without memory that is kept
for the copy, and by torch.save on rank 0 while the others wait; beside one memcpy of the state. In turn, on one state.
Each is the slowest rank's. Rank 0 prints JSON: seconds by name, the state's bytes, a step's seconds without any."""
import argparse
import ctypes
import json
import os
import shutil
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

import slurm_ddp

p = argparse.ArgumentParser(description=__doc__)
p.add_argument("folder")
p.add_argument("--width", type=int, default=1448, help="of 24 square layers: 50 million parameters [%(default)s]")
p.add_argument("--batch", type=int, default=64)
p.add_argument("--saves", type=int, default=5, help="of each kind; one before them is not counted [%(default)s]")
p.add_argument("--between", type=int, default=2, help="steps between two saves [%(default)s]")
o = p.parse_args()

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(1)
model = torch.nn.Sequential(*(torch.nn.Linear(o.width, o.width) for _ in range(24)))
ddp = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(o.batch, o.width)
ckpt = slurm_ddp.Checkpoint(os.path.join(o.folder, "ours"), every=0, keep=1, model=model, optimizer=optimizer)
stager = DefaultStager(StagingOptions(use_pinned_memory=False, use_shared_memory=True, use_async_staging=False,
                                      use_non_blocking_copy=False))  # the other ways want a GPU
group = dist.new_group(backend="gloo")  # async_save's thread and DDP on one group would mix up their collectives
future = None


def state():
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def path(kind):
    return os.path.join(o.folder, kind)


def ours():
    ckpt._begin()


def dcp_async(**how):
    global future
    future = dcp.async_save(state(), checkpoint_id=path("dcp"), process_group=group, **how)


def torch_save():
    if rank == 0:
        torch.save(state(), path("torch.pt"))
    dist.barrier()


def one_memcpy():
    ctypes.memmove(copy.data_ptr(), source.data_ptr(), n_bytes)


def step(save=None):
    """Seconds: of the step, and of the save within it: its call, and what optimizer.step() waits for."""
    began = time.perf_counter()
    if save:
        save()
    stood = time.perf_counter() - began
    ddp(x).square().mean().backward()
    waits = time.perf_counter()
    ckpt._wait_copied()
    stood += time.perf_counter() - waits
    optimizer.step()
    optimizer.zero_grad()
    return time.perf_counter() - began, stood


def settle():
    """The save is over, on all ranks."""
    global future
    for _ in range(o.between):
        ckpt.step()
        step()
    slurm_ddp._lib.call("ddp_checkpoint_wait", ckpt._job.handle)
    if future:
        future.result()
        future = None
    dist.barrier()
    if rank == 0:
        shutil.rmtree(path("dcp"), ignore_errors=True)
    dist.barrier()


kinds = {"ours": ours, "dcp": dcp_async, "dcp_kept": lambda: dcp_async(async_stager=stager), "torch_save": torch_save,
         "memcpy": one_memcpy}
step()
n_bytes = sum(t.numel() * t.element_size() for s in (model.state_dict(), *optimizer.state.values()) for t in s.values())
source, copy = torch.ones(n_bytes, dtype=torch.uint8), torch.ones(n_bytes, dtype=torch.uint8)
seconds = {kind: [] for kind in (*kinds, "step")}
for _ in range(o.saves + 1):
    for kind, save in kinds.items():
        seconds["step"].append(step()[0])
        dist.barrier()
        slowest = torch.tensor([step(save)[1]])
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        seconds[kind].append(slowest.item())
        settle()
if rank == 0:
    print(json.dumps({"bytes": n_bytes, "torch": torch.__version__, "seconds": {k: v[1:] for k, v in seconds.items()}}))

"""gloobench.py - all-reduce in place with PyTorch over gloo, for contrib/bench/peers: the same data and the same clock
as `ddp bench allreduce`. usage: gloobench.py WARMUP ITERATIONS BYTES..., with RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT set; rank 0 prints a line for each size: bytes, the number of wrong elements of a check, then each
iteration's time in seconds, that of the slowest rank."""
import os
import sys
import time

import torch
import torch.distributed as dist


def count_wrong(data, rank, size):
    index = torch.arange(data.numel())
    data.copy_(((index + rank) % 7).float())
    dist.all_reduce(data)
    wanted = sum(((index + r) % 7).float() for r in range(size))
    wrong = torch.tensor([(data != wanted).sum().item()])
    dist.all_reduce(wrong)
    return wrong.item()


def measure(n_bytes, warmup, iterations):
    data = torch.zeros(n_bytes // 4)
    dist.barrier()
    times = []
    for _ in range(warmup + iterations):
        start = time.perf_counter()
        dist.all_reduce(data)
        times.append(time.perf_counter() - start)
    slowest = torch.tensor(times[warmup:], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.tolist(), count_wrong(data, dist.get_rank(), dist.get_world_size())


def main():
    warmup, iterations, *sizes = map(int, sys.argv[1:])
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group("gloo")
    for n_bytes in sizes:
        times, wrong = measure(n_bytes, warmup, iterations)
        if dist.get_rank() == 0:
            print(n_bytes, wrong, *("%.9f" % t for t in times), flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()

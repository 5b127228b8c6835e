"""backends.py - PyTorch's backends gloo and ddp in one process, in turn: collectives of float32 tensors, for
contrib/bench/peers. usage: backends.py WARMUP PAIRS BYTES..., with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set;
rank 0 prints a line for each collective and size: its name, bytes, the number of wrong elements of a check, then for
each pair gloo's time and ddp's in seconds, those of the slowest rank. Bytes are those of the larger of input and
output."""
import os
import sys
import time

import torch
import torch.distributed as dist

import slurm_ddp.torch  # noqa: F401


def calls(n, size):
    """name -> (what resets its tensors to what rank r has, the call, the tensor of its result)"""
    whole, part = torch.empty(n // size * size), torch.empty(n // size)
    given, own = torch.empty_like(whole), dist.get_rank()
    parts, is_root = list(whole.split(part.numel())), own == 0
    of_root = whole if is_root else whole[:0]

    def pattern(t, rank):
        t.copy_((torch.arange(t.numel()) + rank).remainder_(7))

    def swap(g):
        there = (own + size // 2) % size  # on the other node, if there are two
        for work in dist.isend(given, there, group=g), dist.irecv(whole, there, group=g):
            work.wait()
    return {
        "all_reduce": (lambda r: pattern(whole, r), lambda g: dist.all_reduce(whole, group=g), whole),
        "reduce_scatter": (lambda r: pattern(whole, r), lambda g: dist.reduce_scatter_tensor(part, whole, group=g),
                           part),
        "all_gather": (lambda r: pattern(part, r), lambda g: dist.all_gather_into_tensor(whole, part, group=g), whole),
        "broadcast": (lambda r: pattern(whole, r), lambda g: dist.broadcast(whole, 0, group=g), whole),
        "reduce": (lambda r: pattern(whole, r), lambda g: dist.reduce(whole, 0, group=g), of_root),
        "gather": (lambda r: pattern(part, r), lambda g: dist.gather(part, parts if is_root else None, 0, group=g),
                   of_root),
        "scatter": (lambda r: pattern(whole, r), lambda g: dist.scatter(part, parts if is_root else None, 0, group=g),
                    part),
        "all_to_all": (lambda r: pattern(given, r), lambda g: dist.all_to_all_single(whole, given, group=g), whole),
        "send_recv": (lambda r: pattern(given, r), swap, whole),
    }


def count_wrong(groups, prepare, call, result):
    """ddp's result against gloo's."""
    found = []
    for group in groups:
        prepare(dist.get_rank())
        call(group)
        found.append(result.clone())
    wrong = (found[0] != found[1]).sum().double().reshape(1)
    dist.all_reduce(wrong)
    return int(wrong.item())


def measure(groups, prepare, call, warmup, pairs):
    """Of two calls in a row over one backend the second is timed, behind that backend's own barrier: as in a program
    that uses it alone, without the other's threads that are still about."""
    times = []
    prepare(dist.get_rank())
    for _ in range(warmup + pairs):
        for group in groups:
            dist.barrier(group=group)
            call(group)
            dist.barrier(group=group)
            start = time.perf_counter()
            call(group)
            times.append(time.perf_counter() - start)
    slowest = torch.tensor(times[2 * warmup:], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.tolist()


def main():
    warmup, pairs, *sizes = map(int, sys.argv[1:])
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group("gloo")
    groups = dist.group.WORLD, dist.new_group(backend="ddp")
    for n_bytes in sizes:
        for name, (prepare, call, result) in calls(n_bytes // 4, dist.get_world_size()).items():
            wrong = count_wrong(groups, prepare, call, result)
            times = measure(groups, prepare, call, warmup, pairs)
            if dist.get_rank() == 0:
                print(name, n_bytes, wrong, *(f"{t:.9f}" for t in times), flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()

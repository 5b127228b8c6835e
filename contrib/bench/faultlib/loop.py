"""loop.py - a PyTorch DDP loop over gloo for contrib/bench/faults. usage: loop.py TIMEOUT_S FILE
It knows of no fault; it ends when FILE is there, which rank 0 looks for."""
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    group = dist.new_group(timeout=datetime.timedelta(seconds=float(sys.argv[1])))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 1)),
                                    process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    step, is_over = 0, torch.zeros(1)
    while not is_over:
        optimizer.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        optimizer.step()
        step += 1
        if dist.get_rank() == 0:
            print(f"step {step}/", flush=True)
            is_over[0] = os.path.exists(sys.argv[2])
            time.sleep(0.01)
        dist.broadcast(is_over, 0, group=group)
    dist.barrier()


main()

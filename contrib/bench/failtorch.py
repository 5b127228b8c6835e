"""failtorch.py - a PyTorch DDP loop over gloo of which one rank dies once, for contrib/bench/failure.
usage: failtorch.py DIR, started by srun --ddp=on,restarts=1 or by torchrun. It knows of neither: it loads the last
checkpoint in DIR and goes on. To DIR/events it adds "killed TIME", "step TIME" (the first one of a new generation) and
"setup SECONDS", from Python's start to that step."""
import os
import signal
import sys
import time

began = time.time()

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, DEATH, EVERY = 60, 25, 10


def note(folder, what):
    with open(os.path.join(folder, "events"), "a") as f:
        f.write(what + "\n")


def main():
    folder, generation = sys.argv[1], int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    path = os.path.join(folder, "last.pt")
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Linear(256, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    first = 0
    if os.path.exists(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        first = state["step"]
    for step in range(first, STEPS):
        if generation == 0 and step == DEATH and rank == size - 1:
            note(folder, f"killed {time.time()}")
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        model(torch.randn(8, 256)).square().mean().backward()
        optimizer.step()
        if generation > 0 and step == first and rank == 0:
            note(folder, f"step {time.time()}")
            note(folder, f"setup {time.time() - began}")
        if rank == 0 and step % EVERY == EVERY - 1:
            torch.save({"model": model.state_dict(), "step": step + 1}, path + ".new")
            os.rename(path + ".new", path)
    dist.barrier()


main()

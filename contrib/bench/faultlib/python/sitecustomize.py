"""sitecustomize.py - lets contrib/bench/faults make a rank of an unchanged PyTorch script enter another collective than
the others, on a signal; when is noted in FAULT_DIR/at."""
import os
import signal
import sys
import time


def enter_another(_signo, _frame):
    with open(os.environ["FAULT_DIR"] + "/at", "w", encoding="ascii") as file:
        file.write(f"{time.monotonic():.9f}\n")
    torch = sys.modules["torch"]
    got = [torch.zeros(3) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(got, torch.ones(3))


if "FAULT_DIR" in os.environ:
    signal.signal(signal.SIGRTMIN + 5, enter_another)

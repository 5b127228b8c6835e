"""slurm_ddp - what libddp has for a training loop that is PyTorch's: each sample exactly once an epoch, checkpoints
that survive any kill, stops in time.

    sampler = slurm_ddp.Sampler(dataset, batch_size=32)             # DataLoader(dataset, batch_sampler=sampler)
    ckpt = slurm_ddp.Checkpoint("ckpt", model=model, optimizer=optimizer, sampler=sampler)
    ... ckpt.step()                                                 # after each optimizer.step()

Ranks are those that `srun --ddp=on` or `ddp run` started, one process each; alone it is one rank.
"""
from ._lib import Error
from .checkpoint import Checkpoint
from .job import EXIT_STOPPED, Stopped, deadline, requeue, stop_requested, world
from .metrics import Metrics, batches, goodput, part, record
from .sampler import Sampler

__all__ = ["Checkpoint", "EXIT_STOPPED", "Error", "Metrics", "Sampler", "Stopped", "batches", "deadline",
           "goodput", "part", "record", "requeue", "stop_requested", "world"]
__version__ = "0.1.0"

#!/usr/bin/env python3
"""gptprobe.py ARGUMENT... - contrib/examples/gpt.py for tests: all random numbers are seeded.
PROBE_SAMPLES=FOLDER: the samples of each step are written there. PROBE_KILL=RANK:STEP: that rank gets SIGKILL when it
has done that step and a checkpoint is there."""
import glob
import os
import random
import runpy
import signal
import sys

import numpy

import slurm_ddp

random.seed(1)
numpy.random.seed(1)
if os.environ.get("PROBE_SAMPLES"):
    sys.argv += ["--ids", os.environ["PROBE_SAMPLES"]]
rank, at = (int(x) for x in os.environ.get("PROBE_KILL", "-1:0").split(":"))
step = slurm_ddp.Checkpoint.step


def step_or_die(self):
    step(self)
    if slurm_ddp.world().rank == rank and self.steps >= at and glob.glob(os.path.join(self._folder, b"step-*")):
        os.kill(os.getpid(), signal.SIGKILL)


slurm_ddp.Checkpoint.step = step_or_die
example = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../contrib/examples/gpt.py")
runpy.run_path(example, run_name="__main__")

"""kinds.py - the faults: how each is made, and what is right to say of it."""
import os
import signal
import time

from faultlib.cluster import parent

SLOW_S = 0.2      # a slow link's delay, each way
SLOW_LOSS = 0.01
SLOW_FOR_S = 12


class Victim:
    """The rank that fails, in its step."""

    def __init__(self, cluster, step, rank, pids, nodes):
        self.cluster, self.step, self.rank = cluster, step, rank
        self.pid, self.node, self.nodes = pids[rank], nodes[rank], nodes
        self.name = f"rank {rank} ({self.node})"
        self.on_node = [r for r, n in enumerate(nodes) if n == self.node]


def by_signal(signo):
    def make(v):
        os.kill(v.pid, signo)
    return make


def kill_slurmstepd(v):
    os.kill(parent(parent(v.pid)), signal.SIGKILL)


def kill_slurmd(v):
    os.kill(v.cluster.slurmd(v.node), signal.SIGKILL)


def want_memory(v):
    """In a group of the node's, version 1, as Slurm's: the victim wants more than there is."""
    v.cluster.limit_memory(v.node, 256 << 20)
    os.kill(v.pid, signal.SIGRTMIN + 4)


def be_slow(v):
    v.cluster.net.slow(v.node, SLOW_S, SLOW_LOSS)


def silent(v):
    return [f"node {v.node} (rank {r}) has been silent for " for r in v.on_node]


def deaf(v):
    """Its node, or that another one is silent to it: as nothing tells it that it is heard, it cannot know better."""
    others = [f"node {n} (rank {r}) has been silent for 3 s to node {v.node}" for r, n in enumerate(v.nodes)]
    return silent(v) + [f"node {v.node} (rank {r}) has heard no other node for " for r in v.on_node] + others


class Kind:
    """make: causes it. says: the beginnings of the line that names it right; None: there is to be none. is_noted: the
    program itself writes when. goes_on: it is no failure. hangs: the others wait for their own time-out.
    how: words that the line must have, too."""

    def __init__(self, make, says, is_noted=False, goes_on=False, hangs=False, how=""):
        self.make, self.says, self.is_noted, self.goes_on, self.hangs = make, says, is_noted, goes_on, hangs
        self.how = how


def rank(v):
    return [v.name]


def one_of_two(v):
    """It is one call against another: the line has both."""
    return [f"rank {r} ({n}) calls all-reduce, but rank {v.rank} " for r, n in enumerate(v.nodes)] + rank(v)


KINDS = {
    "sigkill": Kind(by_signal(signal.SIGKILL), rank, how="was killed by signal 9"),
    "sigsegv": Kind(by_signal(signal.SIGSEGV), rank, how="was killed by signal 11"),
    "sigstop": Kind(by_signal(signal.SIGSTOP), rank, hangs=True),
    "exit0": Kind(by_signal(signal.SIGRTMIN + 1), rank, is_noted=True, how="code 0"),
    "exit3": Kind(by_signal(signal.SIGRTMIN + 2), rank, is_noted=True, how="exited with code 3"),
    "memory": Kind(want_memory, rank, is_noted=True, how="out of memory"),
    "slurmstepd": Kind(kill_slurmstepd, lambda v: [f"rank {r} ({v.node}) has gone" for r in v.on_node]),
    "slurmd": Kind(kill_slurmd, None, goes_on=True),
    "srun": Kind(lambda v: v.step.kill(), None),
    "cut": Kind(lambda v: v.cluster.net.cut(v.node), silent),
    "mute": Kind(lambda v: v.cluster.net.mute(v.node), silent),
    "deaf": Kind(lambda v: v.cluster.net.deafen(v.node), deaf),
    "slow": Kind(be_slow, None, goes_on=True),
    "loop": Kind(by_signal(signal.SIGRTMIN + 3), rank, is_noted=True, hangs=True),
    "collective": Kind(by_signal(signal.SIGRTMIN + 5), one_of_two, is_noted=True, hangs=True),
}


def cause(kind, v, folder, seconds=20):
    """When it happened, on the monotonic clock."""
    now = time.monotonic()
    kind.make(v)
    path, end = os.path.join(folder, "at"), now + seconds
    while kind.is_noted and time.monotonic() < end:
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                text = file.read()
            if text.endswith("\n"):
                return float(text)
        time.sleep(0.001)
    return now

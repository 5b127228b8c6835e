#!/usr/bin/env python3
"""pyprobe.py CHECK [ARGUMENT...] - checks of the Python package slurm_ddp (t6501, t6502), each on as many ranks as
start it. Prints "ok", or what is wrong.

sampler             every sample once an epoch, a sample for each rank in each batch, for many sizes
resume              ... also when other numbers of ranks go on at a step between, far ahead of which others had read
order N SEED EPOCH  that epoch's samples
peers FOLDER        a rank whose child lives on is killed: prints what the others are told
children FOLDER     SIGTERM to a rank's child, from others and from the rank
spawned FOLDER HOW  likewise, and other signals, to one by multiprocessing's `HOW`
workers HOW         processes by multiprocessing's `HOW`, of one that is no rank yet, and of a rank
raises FOLDER       a rank ends with an exception: prints what the others are told
stop [FOLDER]       until asked to stop: with a Checkpoint in FOLDER, else by stop_requested(); prints the steps
requeue             rank 0 is asked to stop: what requeue() then says
deadline            prints seconds until it, after a step
state FOLDER        a Checkpoint of plain values and objects, read back by the next run
every FOLDER N [HOW]
                    ten steps and a save with every=N, and a life behind it; HOW: that is refused (more, format), or
                    does not ask for all (less)
differ FOLDER       a save of ranks whose random numbers are not of the same kinds
full FOLDER         a save that fails on one rank, where one of the same step is there
fails FOLDER        a save that fails on rank 1, which nobody catches
waits FOLDER        a save, where the fault library has it that there is no space
metrics FOLDER FILE
                    a line of a log, a step, and a line that comes too late
progress DDP        what `DDP ps` shows of rank 0 after three steps
record FOLDER       events of the program's own, in the run's record
goodput FOLDER      steps, and then what goodput() says
peak FOLDER         60 steps, in which rank 1 has 64 MiB more than rank 0
parts FOLDER        steps whose parts take known times, which the run's record is to have
wrong FOLDER        what is refused
written FOLDER      parameters that are written to before optimizer.step(), while a checkpoint is copied
torch FOLDER        a Checkpoint of modules, an optimizer, schedulers and tensors of all types, likewise
kept FOLDER         random numbers of a loop in one life and in five, with a DataLoader that is kept over epochs, or
                    not, with two of them, with one that is left before its end, and drawn where an epoch ends
trainers            by stand-ins of transformers and lightning: the seed of the order of samples; what is refused
used N FOLDER:STEP...
                    one process: what gptprobe.py wrote in the lives of a training, each up to the step from which the
                    next went on: each of N samples once an epoch?
"""
import atexit
import contextlib
import hashlib
import itertools
import json
import logging
import math
import multiprocessing
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter, OrderedDict, deque, namedtuple
from types import SimpleNamespace

import slurm_ddp
from slurm_ddp._lib import why_of

# In a process that multiprocessing has started, and which imports this again: as a program may have it at the top.
AT_IMPORT = slurm_ddp.world() if __name__ == "__mp_main__" and os.environ.get("PROBE_AT_IMPORT") else None


def say(*words):
    """In one piece, whoever else writes."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def samplers(n, size, batch, accumulate):
    return [slurm_ddp.Sampler(n, batch, accumulate, seed=3, rank=r, size=size) for r in range(size)]


def take(them, readers, steps, batch, accumulate):
    """Reads and takes `steps` steps (-1: all there are) on all ranks; returns the samples' numbers."""
    used = []
    while steps:
        got = [[next(r, None) for _ in range(accumulate)] for r in readers]
        if got[0][0] is None:
            assert all(b is None for rank in got for b in rank), "ranks have different numbers of batches"
            break
        for b in (rank[m] for m in range(accumulate) for rank in got):
            assert 1 <= len(b) <= batch + 1, f"a batch of {len(b)}, not of 1 to {batch + 1}"
            used += b
        is_last = them[0].is_at_last_step
        for s in them:
            s.step()
        assert is_last == (them[0].position % them[0].n == 0), f"the step to {them[0].position} is an epoch's last?"
        steps -= 1
    return used


def each_once(used, n):
    return sorted(used) == list(range(n))


def sampler():
    for n, size, batch, accumulate in [(n, s, b, a) for n in (24, 103) for s in (1, 2, 3, 8) for b in (1, 4, 7)
                                       for a in (1, 3)]:
        case = f"n {n}, ranks {size}, batch {batch}, accumulate {accumulate}"
        them = samplers(n, size, batch, accumulate)
        for epoch in range(2):
            length = len(them[0])
            used = take(them, [iter(s) for s in them], -1, batch, accumulate)
            assert each_once(used, n), f"{case}: epoch {epoch} has not each sample once"
            assert {s.epoch for s in them} == {epoch + 1}, f"{case}: epoch {them[0].epoch}, not {epoch + 1}"
            steps, left = divmod(length, accumulate)
            assert not left and steps == max(n // (size * batch * accumulate), 1) + \
                (n % (size * batch * accumulate) >= size * accumulate and n > size * batch * accumulate), \
                f"{case}: {length} batches"


def resume():
    for seed in range(200):
        r = random.Random(seed)
        n, epochs, used, state = r.randrange(30, 200), 3, [], None
        while len(used) < epochs * n:
            size, batch, accumulate = r.choice((1, 2, 3, 4)), r.choice((1, 3, 5)), r.choice((1, 2))
            them = samplers(n, size, batch, accumulate)
            for s in them:
                s.load_state_dict(json.loads(json.dumps(state or s.state_dict())))
            readers = [iter(s) for s in them]
            used += take(them, readers, r.randrange(1, 9), batch, accumulate)
            state = them[0].state_dict()
            ahead = [next(reader, None) for reader in readers for _ in range(7)]  # as a DataLoader's workers do
            assert state == them[0].state_dict(), f"seed {seed}: the state counts what was read ahead: {ahead}"
        for e in range(epochs):
            assert each_once(used[e * n:(e + 1) * n], n), f"seed {seed}: epoch {e} has not each sample once"


def order(n, seed, epoch):
    s = slurm_ddp.Sampler(int(n), 1000, seed=int(seed), rank=0, size=1)
    s.set_epoch(int(epoch))
    say(*(i for b in s for i in b))


def steps_until(ckpt, end_at_20):
    """Steps for ever; end_at_20 after 20 of them."""
    for i in range(1000000):
        try:
            ckpt.step()
        except slurm_ddp.Error as e:
            say(e.domain, e)
            os._exit(1)
        if i == 20:
            end_at_20()


def peers(folder):
    ckpt, w = slurm_ddp.Checkpoint(folder, every=0), slurm_ddp.world()
    is_last = w.rank == w.size - 1
    if is_last and os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    steps_until(ckpt, lambda: is_last and os.kill(os.getpid(), signal.SIGKILL))


def is_pending(pid, signo):
    with open(f"/proc/{pid}/status") as f:
        return any(int(line.split()[1], 16) >> (signo - 1) & 1 for line in f if line.startswith("ShdPnd"))


def children(folder):
    ckpt = slurm_ddp.Checkpoint(folder, every=0)
    (to_read, to), (of, of_write) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(to)
        refused("a rank's call", slurm_ddp.stop_requested, "only world() can be called here")
        while os.read(to_read, 1):
            os.write(of_write, b"x")
        os._exit(1)
    os.close(of_write)
    subprocess.run(["sh", "-c", f"kill -TERM {child}"], check=True)
    os.write(to, b"x")
    assert os.read(of, 1) == b"x", "SIGTERM from another process ended it"
    while is_pending(child, signal.SIGTERM):  # one that comes meanwhile would be lost in it
        time.sleep(0.01)
    os.kill(child, signal.SIGTERM)
    assert os.waitpid(child, 0)[1] == 0, "SIGTERM from its rank did not end it"
    one = subprocess.Popen(["sleep", "60"], preexec_fn=os.setsid)
    one.terminate()
    assert one.wait(30) == -signal.SIGTERM, "a program that was started did not end by SIGTERM"
    ckpt.step()
    say("ok")


def echo(connection):
    while True:
        connection.send(connection.recv())


def spawned(folder, how):
    slurm_ddp.Checkpoint(folder, every=0)
    ours, its = multiprocessing.Pipe()
    child = multiprocessing.get_context(how).Process(target=echo, args=(its,))
    child.start()
    its.close()
    for name in "USR1", "USR2", "TERM":
        ours.send(name)
        assert ours.recv() == name
        subprocess.run(["sh", "-c", f"kill -{name} {child.pid}"], check=True)
        try:
            ours.send(name)
            ours.recv()
        except (EOFError, ConnectionError):
            raise AssertionError(f"SIG{name} from another process ended it") from None
    while is_pending(child.pid, signal.SIGTERM):
        time.sleep(0.01)
    child.terminate()
    child.join()
    assert child.exitcode == 0, "SIGTERM from its rank did not end it"
    say("ok")


def numbers(world):
    return [getattr(world, name) for name, _ in world._fields_]


def worker():
    refused("a rank's call", slurm_ddp.stop_requested, "only world() can be called here")
    return numbers(slurm_ddp.world()), numbers(AT_IMPORT)


def in_worker(how, call):
    """To its end: a rank would not end by the pool's SIGTERM."""
    pool = multiprocessing.get_context(how).Pool(1)
    result = pool.apply_async(call)
    pool.close()
    pool.join()
    return result.get()


def workers(how):
    if "DDP_RANK" not in os.environ:  # alone
        assert in_worker(how, slurm_ddp.stop_requested) is False, "it is no rank of its own"
        say("ok")
        return
    mine = numbers(slurm_ddp.world())
    os.environ["PROBE_AT_IMPORT"] = "1"
    assert in_worker(how, worker) == (mine, mine), f"a worker of {mine} sees another"
    slurm_ddp.stop_requested()
    say("ok")


def raises(folder):
    def fail():
        if slurm_ddp.world().rank == 1:
            raise ValueError("no such file: left.txt")
    steps_until(slurm_ddp.Checkpoint(folder, every=0), fail)


def stop(folder=None):
    logging.basicConfig(format="%(message)s")
    ckpt = slurm_ddp.Checkpoint(folder, every=0) if folder else None
    for i in range(1, 1000000):
        if i == 20 and slurm_ddp.world().rank == slurm_ddp.world().size - 1:
            os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.001 * slurm_ddp.world().rank)
        try:
            is_over = ckpt.step() if ckpt else slurm_ddp.stop_requested()
        except slurm_ddp.Stopped:
            say("stopped after step", i)
            raise
        if is_over:
            say("stopped after step", i)
            sys.exit(slurm_ddp.EXIT_STOPPED)


def requeue():
    if slurm_ddp.world().rank == 0:
        slurm_ddp.job.job().open()
        os.kill(os.getpid(), signal.SIGUSR1)
    while not slurm_ddp.stop_requested():
        pass
    refused("a Checkpoint behind it", lambda: slurm_ddp.Checkpoint("never"), "comes before stop_requested()")
    note = slurm_ddp.requeue()
    assert bool(note) == (slurm_ddp.world().rank == 0)
    if note:
        say(note)
    sys.exit(slurm_ddp.EXIT_STOPPED)


def deadline():
    assert slurm_ddp.deadline() is None, "known before anybody has asked"
    slurm_ddp.stop_requested()
    say(round(slurm_ddp.deadline() - time.time()))


class Thing:
    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


class DistributedDataParallel:
    def __init__(self, module):
        self.module = module


class OptimizedModule:
    """Of torch.compile()."""

    def __init__(self, inner):
        self._orig_mod = inner


def state(folder):
    value = {"a": [1, 2.5, None, True, "x"], "t": (1, (2,)), 3: {"n": float("inf")}, "b": b"\0\xff",
             "c": Counter({5: 2}), "big": 2**70, "$odd": 1, "f": 0.1, "none": math.nan, "q": deque([(1,), 2], 3),
             "all": deque(), "o": OrderedDict(b=1, a=OrderedDict({2: "x", 1: "y"}))}
    thing, plain = Thing(value if "new" in sys.argv else None), {"best": 1} if "new" in sys.argv else {}
    s = slurm_ddp.Sampler(1000, 4)
    random.seed(slurm_ddp.world().rank + (0 if "new" in sys.argv else 10))
    ckpt = slurm_ddp.Checkpoint(folder, every=0, thing=OptimizedModule(DistributedDataParallel(thing)), plain=plain,
                                sampler=s)
    reader = iter(s)
    if "new" in sys.argv:
        next(reader)
        ckpt.step()
        ckpt.save()
        plain["best"] = 7  # as at an epoch's end, behind the checkpoint of its last step
        random.gauss(0, 1)  # of a pair
        ckpt.save()
        say(random.gauss(0, 1), random.random())
        return
    ckpt.save()  # before the first batch: it has the restored random numbers
    next(iter(s))  # a look at a batch before the loop
    random.random()  # as whatever comes before the first batch
    next(reader)
    assert ckpt.resumed and ckpt.steps == 1 and s.position == 4 * s.size, "where it goes on"
    assert repr(thing.state) == repr(value) and plain == {"best": 7}, f"{thing.state} {plain}"
    say(random.gauss(0, 1), random.random())


def views(is_new):
    """Of which the memory has other values than they."""
    import torch
    pole, values = torch.tensor([1 + 2j, 3 + 4j]) * is_new, torch.arange(1., 4) * is_new
    module = torch.nn.Module()
    module.register_buffer("pole", pole)
    module.register_buffer("pole_conj", pole.conj())
    module.register_buffer("alone", (pole * 2).conj())
    module.register_buffer("negative", torch._neg_view(values.clone()))
    module.weight = torch.nn.Parameter(torch._neg_view(values))
    return module


def of_version():
    """As torchvision's MNASNet: a module that goes by the version that it was saved with."""
    import torch

    class Versioned(torch.nn.Linear):
        _version = 2

        def _load_from_state_dict(self, state, prefix, metadata, *rest):
            assert metadata.get("version") == 2, f"the version of what is loaded is {metadata.get('version')}"
            super()._load_from_state_dict(state, prefix, metadata, *rest)
    return torch.nn.Sequential(Versioned(3, 2))


def with_masters(model):
    """An optimizer with a float32 copy of each bfloat16 parameter, and with a state of its own that is a number."""
    import torch

    class WithMasters(torch.optim.Optimizer):
        def step(self, closure=None):
            self.state["n"] = self.state.get("n", 0) + 1
            for p in self.param_groups[0]["params"]:
                state = self.state[p]
                state.setdefault("master", p.detach().float())
                state["master"] -= torch.rand_like(state["master"])
                state["all"] = [state["master"].to(self.param_groups[0]["type"]), 1]
                p.data.copy_(state["master"])
    return WithMasters(model.bfloat16().parameters(), {"type": torch.float64})


def of_own_form(model):
    """An optimizer whose state_dict() has its state as a list."""
    import torch

    class Listed(torch.optim.SGD):
        def state_dict(self):
            return {"state": [1, 2], "lr": self.param_groups[0]["lr"]}

        def load_state_dict(self, state):
            assert state["state"] == [1, 2], state
            self.param_groups[0]["lr"] = state["lr"]
    return Listed(model.parameters(), lr=.5)


def torch_things(is_new):
    import torch
    torch.manual_seed(5 if is_new else 6)
    model = torch.nn.Sequential(torch.nn.Linear(300, 70), torch.nn.BatchNorm1d(70), torch.nn.Linear(70, 70))
    model.add_module("tied", torch.nn.Linear(70, 70))
    model.tied.weight = model[2].weight
    model.add_module("head", torch.nn.Linear(70, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    schedulers = {"multi": torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 5]),
                  "by_function": torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + n)),
                  "plateau": torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer),
                  "averaged": torch.optim.swa_utils.SWALR(optimizer, 0.01),
                  "one": torch.optim.lr_scheduler.OneCycleLR(optimizer, 1, 10),
                  "cyclic": torch.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 1, cycle_momentum=False)}
    types = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
             torch.uint8, torch.bool, torch.complex64)
    all_types = {str(t): (torch.arange(6) * is_new).to(t).reshape(2, 3) for t in types}
    all_types.update(turned=(torch.arange(6.) * is_new).reshape(2, 3).t(), empty=torch.zeros(0, 3),
                     scalar=torch.tensor(3. * is_new), part=all_types["torch.float64"][0],
                     nhwc=(torch.arange(48.) * is_new).reshape(2, 2, 3, 4).to(memory_format=torch.channels_last))
    with_views = views(is_new)
    optimizer.add_param_group({"params": with_views.parameters()})
    learned = {"sigma": torch.nn.Parameter(torch.full((3,), 4. * is_new)),
               "more": [(torch.arange(5., 11.) * is_new).reshape(2, 3).t()]}
    optimizer.add_param_group({"params": [learned["sigma"], learned["more"][0]]})
    versioned = of_version()
    return model, {"masters": with_masters(versioned), "versioned": versioned, "listed": of_own_form(versioned),
                   "optimizer": optimizer, **schedulers, "views": with_views, "tensors": all_types,
                   "learned": learned,
                   "rng": {"0": {"python": torch.full((3,), 4. * is_new)}}, "head": torch.nn.Linear(2, 3)}


def wrapper_of(optimizer):
    """As Lookahead and others are: an Optimizer whose __init__ has not run."""
    import torch

    class Wrapper(torch.optim.Optimizer):
        def __init__(self):
            self.param_groups, self.state = optimizer.param_groups, optimizer.state
            self.optimizer = optimizer

        def state_dict(self):
            return {"n": 1}

        def load_state_dict(self, state):
            assert state == {"n": 1}

        def step(self, closure=None):
            return optimizer.step()
    return Wrapper()


def inner(folder):
    """As SAM has one."""
    import torch
    model = torch.nn.Linear(3, 2)
    outer = torch.optim.Optimizer(model.parameters(), {})
    outer.base = torch.optim.SGD(model.parameters(), .1, momentum=.9)
    ckpt = slurm_ddp.Checkpoint(folder, every=0, model=model, outer=outer)
    model(torch.rand(1, 3)).sum().backward()
    outer.base.step()
    refused("half of an optimizer", ckpt.step, "outer.base is an optimizer whose state outer.state_dict() leaves out: "
            "give it, too: base=outer.base")
    say("ok")


def written(folder, when="later"):
    import torch
    model = torch.nn.Linear(1 << 12, 1 << 12, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.)
    model.weight.grad = torch.ones_like(model.weight)  # optimizer.step() writes, too
    ckpt = slurm_ddp.Checkpoint(folder, every=1, keep=99, model=model, optimizer=optimizer)

    def steps(number, is_early):
        for _ in range(number):
            model.weight.data.fill_(ckpt.steps + 1)
            ckpt.step()
            if is_early:
                with torch.no_grad():
                    model.weight.add_(100)  # as SAM does, and Embedding(max_norm=)
            optimizer.step()
            slurm_ddp.checkpoint.call("ddp_checkpoint_wait", slurm_ddp.job.job().handle)

    is_always = when == "always"
    steps(3, is_always)
    assert ckpt._is_beside is not is_always, "is it copied beside the next pass?"
    steps(1, True)
    status = slurm_ddp.job.job().status()
    if is_always:
        assert not status.n_failed, status.warning
    else:
        assert status.n_failed == 1 and b"weight was written to between Checkpoint.step() and" in status.warning
    steps(2, False)
    steps(2, True)
    assert slurm_ddp.job.job().status().n_failed == status.n_failed
    folders = sorted(name for name in os.listdir(folder) if os.path.exists(f"{folder}/{name}/manifest.json"))
    assert len(folders) == 8 - status.n_failed, folders
    for name in folders:
        with open(f"{folder}/{name}/model-00001-of-00001.safetensors", "rb") as file:
            data = file.read()
        values = torch.frombuffer(bytearray(data[8 + int.from_bytes(data[:8], "little"):]), dtype=torch.float32)
        assert values.min() == values.max() == int(name[5:]), f"{name} has values of {values.min()} to {values.max()}"
    say("ok")


def a_kind_of_tensor(attribute):
    import torch
    return torch.zeros(2).as_subclass(type("Kind", (torch.Tensor,), {attribute: None}))


def text_of(things):
    import torch
    torch.set_printoptions(profile="full", precision=10, sci_mode=True)
    model, rest = things
    text = repr([model.state_dict(), {k: v if isinstance(v, dict) else v.state_dict() for k, v in rest.items()}])
    return re.sub(r"<(bound method|weakref|function)[^>]*>+", "", text)


def torch(folder):
    import numpy
    import torch
    is_new = "new" in sys.argv
    model, rest = things = torch_things(is_new)
    for given in model, rest["optimizer"]:
        refused("a state_dict", lambda: slurm_ddp.Checkpoint(folder, it=given.state_dict()), "it is a state_dict")
    scalars = {"best": numpy.float32("-inf"), "last": numpy.float16(.5), "n": numpy.int8(3),
               "row": numpy.arange(3.)[::-1]}
    scalars = scalars if is_new else {}
    rest["wrapper"] = wrapper_of(rest["optimizer"])
    sigma, more = rest["learned"]["sigma"], rest["learned"]["more"][0]
    # what a program makes of its own next does not lie where the checkpoint's copies do
    elsewhere = torch.device("meta") if hasattr(torch, "set_default_device") else contextlib.nullcontext()
    with elsewhere:
        ckpt = slurm_ddp.Checkpoint(folder, every=0, model=model, scalars=scalars, **rest)
    assert rest["learned"]["sigma"] is sigma and rest["learned"]["more"][0] is more, "not those of the optimizer"
    assert sigma[0] == 4 and more[0].tolist() == [5, 8] and sigma.requires_grad, f"{sigma} {more}"
    assert not more.requires_grad
    refused("another shape", lambda: ckpt._put_back({"a": sigma}, {"a": torch.zeros(2)}, "it"), "it.a is trained, and ")
    free = torch.nn.Parameter(torch.zeros(1))
    assert ckpt._put_back([], [1], "it") == [1] and ckpt._put_back(free, torch.ones(1), "it") is free == 1
    refused("a masked array", lambda: slurm_ddp.tree.Encoder().encode(numpy.ma.zeros(2), "far"), "far is a masked ")
    assert rest["tensors"]["turned"].stride() == (1, 3), "another order in memory"
    row = scalars["row"]
    assert type(row) is numpy.ndarray and {**scalars, "row": row.tolist()} == {"best": -math.inf, "last": .5, "n": 3,
                                                                               "row": [2, 1, 0]}, scalars
    refused("what JSON lacks", lambda: slurm_ddp.tree.Encoder().encode(numpy.longdouble(1), "far"), "far is a ")
    for dtype in "<U1", ">i4":
        refused("what PyTorch lacks", lambda: slurm_ddp.tree.Encoder().encode({"a": numpy.zeros(2, dtype)}, "far"),
                f"far.a is a NumPy array of {dtype}, ")
    for kind, odd in (("a meta tensor, which", torch.zeros(2, device="meta")),
                      ("quantized, which", torch.quantize_per_tensor(torch.zeros(2), 1., 0, torch.quint8)),
                      ("sharded or sparse", torch.eye(2).to_sparse()),
                      ("sharded or sparse", a_kind_of_tensor("full_tensor"))):
        refused("what has no plain values", lambda: slurm_ddp.tree.Encoder().encode({"a": odd}, "far"),
                f"far.a is {kind}")
    made_of_others = a_kind_of_tensor("__tensor_flatten__")
    refused("a tensor of tensors", lambda: slurm_ddp.tree.Encoder().encode({"a": made_of_others}, "far"),
            "far.a is a Kind, which is made of other tensors")
    if is_new:
        numpy.random.seed(slurm_ddp.world().rank)
        numpy.random.standard_normal()  # of a pair
        generator = torch.Generator().manual_seed(1)
        with torch.inference_mode():
            ckpt.save()
        for _ in range(2):
            model(torch.rand(8, 300, generator=generator)).sum().backward()
            rest["optimizer"].step()
            rest["masters"].step()
            rest["multi"].step()
            with elsewhere:
                ckpt.step()
        torch.rand(slurm_ddp.world().rank)
        rest["tensors"]["scalar"] = torch.full((2,), 3.)  # it grows
        with elsewhere:
            ckpt.save()
        assert not any("running" in name for name, *_ in ckpt._versions), "the next forward pass may write there"
    same = hashlib.sha256(text_of(things).encode()).hexdigest()[:8]
    tied = model.tied.weight.data_ptr() == model[2].weight.data_ptr()
    say(slurm_ddp.world().rank, ckpt.steps, same, tied, torch.rand(1).item(), numpy.random.standard_normal(),
        numpy.random.rand())


def draws(tell, folder, how, last):
    """One life of `kept`: to step `last`, or to the end of an epoch that ended there."""
    import torch
    torch.manual_seed(1)
    samplers = [slurm_ddp.Sampler(12, 3, seed=i) for i in range(2 if how == "two" else 1)]
    loaders = [torch.utils.data.DataLoader(range(12), batch_sampler=s, num_workers=1, persistent_workers=how == "kept")
               for s in samplers]
    progress = {"ended": 0}
    ckpt = slurm_ddp.Checkpoint(folder, every=0, progress=progress, **{f"sampler{s.seed}": s for s in samplers})

    def end_epoch():
        if how == "ends":
            tell(torch.rand(1).item())
        progress["ended"] += 1
        ckpt.save()

    for epoch in samplers[0].epochs(3):
        if progress["ended"] < epoch:
            end_epoch()
            if ckpt.steps == last:
                return
        for _ in itertools.islice(zip(*loaders), 3 if how == "pieces" else 4):
            tell(torch.rand(1).item())
            ckpt.step()
            if ckpt.steps == last:
                ckpt.save()
                return
        if progress["ended"] < samplers[0].epoch:
            end_epoch()


def drawn(*life):
    """What it draws in a child: PyTorch is loaded once."""
    reads, writes = os.pipe()
    pid = os.fork()
    if not pid:
        draws(lambda number: os.write(writes, f"{number}\n".encode()), *life)
        os._exit(0)
    os.close(writes)
    with open(reads, encoding="ascii") as file:
        numbers = file.read().split()
    assert os.waitpid(pid, 0)[1] == 0, life
    return numbers


def worker_seed(generator=None, seed=1, rank=0, position=0):
    import torch
    torch.manual_seed(seed)
    sampler = slurm_ddp.Sampler(8, 1, rank=rank, size=2)
    sampler.position = position
    loader = torch.utils.data.DataLoader(range(8), batch_sampler=sampler, generator=generator)
    iter(loader)
    assert generator is None or loader.generator is generator, "the program's own generator is not that of its loader"
    return loader.generator.initial_seed()


def kept(folder):
    import torch
    worker_seed(torch.Generator())
    seeds = {worker_seed(), worker_seed(seed=2), worker_seed(rank=1), worker_seed(position=4)}
    assert len(seeds) == 4 and worker_seed() in seeds, f"the workers' seeds are {seeds}"
    for how in "anew", "kept", "two", "pieces", "ends":
        alone = drawn(f"{folder}.{how}.alone", how, 12)
        lives = [drawn(f"{folder}.{how}", how, last) for last in (3, 4, 4, 6, 12)]
        assert sum(lives, []) == alone and len(alone) == (14 if how == "ends" else 12), f"{how}: {lives}, alone {alone}"
    say("ok")


def trainers():
    class Trainer:
        def __init__(self, args):
            self.args, self.train_dataset = args, range(100)

        def add_callback(self, callback):
            pass

        def _maybe_log_save_evaluate(self):
            pass

    sys.modules["transformers"] = SimpleNamespace(Trainer=Trainer, TrainerCallback=object, __version__="9.1")
    from slurm_ddp import hf
    common = {"max_steps": 1, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 1, "seed": 42,
              "load_best_model_at_end": False}
    for data_seed, want in (None, 42), (0, 0), (7, 7):
        got = hf.Trainer(SimpleNamespace(data_seed=data_seed, **common), folder="").sampler.state_dict()["seed"]
        assert got == want, f"data_seed={data_seed}: the order has seed {got}"
    refused("epochs", lambda: hf.Trainer(SimpleNamespace(max_steps=0), folder=""), "max_steps=...) is needed")
    refused("data without a length", lambda: hf._check(object(), None), "train_dataset is a object, without numbers")
    resumed = SimpleNamespace(global_step=1)
    refused("a resume of its own", lambda: hf._Saves("", None).on_train_begin(None, resumed, None),
            "resume_from_checkpoint=...) is not needed")
    del Trainer._maybe_log_save_evaluate
    refused("a Trainer of another shape", lambda: hf.Trainer(None, folder=""), "transformers 9.1")
    savers()
    say("ok")


def savers():
    sys.modules["lightning"] = sys.modules["lightning.pytorch"] = SimpleNamespace(
        callbacks=SimpleNamespace(Callback=object))
    from slurm_ddp import lightning
    saver = lightning.Saver("", slurm_ddp.Sampler(100, 1, 2))

    def check(is_automatic=True, **changed):
        trainer = {"max_steps": 1, "accumulate_grad_batches": 2, "num_training_batches": 5, "global_step": 0, **changed}
        saver._check(SimpleNamespace(**trainer), SimpleNamespace(automatic_optimization=is_automatic), 5)
    check()
    check(num_training_batches=4)
    refused("epochs", check, "the Trainer needs max_steps", max_steps=-1)
    refused("other steps", check, "accumulate_grad_batches=2, as the Sampler", accumulate_grad_batches=1)
    refused("a resume of its own", check, "Lightning has gone on by itself, at step 1", global_step=1)
    refused("half a step", check, "epochs of 3 batches, no whole steps of 2", num_training_batches=3)
    refused("an optimizer by hand", check, "automatic_optimization=False is not supported", is_automatic=False)


def refused(what, do, *parts, **arguments):
    try:
        do(**arguments)
    except slurm_ddp.Error as e:
        assert all(part in str(e) for part in parts) and "\n" not in str(e), f"{what}: {e}"
        return e
    raise AssertionError(f"{what} is not refused")


def every(folder, number, how=None):
    plain, more = {"is": "old"}, {"more": {}} if how == "more" else {}
    if how in ("more", "format"):
        slurm_ddp.checkpoint.FORMAT += how == "format"
        refused(how, lambda: slurm_ddp.Checkpoint(folder, plain=plain, **more),
                "has no more, but plain: give the same names" if more else "has format 1, this slurm_ddp reads 2: ")
        return
    ckpt = slurm_ddp.Checkpoint(os.fsencode(folder), int(number), 3, **({} if how == "less" else {"plain": plain}))
    if ckpt.resumed:
        assert how or plain == {"n": 10, "drawn": plain["drawn"]} and random.random() == plain["drawn"], plain
        return
    plain.clear()
    for plain["n"] in range(10):
        slurm_ddp.checkpoint.call("ddp_checkpoint_wait", slurm_ddp.job.job().handle)  # of the last one
        ckpt.step()
    assert not slurm_ddp.stop_requested() and ckpt.steps == 10, "it only repeats the answer"
    begun = random.getstate()
    plain.update(n=10, drawn=random.random())  # while the last step's own is still written, perhaps
    random.setstate(begun)
    ckpt.save()


def differ(folder):
    capture, rank = slurm_ddp.rng.capture, slurm_ddp.world().rank
    slurm_ddp.rng.capture = lambda: {**capture(), **({"numpy": b"1"} if rank == 1 else {})}
    ckpt = slurm_ddp.Checkpoint(folder, every=0)
    ckpt.step()
    e = refused("other kinds of numbers", ckpt.save, f"(the random numbers of rank {rank} are those of python"
                f"{', numpy' * rank}: all ranks have to import alike)")
    assert e.domain == "layout" and e.code, e.domain
    say("ok")


def full(folder):
    plain = {"best": 1}
    ckpt = slurm_ddp.Checkpoint(folder, every=0, plain=plain, log=slurm_ddp.Metrics(os.devnull))
    ckpt.step()
    ckpt.save()
    plain["best"] = 2
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if slurm_ddp.world().rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    e = refused("a save that fails", ckpt.save, f"step 1 was not saved to {folder}: rank 0: ",
                ": the checkpoint of step 1 failed: rank 1: ", "File too large")
    assert why_of(type(e), e).startswith(b"rank 1: Checkpoint: step 1 "), "guards would blame another rank"
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    ckpt.save()
    say("ok")


def fails(folder):
    ckpt = slurm_ddp.Checkpoint(folder, every=0, plain={"best": 1})
    ckpt.step()
    if slurm_ddp.world().rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
    ckpt.save()


def waits(folder):
    ckpt = slurm_ddp.Checkpoint(folder, every=0, plain={"best": 1})
    ckpt.step()
    ckpt.save()
    say("saved")


class Array:
    """As NumPy's and PyTorch's."""

    def __init__(self, value):
        self.value = value

    def tolist(self):
        return self.value


def metrics(folder, file):
    os.chdir(os.path.dirname(file))
    log = slurm_ddp.Metrics(os.path.basename(file))
    os.chdir("/")
    ckpt = slurm_ddp.Checkpoint(folder, every=0, log=log)
    log.log(step=ckpt.steps)
    ckpt.step()
    ckpt.save()
    log.log(late=True)


def progress(ddp):
    for _ in range(3):
        slurm_ddp.stop_requested()
    if slurm_ddp.world().rank == 0:
        shown = subprocess.run([ddp, "ps"], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
        say(*(line for line in shown.splitlines() if str(os.getpid()) in line.split()))
    slurm_ddp.stop_requested()
    refused("a Checkpoint behind it", lambda: slurm_ddp.Checkpoint("never"), "comes before stop_requested()")


def record(folder):
    refused("too early", lambda: slurm_ddp.record("epoch", number=1), "epoch comes after Checkpoint(...)")
    slurm_ddp.Checkpoint(folder, every=0)
    slurm_ddp.record("epoch")
    slurm_ddp.record("validation", step=3, loss=Array(2.5), worst=math.inf, each=(Array([1, math.nan]), {"a": None}),
                     name='"\n\N{SNOWMAN}')
    refused("an event of libddp's", lambda: slurm_ddp.record("end"), "end is an event of libddp's own")
    refused("no name", lambda: slurm_ddp.record("Epoch 3"), "letters of a-z")
    refused("no JSON", lambda: slurm_ddp.record("epoch", it=print), "epoch is not JSON: ")
    refused("too much", lambda: slurm_ddp.record("epoch", each=[0.5] * 200000), "have at most 1000000 bytes, not ")
    refused("a second time", lambda: slurm_ddp.record("epoch", t=3), "each once, without event and t")
    say("ok")


def goodput(folder):
    refused("too early", slurm_ddp.goodput, "goodput comes after Checkpoint(...)")
    ckpt = slurm_ddp.Checkpoint(folder, every=0)
    for _ in range(3):
        ckpt.step()
    ckpt.save()
    say(slurm_ddp.goodput())


def peak(folder):
    ckpt = slurm_ddp.Checkpoint(folder, every=0)
    ballast = b"1" * (slurm_ddp.world().rank * 64 << 20)
    for _ in range(60):  # of which 50 are an interval, and the last is rank 0's alone
        ckpt.step()
    del ballast


def parts(folder):
    def work(name, s):
        with slurm_ddp.part(name):
            time.sleep(s)

    def load():
        for _ in range(60):
            time.sleep(.001)
            yield 1

    refused("too early", lambda: work("forward", 0), "part: forward comes after Checkpoint(...)")
    ckpt = slurm_ddp.Checkpoint(folder, every=0)
    refused("no part", lambda: work("loss", 0), "no part loss: there are data, forward, backward, exposed, optimizer,")
    with slurm_ddp.part("forward"):
        refused("an error", lambda: work("loss", 0), "no part loss")
        try:
            with slurm_ddp.part("optimizer"):
                raise ValueError
        except ValueError:
            time.sleep(.04)  # in forward again
    for _ in slurm_ddp.batches(load()):
        work("forward", .001)
        with slurm_ddp.part("backward"):
            work("exposed", .002)
            time.sleep(.001)
        work("optimizer", .003)
        time.sleep(.001)
        ckpt.step()
        time.sleep(.001)
    line = slurm_ddp.goodput()
    if not line:
        return
    with open(os.environ["DDP_RECORD"], encoding="ascii") as file:
        intervals = [i for i in map(json.loads, file) if i["event"] == "interval"]
    assert [i["steps"] for i in intervals] == [1, 49, 10], intervals
    assert intervals[0]["parts"]["forward"] > .04, "an exception ends no part"
    for name, least in ("data", 1), ("forward", 1), ("backward", 1), ("exposed", 2), ("optimizer", 3), ("other", 2):
        took = [1000 * i["parts"][name] / i["steps"] for i in intervals[1:]]
        assert min(took) >= least, f"{name}: {took} ms a step, less than {least}"
    assert re.match("goodput .*, data ", line), line
    say("ok")


class Reader:
    """As Accelerate's read a sampler."""

    def read(self, of):
        return list(of)


class AcceleratedOptimizer:
    """Of accelerator.prepare()."""
    gradient_state = SimpleNamespace(sync_gradients=False)
    optimizer = Thing({})


def read_twice(batches_a_step):
    """What it is warned of."""
    s = slurm_ddp.Sampler(8, 1, rank=0, size=1)
    for i, _ in enumerate(s, 1):
        if i % batches_a_step == 0:
            s.step()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        iter(s)
    return [str(w.message) for w in found]


def wrong(folder):
    before_it = []  # whatever is registered before the Checkpoint runs behind its end
    atexit.register(lambda: refused("a save behind the end", before_it[0].save, "this process has left the job"))
    s = slurm_ddp.Sampler(100, 4)
    refused("a step nobody has read", s.step, "samples nobody has read")
    for accumulate, size in (1, 4), (2, 2):
        refused("too few samples", lambda: slurm_ddp.Sampler(3, 1, accumulate, rank=0, size=size),
                f"3 samples are fewer than one for each of {accumulate} batches on {size} ranks")
    for n, seed, why in (99, 0, "n 99, not 100"), (100, 1, "seed 1, not 0"):
        refused("other data", lambda: s.load_state_dict({"n": n, "seed": seed, "position": 0}), why)
    refused("data without numbers", lambda: slurm_ddp.Sampler(iter([1]), 1), "a list_iterator has no length")
    for kind, why in (("BatchSamplerShard", "prepare() would share"), ("BatchSampler", "batches of its batches: "),
                      ("SkipBatchSampler", "skip_first_batches() would")):
        refused("another's reading", type(kind, (Reader,), {})().read, why, of=s)
    assert not read_twice(1) and "accumulate=N" in read_twice(2)[0] and "accumulate=N" in read_twice(9)[0]
    for batch, accumulate, rank in (0, 1, 0), (1, 0, 0), (1, 1, 1), (1, 1, -1):
        refused("numbers", lambda: slurm_ddp.Sampler(3, batch, accumulate, rank=rank, size=1), "at least 1, 1, and a")
    assert slurm_ddp.Sampler(8, 1, rank=0).size == 1 and slurm_ddp.Sampler(8, 1, size=2).rank == 0
    last = slurm_ddp.Sampler(100, 1, 2, rank=0, size=4)
    last.load_state_dict({"n": 100, "seed": 0, "position": 230})
    refused("an epoch that is over", lambda: last.set_epoch(0), "set_epoch(0), but training is in epoch 2")
    last.set_epoch(2)
    assert last.position == 230, "the epoch that it is in"
    last.load_state_dict({"n": 100, "seed": 0, "position": 96})
    refused("more ranks than are left", lambda: [list(last) for _ in last.epochs(1)], "go on with at most 2 ranks")
    for name in "x" * 32, ".x", "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n", "":
        things = {name: {}}
        refused("a name", lambda: slurm_ddp.Checkpoint(folder, **things), "a name is letters, digits and ._-, at most")
    refused("no folder", lambda: slurm_ddp.Checkpoint(None), "None is no folder")
    refused("a thing without a state", lambda: slurm_ddp.Checkpoint(folder, thing=1), "thing has no state_dict()")
    module_state = OrderedDict(weight=1)
    module_state._metadata = OrderedDict()  # as PyTorch's have it
    for kind in ("ZeroRedundancyOptimizer", "PostLocalSGDOptimizer", "FullyShardedDataParallel",
                 "StatefulDataLoader"):
        refused(kind, lambda: slurm_ddp.Checkpoint(folder, it=type(kind, (), {})()), f"it is a {kind}, of which ranks ")
    for given in module_state, {"state": {}, "param_groups": []}:
        refused("a state_dict", lambda: slurm_ddp.Checkpoint(folder, net=given), "net is a state_dict, which no resume")
    ckpt = slurm_ddp.Checkpoint(folder, every=0, bad=Thing({"f": refused}), state={"state": 1},
                                prepared=AcceleratedOptimizer(), **{"x" * 31: {}})
    assert why_of(OSError, OSError("no\nfile \udcff")) == b"OSError: no file ?"
    assert why_of(slurm_ddp.Error, slurm_ddp.Error("full", rank=3)) == b"rank 3: full"
    assert why_of(slurm_ddp.Error, slurm_ddp.Error("full")) == b"full"
    before_it.append(ckpt)
    slurm_ddp.job.calls.append("another thread's")
    slurm_ddp.job.job().close()
    slurm_ddp.job.calls.pop()
    assert slurm_ddp.job.job().handle, "closed beside a call"
    refused("a step that is none", ckpt.step, "accelerator.sync_gradients is True")
    refused("a second one", lambda: slurm_ddp.Checkpoint(folder), "has one already")
    refused("a function", ckpt.save, "bad.f is a function")
    point = namedtuple("Point", "x y")(1, 2)
    refused("a namedtuple", lambda: slurm_ddp.tree.Encoder().encode({"at": point}, "far"), "far.at is a Point: ")
    say("ok")


def used(n, *lives):
    epochs, begun = {}, 0
    for life in lives:
        folder, last = life.rsplit(":", 1)
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="ascii") as file:
                for step, epoch, *ids in (map(int, line.split()) for line in file):
                    if begun < step <= int(last):
                        epochs.setdefault(epoch, []).extend(ids)
        begun = int(last)
    for epoch in sorted(epochs)[:-1]:
        assert each_once(epochs[epoch], int(n)), f"epoch {epoch} has not each sample once"
    rest = epochs[max(epochs)]
    assert len(set(rest)) == len(rest), "the last epoch has a sample twice"
    say(f"{len(epochs) - 1} whole epochs and {len(rest)} samples, each once")


CHECKS = (sampler, resume, order, peers, children, spawned, workers, raises, stop, requeue, deadline, state, every,
          differ, full, fails, waits, torch, written, metrics, progress, record, goodput, peak, parts, wrong, inner,
          kept, trainers, used)
if __name__ == "__main__":
    {f.__name__: f for f in CHECKS}[sys.argv[1]](*(a for a in sys.argv[2:] if a != "new"))
    if sys.argv[1] in ("sampler", "resume"):
        say("ok")

"""checkpoint.py - a training loop's state in libddp's checkpoints."""
import ctypes
import errno
import functools
import json
import os
import re
import sys
import types
import weakref

from . import rng
from ._lib import Error, call, library
from .job import Stopped, job, log, why_stopped
from .metrics import Metrics
from .sampler import Sampler
from .tree import DTYPES, Encoder, decode, dtype_name

FORMAT = 1  # of state.json
NAME = re.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,30}")  # of a thing, and of libddp's group of its tensors


# What DistributedDataParallel, torch.compile and Accelerate make of a thing, and where that has it.
WRAPPERS = {"DistributedDataParallel": "module", "OptimizedModule": "_orig_mod", "AcceleratedOptimizer": "optimizer",
            "AcceleratedScheduler": "scheduler"}


# What PyTorch has only a rank's part of, or lets differ between ranks, and what does instead.
PARTS = {"ZeroRedundancyOptimizer": "use the optimizer that it wraps",
         "PostLocalSGDOptimizer": "use the optimizer that it wraps",
         "FullyShardedDataParallel": "save by torch.distributed.checkpoint",
         "StatefulDataLoader": "give a Sampler, which its batch_sampler is; a stream's place is each rank's to save"}


def _plain(thing):
    while type(thing).__name__ in WRAPPERS:
        thing = getattr(thing, WRAPPERS[type(thing).__name__])
    return thing


def _state(thing):
    """Without what some schedulers have in theirs, methods and, as SWALR, functions: one that is made anew has them."""
    is_scheduler = any(c.__name__ in ("LRScheduler", "_LRScheduler") for c in type(thing).__mro__)
    code = (types.MethodType, weakref.ref) + ((types.FunctionType,) if is_scheduler else ())
    return thing if isinstance(thing, dict) else _data(thing.state_dict(), code)


def _data(state, code):
    if type(state) is dict:
        return {k: _data(v, code) for k, v in state.items() if not isinstance(v, code)}
    return [_data(v, code) for v in state] if type(state) is list else state


def _is_optimizer(thing):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.optim.Optimizer)


def _tensors_of(optimizer):
    states = [state for state in optimizer.state.values() if isinstance(state, dict)]  # else one of its own: a number
    return [v for state in states for v in state.values() if hasattr(v, "data_ptr")]


def _with_types(now, saved, find):
    """`now`, with those of its tensors as saved (tree.py) whose type was another."""
    if hasattr(now, "dtype"):
        return decode(saved, find).to(now.device) if saved.get("dtype", dtype_name(now)) != dtype_name(now) else now
    if isinstance(now, dict):
        now.update({k: _with_types(v, saved[k], find) for k, v in now.items() if k in saved})
    if isinstance(now, list) and isinstance(saved, list):
        now[:] = [_with_types(*pair, find) for pair in zip(now, saved)]
    return now


def _is_state(thing):
    """A state_dict of PyTorch's: one that is loaded back has to go to what it was made of, which a dict cannot say."""
    return isinstance(thing, dict) and (hasattr(thing, "_metadata") or thing.keys() == {"state", "param_groups"})


class Checkpoint:
    """Saves and restores what it is given, by name: whatever has state_dict() and load_state_dict() (modules,
    optimizers, schedulers, scalers, a Sampler, Metrics), and plain dicts; and the random numbers of Python, NumPy and
    PyTorch. Where `folder`, which all nodes share, has a checkpoint, the newest whole one is restored here.

        ckpt = Checkpoint("ckpt", model=model, optimizer=optimizer, sampler=sampler)
        ... optimizer.step(); ckpt.step()
        ckpt.save()

    every: steps between checkpoints (0: only when asked to stop, and save(); default: as often as pays).
    keep: how many of the newest stay (default 2). All ranks do the same. Errors are slurm_ddp.Error.
    """

    def __init__(self, folder, every=None, keep=None, **things):
        if not isinstance(folder, (str, bytes, os.PathLike)):
            raise Error(f"Checkpoint: {folder!r} is no folder: give its path")
        self._folder = os.fsencode(folder)
        self._things = {name: _plain(thing) for name, thing in things.items()}
        self._accumulation = [t.gradient_state for t in things.values() if type(t).__name__ == "AcceleratedOptimizer"]
        for name, thing in self._things.items():
            if not NAME.fullmatch(name):
                raise Error(f"Checkpoint: {name!r}: a name is letters, digits and ._-, at most 31: files are called so")
            if type(thing).__name__ in PARTS:
                raise Error(f"Checkpoint: {name} is a {type(thing).__name__}, of which ranks have different parts or "
                            f"values: {PARTS[type(thing).__name__]}")
            if not isinstance(thing, dict) and not hasattr(thing, "load_state_dict"):
                raise Error(f"Checkpoint: {name} has no state_dict() and load_state_dict(), and is no dict")
            if _is_state(thing):
                raise Error(f"Checkpoint: {name} is a state_dict, which no resume would load into anything: give the "
                            "module or optimizer itself")
        if job().has_checkpoint:
            raise Error("Checkpoint: this process has one already: give it all that is to be saved (in a notebook, "
                        "start the kernel again)")
        if job().is_open:
            raise Error("Checkpoint: it comes before stop_requested(), and once one has failed the process has to be "
                        "started again (in a notebook, the kernel)")
        options = {"ckpt-every": every, "keep": keep}
        self._job = job().open({k: v for k, v in options.items() if v is not None})
        self._samplers = [t for t in self._things.values() if isinstance(t, Sampler)]
        self._declared = None  # what libddp was told of the tensors
        self._kept = None      # tensors that libddp may still read
        self._staged = {}      # name -> the memory of ours that a tensor is copied to
        self._is_copying = False  # since a checkpoint began there was no optimizer.step()
        self._is_beside = None    # are copies made beside the next pass? None: not before a step is seen in which
        #                           nothing else wrote; False: something does
        self._versions = []    # (name, tensor, its version) when the last copy began, of what is read in place
        self._unread = {}      # restored random numbers
        self.resumed = self._resume()
        self._job.has_checkpoint = True
        for optimizer in self._optimizers().values():
            self._guard(optimizer)

    @property
    def steps(self):
        """Steps done, those before the resume included."""
        return library().ddp_steps_done(self._job.handle)

    # ---- the loop ----

    def step(self):
        """To be called after each optimizer.step(), on every rank: the step is done. Begins a checkpoint where one is
        due; where the job is asked to stop, saves, has it requeued (--ddp=on,requeue=auto), and raises Stopped."""
        if not all(state.sync_gradients for state in self._accumulation):
            raise Error("Checkpoint: step() came within accelerator.accumulate(), and no checkpoint has gradients: "
                        "call it where accelerator.sync_gradients is True, and give Sampler(accumulate=N)")
        if self._declared is None:
            tensors = self._collect()[1]
            self._check_inner(tensors)
            self._declare(tensors, list(self._owners(tensors)))
        if self._is_copying and self._is_beside:
            self._check_unwritten()
        done = self._job.step()
        for sampler in self._samplers:
            sampler.step()
        if done.stop:
            self._leave(why_stopped(done))
        if done.checkpoint:
            self._begin()
        self._job.tell()

    def save(self):
        """A checkpoint of now: returns when it is committed, on every rank. For the end of training."""
        self._wait_copied()
        call("ddp_checkpoint_wait", self._job.handle)
        self._save_last()

    def _save_last(self):
        n_before = self._job.status().n_committed
        while not self._is_saved(n_before):
            try:
                self._begin()
                call("ddp_checkpoint_wait", self._job.handle)
            except Error as e:  # ckpt-required=on
                if e.code not in (errno.ENOSPC, errno.EDQUOT):
                    raise
            self._job.tell()
            if not self._is_saved(n_before) and not call("ddp_checkpoint_retry", self._job.handle):
                self._fail_last()
            self._job.tell()

    def _is_saved(self, n_before):
        """One of this step that is there may be an older one."""
        status = self._job.status()
        return status.last_step == self.steps and status.n_committed > n_before

    def _fail_last(self):
        """Of ranks that raise one aborts first, for all: rank 0 has told by then, and each knows what rank 0 knows."""
        self._job.tell()
        status = self._job.status()
        raise Error(f"Checkpoint: step {self.steps} was not saved to {os.fsdecode(self._folder)}: rank 0: "
                    f"{self._job.warning_of_rank_0() or 'no reason is known'}", "data",
                    rank=status.failed_rank if status.n_failed else None)

    def _leave(self, why):
        self._save_last()
        note = library().ddp_requeue_note(self._job.handle)
        text = f"{why}, with a checkpoint of step {self.steps}" + (f": {note.decode()}" if note else "")
        if self._job.world.rank == 0:
            log.warning("%s", text)
        raise Stopped(text)

    # ---- saving ----

    def _optimizers(self):
        return {name: thing for name, thing in self._things.items() if _is_optimizer(thing)}

    def _guard(self, optimizer):
        """Parameters change in optimizer.step(): not before they are copied."""
        if hasattr(optimizer, "_optimizer_step_pre_hooks"):
            optimizer.register_step_pre_hook(lambda *_: self._wait_copied())
            return
        inner = optimizer.step  # PyTorch before 2.0, and a wrapper that does not call Optimizer.__init__

        @functools.wraps(inner)
        def step(_, *args, **kwargs):
            self._wait_copied()
            return inner(*args, **kwargs)
        optimizer.step = types.MethodType(step, optimizer)

    def _wait_copied(self):
        if self._is_copying:
            self._check_unwritten()
            call("ddp_state_copied", self._job.handle)
            self._is_copying = False

    def _check_unwritten(self):
        """Some write to parameters before optimizer.step(): SAM, Embedding(max_norm=), a decay by hand."""
        name = next((name for name, t, version in self._versions if t._version != version), None)
        if name and self._is_beside:
            why = (f"{name} was written to between Checkpoint.step() and optimizer.step(), while it was copied: the "
                   "next ones are copied before step() returns; to write before step(), or after save(), costs no time")
            call("ddp_state_torn", self._job.handle, why.encode())
        if name or self._is_beside is None:
            self._is_beside = name is None

    def _replicated(self):
        """Where the tensors lie that are the same on all ranks and change in optimizer.step() alone."""
        optimizers = self._optimizers().values()
        tensors = [p for o in optimizers for group in o.param_groups for p in group["params"]]
        return {t.data_ptr() for t in tensors + [t for o in optimizers for t in _tensors_of(o)]}

    def _collect(self):
        """The text, and (group, name, tensor, is replicated) of each tensor."""
        encoder, tree, group = Encoder(), {}, {}
        for name, thing in self._things.items():
            known = set(encoder.tensors)
            tree[name] = encoder.encode(_state(thing), "" if name == "model" else name)
            group.update(dict.fromkeys(encoder.tensors.keys() - known, name))
        replicated = self._replicated()
        all_of = [(group[name], name, t, t.data_ptr() in replicated) for name, t in encoder.tensors.items()]
        # A thing called rng comes last: its tensors are of one group with the random numbers.
        all_of.sort(key=lambda a: (a[0] == "rng", list(self._things).index(a[0]), not a[3]))
        return json.dumps({"format": FORMAT, "things": tree}, allow_nan=False), all_of

    def _check_inner(self, tensors):
        """That of an optimizer which another one wraps is saved, too: SAM's state_dict(), for one, leaves it out."""
        saved = {t.data_ptr() for _, _, t, _ in tensors}
        for name, optimizer in self._optimizers().items():
            for attribute, inner in vars(optimizer).items():
                held = _tensors_of(inner) if _is_optimizer(inner) else ()
                if any(t.numel() and t.data_ptr() not in saved for t in held):
                    raise Error(f"Checkpoint: {name}.{attribute} is an optimizer whose state {name}.state_dict() "
                                f"leaves out: give it, too: {attribute}={name}.{attribute}")

    def _owners(self, tensors):
        """-1: libddp reads it where it lies, and splits it over the ranks. What has to be copied is written by one
        rank: a replicated tensor by the next one, so that each has as many bytes; all else by rank 0."""
        sizes = [t.numel() * t.element_size() for _, _, t, _ in tensors]
        total, so_far = max(sum(sizes), 1), 0
        for (_, _, t, is_replicated), size in zip(tensors, sizes):
            in_place = is_replicated and t.device.type == "cpu" and t.is_contiguous() and dtype_name(t) in DTYPES
            yield -1 if in_place else so_far * self._job.world.size // total if is_replicated else 0
            so_far += size

    def _stage(self, name, tensor):
        """A copy in memory that stays where it is."""
        torch = sys.modules["torch"]
        flat = tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else tensor.reshape(-1)
        to = self._staged.get(name)
        if to is None or to.numel() != flat.numel():
            with torch.inference_mode(False):  # it is written to later, too, outside of one
                to = self._staged[name] = torch.empty(flat.numel(), dtype=torch.uint8, device="cpu")
        if flat.numel():
            to.copy_(flat)
        return to.data_ptr()

    def _stage_bytes(self, name, data):
        to = self._staged.get(name)
        if to is None:
            to = self._staged[name] = ctypes.create_string_buffer(len(data))
        to[:] = data
        return ctypes.addressof(to)

    def _rows(self, tensors, owners):
        """What libddp is told of each tensor; copies those that it does not read in place."""
        rank, rows = self._job.world.rank, []
        for (group, name, t, _), owner in zip(tensors, owners):
            at = t.data_ptr() if owner < 0 else self._stage(name, t) if owner == rank else None
            known = DTYPES.get(dtype_name(t))
            shape = tuple(t.shape) if known else (t.numel() * t.element_size(),)
            if not t.numel():
                at = 1  # it lies nowhere, and is not read
            rows.append((group, name, known or "U8", shape, at, owner))
        own = rng.capture()
        if any(sampler.on_read for sampler in self._samplers):  # the restored ones come with the first batch
            own = {kind: self._unread.get(kind, data) for kind, data in own.items()}
        for r in range(self._job.world.size):
            for kind, data in own.items():
                name = f"rng.{r}.{kind}"
                at = self._stage_bytes(name, data) if r == rank else None
                rows.append(("rng", name, "U8", (len(data),), at, r))
        return rows

    def _declare(self, tensors, owners):
        rows = self._rows(tensors, owners)
        if rows == self._declared:
            return
        call("ddp_state_reset", self._job.handle)
        for group, name, dtype, shape, at, owner in rows:
            dims = (ctypes.c_uint64 * max(len(shape), 1))(*shape)
            call("ddp_state_add", self._job.handle, group.encode(), name.encode(), dtype.encode(), dims, len(shape), at,
                 owner)
        self._declared = rows

    def _begin(self):
        self._wait_copied()
        text, tensors = self._collect()
        owners = list(self._owners(tensors))
        self._declare(tensors, owners)
        self._kept = tensors
        self._versions = [(name, t, t._version) for (_, name, t, _), owner in zip(tensors, owners)
                          if owner < 0 and not t.is_inference()]
        self._save(text)
        if not self._is_beside:
            call("ddp_state_copied", self._job.handle)
        self._is_copying = True

    def _save(self, text):
        try:
            call("ddp_state_save", self._job.handle, self._folder, text.encode())
        except Error as e:
            if e.domain != "layout":
                raise
            kinds = ", ".join(rng.capture())
            raise Error(f"{e} (the random numbers of rank {self._job.world.rank} are those of {kinds}: all ranks have "
                        "to import alike)", e.domain, e.code) from None

    # ---- restoring ----

    def _resume(self):
        if not call("ddp_state_resume", self._job.handle, self._folder):
            for thing in self._things.values():
                if isinstance(thing, Metrics):
                    thing.begin_anew()
            return False
        handle = self._job.handle
        state = json.loads(library().ddp_state_text(handle))
        if state.get("format") != FORMAT:
            raise Error(f"Checkpoint: state.json has format {state.get('format')}, this slurm_ddp reads {FORMAT}: use "
                        "the version that wrote it", "data")
        saved = state["things"]
        missing = [name for name in self._things if name not in saved]
        if missing:
            raise Error(f"Checkpoint: that of step {self.steps} has no {', '.join(missing)}, but "
                        f"{', '.join(saved) or 'nothing'}: give the same names, or name another folder")
        left = [name for name in saved if name not in self._things]
        if left:
            log.warning("the checkpoint of step %d has %s, too, which nobody asks for", self.steps, ", ".join(left))
        for name, thing in self._things.items():
            value = decode(saved[name], self._find)
            if isinstance(thing, dict):
                value = self._put_back(thing, value, name)
                thing.clear()
                thing.update(value)
            else:
                thing.load_state_dict(value)
        self._restore_types(saved)
        self._restore_rng()
        call("ddp_state_reset", handle)
        log.info("resumed from step %d", self.steps)
        self._job.tell()
        return True

    def _put_back(self, now, value, name):
        """`value`, a dict's, in those tensors of `now` that are trained: an optimizer, or the program, holds them."""
        if isinstance(now, dict) and isinstance(value, dict):
            return type(value)({k: self._put_back(now.get(k), v, f"{name}.{k}") for k, v in value.items()})
        if isinstance(now, (list, tuple)) and type(now) is type(value) and len(now) == len(value):
            return type(value)(self._put_back(*pair, f"{name}.{i}") for i, pair in enumerate(zip(now, value)))
        if not hasattr(now, "data_ptr") or not (now.requires_grad or now.data_ptr() in self._replicated()):
            return value
        if not hasattr(value, "data_ptr") or value.shape != now.shape:
            raise Error(f"Checkpoint: {name} is trained, and has shape {tuple(now.shape)}, which that of step "
                        f"{self.steps} has not: give what was saved, or name another folder")
        now.data.copy_(value)
        return now

    def _restore_types(self, saved):
        """An optimizer casts what it loads to its parameter's type, also a float32 copy of a bfloat16 parameter. Where
        a parameter had another type when it was saved, that is meant."""
        cast = set()
        for name, tree in saved.items():
            if "$module" in tree and name in self._things:
                now, rows = self._things[name].state_dict(), tree["$module"]
                cast |= {t.data_ptr() for k, t in now.items() if hasattr(t, "data_ptr") and
                         rows.get(k, {}).get("dtype") != dtype_name(t)}
        for name, optimizer in self._optimizers().items():
            tree = saved[name].get("state")
            rows = tree.get("$dict", ()) if isinstance(tree, dict) else ()  # else of a form of its own
            states = {k: v for k, v in rows if isinstance(v, dict)}
            for i, p in enumerate(p for group in optimizer.param_groups for p in group["params"]):
                if i in states and isinstance(optimizer.state.get(p), dict) and p.data_ptr() not in cast:
                    _with_types(optimizer.state[p], states[i], self._find)

    def _find(self, name, is_needed=True):
        n = ctypes.c_size_t()
        at = library().ddp_state_find(self._job.handle, name.encode(), ctypes.byref(n))
        if at is None and is_needed:
            raise Error(f"Checkpoint: that of step {self.steps} has no tensor {name}", "data")
        return memoryview((ctypes.c_char * n.value).from_address(at)) if at is not None else None

    def _restore_rng(self):
        """At the first batch, where a Sampler says when that is."""
        names = ("python", "numpy", "torch", "cuda")
        found = {kind: self._find(f"rng.{self._job.world.rank}.{kind}", False) for kind in names}
        self._unread = {kind: bytes(data) for kind, data in found.items() if data is not None}
        for sampler in self._samplers:
            sampler.on_read = lambda: rng.restore(self._unread)
        if not self._samplers:
            rng.restore(self._unread)

"""metrics.py - a log of JSON lines that a resume cuts back to the checkpoint; the run's record, and what it says."""
import contextlib
import ctypes
import json
import math
import os
import stat

from ._lib import Error, call, library
from .job import job, log

PARTS = "data", "forward", "backward", "exposed", "optimizer", "checkpoint", "other"  # enum ddp_part


class Metrics:
    """log(**values) appends a line to `path` on rank 0, and does nothing elsewhere. Given to a Checkpoint, lines beyond
    the checkpoint that training goes on from are cut off, since their steps come again. Where there is none, what the
    file has is another run's: it becomes PATH.1, or .2 and so on."""

    def __init__(self, path):
        self._path = os.path.abspath(path)
        self._file = open(path, "a", encoding="utf-8") if job().world.rank == 0 else None
        self._is_cut = self._file is not None and stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)

    def log(self, **values):
        line = _json("Metrics.log", values)
        if self._file:
            self._file.write(line + "\n")
            self._file.flush()

    def state_dict(self):
        if not self._is_cut:
            return {"bytes": 0}
        os.fsync(self._file.fileno())  # before the checkpoint that counts on it
        return {"bytes": os.fstat(self._file.fileno()).st_size}

    def begin_anew(self):
        if not self._is_cut or os.fstat(self._file.fileno()).st_size == 0:
            return
        n = 1
        while os.path.lexists(f"{self._path}.{n}"):
            n += 1
        log.warning("%s has lines, and there is no checkpoint to go on from: they are in %s.%d now", self._path,
                    self._path, n)
        os.rename(self._path, f"{self._path}.{n}")
        self._file.close()
        self._file = open(self._path, "a", encoding="utf-8")

    def load_state_dict(self, state):
        if not self._is_cut:
            return
        size = os.fstat(self._file.fileno()).st_size
        if size > state["bytes"]:
            os.ftruncate(self._file.fileno(), state["bytes"])
        elif size < state["bytes"]:
            log.warning("%s has lost %d bytes since the checkpoint was saved: lines are missing", self._path,
                        state["bytes"] - size)


def _plain(value):
    """As JSON has it: numbers of NumPy and PyTorch are numbers, arrays lists; what is not finite is None."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _plain(v) for name, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def _json(what, values):
    try:
        return json.dumps(_plain(values), allow_nan=False)
    except (TypeError, ValueError) as e:
        raise Error(f"{what} is not JSON: {e}: give numbers, texts, lists and dicts") from e


def _opened(what):
    if not job().is_open:
        raise Error(f"{what} comes after Checkpoint(...) or stop_requested(), which open the run's record")
    return job()


def record(event, **members):
    """Adds an event to the run's record (DDP_RECORD; ddp-record(5)), as ddp_record(3) does: a line of JSON from rank 0.
    On other ranks, or without a record, nothing happens. After a Checkpoint or stop_requested(), which open the record;
    on the thread that makes the steps. Not collective."""
    j = _opened(f"record: {event}")
    call("ddp_record", j.handle, str(event).encode(), _json(f"record: {event}", members)[1:-1].encode())


@contextlib.contextmanager
def part(name):
    """`with part("forward"):` what is done there is in that part of a step's time, one of PARTS, in the run's record:
    ddp_state_part(3). Within another one it is taken out of that. "exposed" is waiting for other ranks. On the thread
    that makes the steps."""
    j = _opened(f"part: {name}")
    if name not in PARTS:
        raise Error(f"part: no part {name}: there are {', '.join(PARTS)}")
    before = call("ddp_state_part", j.handle, PARTS.index(name))
    try:
        yield
    finally:
        library().ddp_state_part(j.handle, before, None)  # where a call has failed, that is the error


def batches(loader):
    """for x, y in batches(loader): the same, where the time until each is there is in the part "data"."""
    source, end = iter(loader), object()
    while True:
        with part("data"):
            batch = next(source, end)
        if batch is end:
            return
        yield batch


def goodput():
    """What the run's time was worth, restarts and requeues included: on rank 0 a line of text, "goodput 91.3% of 2 h 14
    min: useful ...", which the job's comment gets, too; None elsewhere, and without a record (DDP_RECORD). It ends the
    record: for the end of training, behind save(). Collective. Without it the comment is set when the process ends."""
    j, line = _opened("goodput"), ctypes.c_char_p()
    call("ddp_goodput", j.handle, ctypes.byref(line))
    j.tell()
    return line.value.decode() if line.value else None

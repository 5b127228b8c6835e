"""libddp by ctypes: where it is, what is called of it, and its errors as exceptions."""
import ctypes
import functools
import glob
import os
import shutil
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p

NAME = "libddp.so.0"
HERE = os.path.dirname(os.path.abspath(__file__))
DOMAINS = ("", "usage", "system", "boot", "comm", "peer", "timeout", "data", "layout")


class Error(RuntimeError):
    """One line that names the thing and the cure. `domain` is one of DOMAINS: "peer" means that another rank died.
    `rank` is the one that it is about, where all ranks raise it."""

    def __init__(self, text, domain="usage", code=0, rank=None):
        super().__init__(text)
        self.domain = domain
        self.code = code
        self.rank = rank


class RawError(ctypes.Structure):
    _fields_ = [("domain", c_int), ("code", c_int), ("text", c_char * 256)]


class World(ctypes.Structure):
    """This process among the ranks."""

    _fields_ = [(name, c_int) for name in ("rank", "size", "local_rank", "local_size", "node", "n_nodes")]


class Step(ctypes.Structure):
    _fields_ = [("step", c_uint64), ("end_s", c_double), ("stop_signal", c_int), ("stop", c_bool),
                ("checkpoint", c_bool)]


class Status(ctypes.Structure):
    _fields_ = ([(name, c_uint64) for name in ("n_committed", "n_failed", "n_postponed", "last_step", "resumed_step")] +
                [(name, c_double) for name in ("blocked_s", "copy_s", "write_s", "commit_s")] +
                [("bytes", c_uint64), ("in_flight", c_bool), ("path", c_char * 256), ("warning", c_char * 1024)] +
                [("resumed_skipped", c_uint64), ("failed_rank", c_int), ("failed_node", c_char * 64)])


def why_of(kind, value):
    """The exception that ends this rank, for ddp_abort: one line, which begins with the rank that it is about."""
    if not isinstance(value, Error):
        text = f"{kind.__name__}: {value}"
    else:
        text = str(value) if value.rank is None else f"rank {value.rank}: {value}"
    return text.replace("\n", " ").encode(errors="replace")


ERROR, HANDLE = POINTER(RawError), c_void_p
I64 = 5  # of enum ddp_dtype
# As in ddp.h; those that end with ERROR return 0 or more, NULL or -1 on an error.
CALLS = {
    "ddp_init": (HANDLE, c_void_p, c_void_p, ERROR),
    "ddp_finalize": (None, HANDLE),
    "ddp_abort": (None, HANDLE, c_int, c_char_p),
    "ddp_world": (POINTER(World), HANDLE),
    "ddp_bcast": (c_int, HANDLE, c_void_p, c_size_t, c_int, c_int, ERROR),
    "ddp_option": (c_int, HANDLE, c_char_p, c_char_p, ERROR),
    "ddp_ledger": (c_int, c_uint64, c_uint64, c_uint64, c_uint64, c_size_t, POINTER(c_uint64), ERROR),
    "ddp_state_open": (c_int, HANDLE, ERROR),
    "ddp_state_step_sized": (c_int, HANDLE, POINTER(Step), c_size_t, ERROR),
    "ddp_state_part": (c_int, HANDLE, c_int, ERROR),
    "ddp_state_add": (c_int, HANDLE, c_char_p, c_char_p, c_char_p, POINTER(c_uint64), c_int, c_void_p, c_int, ERROR),
    "ddp_state_reset": (c_int, HANDLE, ERROR),
    "ddp_state_save": (c_int, HANDLE, c_char_p, c_char_p, ERROR),
    "ddp_state_copied": (c_int, HANDLE, ERROR),
    "ddp_state_torn": (c_int, HANDLE, c_char_p, ERROR),
    "ddp_state_resume": (c_int, HANDLE, c_char_p, ERROR),
    "ddp_state_text": (c_char_p, HANDLE),
    "ddp_state_find": (c_void_p, HANDLE, c_char_p, POINTER(c_size_t)),
    "ddp_checkpoint_wait": (c_int, HANDLE, ERROR),
    "ddp_checkpoint_retry": (c_int, HANDLE, ERROR),
    "ddp_checkpoint_status_sized": (c_int, HANDLE, POINTER(Status), c_size_t),
    "ddp_steps_done": (c_uint64, HANDLE),
    "ddp_record": (c_int, HANDLE, c_char_p, c_char_p, ERROR),
    "ddp_goodput": (c_int, HANDLE, POINTER(c_char_p), ERROR),
    "ddp_requeue": (c_int, HANDLE, ERROR),
    "ddp_requeue_note": (c_char_p, HANDLE),
}


def _places():
    """Where libddp may be: named, in this package (a wheel that carries it), where the loader looks, beside `ddp`."""
    named = os.environ.get("DDP_LIBRARY")
    if named:
        yield named
        return
    yield os.path.join(HERE, NAME)
    yield NAME
    program = shutil.which("ddp")
    if program:
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(program)))
        for folder in ("lib", f"lib/{os.uname().machine}-linux-gnu", "lib64"):
            yield os.path.join(prefix, folder, NAME)


@functools.lru_cache(maxsize=None)
def library():
    why = []
    if not os.environ.get("DDP_LIBRARY"):
        for beside in glob.glob(os.path.join(HERE, "lib*.so.*")):  # what the wheel carries for libddp, by its soname
            if os.path.basename(beside) != NAME:
                ctypes.CDLL(beside)
    for place in _places():
        try:
            lib = ctypes.CDLL(place)
            break
        except OSError as e:
            why += [str(e)] if os.path.exists(place) or place == os.environ.get("DDP_LIBRARY") else []
    else:
        raise Error(f"{NAME} is not there: install slurm-ddp's libddp, or name the file in DDP_LIBRARY"
                    f"{' (' + '; '.join(why) + ')' if why else ''}", "system")
    for name, (result, *arguments) in CALLS.items():
        if not hasattr(lib, name):
            raise Error(f"{place} has no {name}: it is older than this package: install one as new", "system")
        getattr(lib, name).restype = result
        getattr(lib, name).argtypes = arguments
    return lib


calls = []  # one entry for each call that a thread is in


def call(name, *arguments):
    """A call that ends with an error: raises that; else returns what the call does."""
    e = RawError()
    calls.append(name)
    try:
        result = getattr(library(), name)(*arguments, byref(e))
    finally:
        calls.pop()
    if result is None or (isinstance(result, int) and CALLS[name][0] is c_int and result < 0):
        raise Error(e.text.decode(errors="replace"), DOMAINS[e.domain] if 0 < e.domain < len(DOMAINS) else "", e.code)
    return result

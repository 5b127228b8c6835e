"""torch.py - backend="ddp" of torch.distributed: libddp's communicator as a process group, for tensors on the CPU.

    import slurm_ddp.torch
    torch.distributed.init_process_group("ddp")     # or "cpu:ddp,cuda:nccl"

group.cpp is compiled at the first import, by PyTorch's own extension builder against the PyTorch that is there, and
kept in ~/.cache/slurm_ddp.
"""
import atexit
import datetime
import fcntl
import grp
import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import pwd
import shutil
import socket
import stat
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist

from ._lib import Error, library, why_of

NAME = "slurm_ddp_group"
HERE = os.path.dirname(os.path.abspath(__file__))
IS_OLD = int(torch.__version__.split(".")[0]) < 2  # 1.13
FLAGS = ["-O2"] + (["-std=c++17"] if IS_OLD else [])
SOURCES = "group.cpp", "lane.h", "libddp.h", "tensors.h"


def _folder():
    """Where what was built of these sources for this PyTorch and Python is kept."""
    what = hashlib.sha256(repr((torch.__version__, torch.__file__, FLAGS, platform.libc_ver())).encode())
    for name in SOURCES:
        with open(os.path.join(HERE, name), "rb") as file:
            what.update(file.read())
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    tag = f"{sys.implementation.cache_tag}-{platform.machine()}-{what.hexdigest()[:16]}"
    return os.path.join(home, "slurm_ddp", tag)


def _make(path):
    """os.makedirs gives its mode to the last folder alone, and what others could write to _check_way refuses."""
    if not os.path.isdir(path):
        _make(os.path.dirname(path))
        try:
            os.mkdir(path, 0o755)
        except FileExistsError:
            pass  # another rank was faster


def _check(path):
    """Where XDG_CACHE_HOME is shared, another user may have been there first, and his code would run."""
    found = os.lstat(path)
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
        raise Error(f"{path} is another user's, or others can write to it, so what is compiled there is not loaded: "
                    "name a folder of your own with XDG_CACHE_HOME; of one of yours, chmod -R go-w will do", "system")


def _is_private(gid):
    """Whether it is the group that only this user is in, by its name."""
    try:
        return grp.getgrgid(gid).gr_name == pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False


def _check_way(folder):
    """Who can write to a folder above it can put one of his own in its place when _check has looked, and while it
    compiles; where that is sticky, as /tmp, he cannot. What is nobody's (65534) is so in a user namespace."""
    path = os.path.dirname(folder)
    while True:
        found = os.stat(path)
        is_shared = found.st_mode & 0o002 or (found.st_mode & 0o020 and not _is_private(found.st_gid))
        if found.st_uid not in (0, os.geteuid(), 65534) or (is_shared and not found.st_mode & stat.S_ISVTX):
            raise Error(f"{path} is another user's, or others can write to it, and so replace {folder}, in which "
                        "backend ddp is compiled: name a folder of your own with XDG_CACHE_HOME; of one of yours, "
                        "chmod go-w will do", "system")
        if path == os.path.dirname(path):
            return
        path = os.path.dirname(path)


def _load(path):
    _check(path)
    loader = importlib.machinery.ExtensionFileLoader(NAME, path)
    try:
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader(NAME, loader))
        loader.exec_module(module)
        return module
    except ImportError as e:
        raise Error(f"backend ddp was compiled, and cannot be loaded: {e}: remove that file, or name a folder that is "
                    "not mounted noexec with XDG_CACHE_HOME", "system") from e


def _not_built(final, e):
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    why = next((line for line in lines if "error:" in line), lines[0] if lines else type(e).__name__)
    return Error("backend ddp is compiled at its first import, which needs g++, ninja, setuptools, room in TMPDIR and "
                 f"in {os.path.dirname(final)} (XDG_CACHE_HOME names another place), and Python's headers "
                 f"(python{sys.version_info[0]}-dev), and that failed: {why[:400]}", "system")


def _build(final):
    work = tempfile.mkdtemp(prefix="build.", dir=os.path.dirname(final))
    try:
        from torch.utils import cpp_extension
        module = cpp_extension.load(NAME, [os.path.join(HERE, SOURCES[0])], extra_cflags=FLAGS, build_directory=work)
        os.chmod(os.path.join(work, NAME + ".so"), 0o755)
        os.rename(os.path.join(work, NAME + ".so"), final)
        return module
    except (ImportError, RuntimeError, subprocess.SubprocessError) as e:
        raise _not_built(final, e) from e
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _extension():
    """Of several ranks one builds, and the others wait for it; who dies meanwhile holds up nobody."""
    folder = os.path.realpath(_folder())  # what is checked is what is loaded, whoever a link on the way belongs to
    final = os.path.join(folder, NAME + ".so")
    try:
        for path in os.path.dirname(folder), folder:
            _make(path)
            _check(path)
        _check_way(os.path.dirname(folder))
        if not os.path.exists(final):
            with open(os.path.join(folder, "lock"), "w", encoding="ascii") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                except OSError:
                    pass  # a file system without locks: each builds, in a folder of its own
                if not os.path.exists(final):
                    return _build(final)
    except OSError as e:
        raise _not_built(final, e) from e
    return _load(final)


def _node():
    """Ranks with the same are on one node, and share memory. Not SLURM_NODEID: a step's first node is always its 0."""
    for name in "DDP_NODE", "SLURMD_NODENAME":
        if os.environ.get(name):
            return os.environ[name][:63]
    return socket.gethostname()[:63]


def _name():
    """What errors call this rank beside its number in the group: of the group of all ranks, its host alone."""
    host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    return f"global rank {dist.get_rank()}, {host}"[:63] if dist.is_initialized() else ""


def _create(store, rank, size, timeout):
    return _group.create(store, rank, size, max(timeout, datetime.timedelta(milliseconds=1)), _node(), _name())


def _tell_peers():
    """An exception that ends this rank is what the others' errors say."""
    before, pid = sys.excepthook, os.getpid()

    def hook(kind, value, trace):
        if os.getpid() == pid:
            _group.abort_all(why_of(kind, value))
        before(kind, value, trace)
    sys.excepthook = hook


_group = _extension()
_group.use_library(library()._handle)
dist.Backend.register_backend("ddp", _create, **({} if IS_OLD else {"devices": ["cpu"]}))
atexit.register(_group.close_all)
_tell_peers()

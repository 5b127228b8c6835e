"""backend.py - what pip calls (PEP 517) to make the wheel, without a network: the package's files, and the library
that DDP_LIBRARY names, if any, with those that it needs and not every Linux has. The wheel's tag says how new a C
library that wants (PEP 600)."""
import base64
import ctypes
import hashlib
import os
import platform
import re
import zipfile

import elf

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "slurm_ddp"
with open(os.path.join(HERE, NAME, "__init__.py"), encoding="utf-8") as init:
    VERSION = re.search(r'^__version__ = "(.*)"$', init.read(), re.M)[1]
INFO = f"{NAME}-{VERSION}.dist-info"
METADATA = f"Metadata-Version: 2.1\nName: slurm-ddp\nVersion: {VERSION}\nRequires-Python: >=3.8\n"
# What PEP 600 takes for granted on any Linux with a new enough C library, and is needed here.
EVERYWHERE = re.compile(r"(lib(c|m|dl|rt|pthread|gcc_s)|ld-linux[-\w]*)\.so\.\d+")


def _carried(library):
    """Name in the package -> path: libddp, and all it needs that is not on every Linux, where the loader finds it."""
    ctypes.CDLL(library)
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        loaded = {os.path.basename(path): path for path in re.findall(r" (/.*)$", maps.read(), re.M)}
    found, look_at = {"libddp.so.0": library}, [library]
    while look_at:
        with open(look_at.pop(), "rb") as file:
            names = elf.needs(file.read())[0]
        for name in names:
            if EVERYWHERE.fullmatch(name) or name in found:
                continue
            path = next((p for file, p in loaded.items() if file == name or file.startswith(name + ".")), None)
            if path is None:
                raise RuntimeError(f"{library} needs {name}, which is not to be found: the wheel cannot carry it")
            found[name] = path
            look_at.append(path)
    return found


def _tag(carried):
    """manylinux_2_N for the newest version of the C library that one of them wants; linux where it is another."""
    machine, newest = platform.machine(), (2, 17)
    for path in carried.values():
        with open(path, "rb") as file:
            versions = elf.needs(file.read())[1]
        glibc = [v for v in versions if v.startswith("GLIBC_")]
        if not all(re.fullmatch(r"GLIBC_2\.\d+(\.\d+)?", v) for v in glibc):
            return f"py3-none-linux_{machine}"
        newest = max([newest] + [tuple(map(int, v[6:].split(".")[:2])) for v in glibc])
    return f"py3-none-manylinux_{newest[0]}_{newest[1]}_{machine}"


def _licence(name):
    """That of a library which is carried, where Debian has put it."""
    for folder in (name.partition(".so.")[0] + name.partition(".so.")[2], name.partition(".so.")[0]):
        text = f"/usr/share/doc/{folder}/copyright"
        if os.path.exists(text):
            with open(text, "rb") as file:
                yield f"{INFO}/licenses/{name}", file.read()
            return


def _files(carried):
    """(name in the wheel, bytes)"""
    for name in sorted(os.listdir(os.path.join(HERE, NAME))):
        if name.endswith((".py", ".cpp", ".h")):
            with open(os.path.join(HERE, NAME, name), "rb") as file:
                yield f"{NAME}/{name}", file.read()
    for name, path in carried.items():
        with open(path, "rb") as file:
            yield f"{NAME}/{name}", file.read()
        if name != "libddp.so.0":
            yield from _licence(name)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    library = os.environ.get("DDP_LIBRARY")
    if library and not os.path.isabs(library):
        raise RuntimeError(f"DDP_LIBRARY={library} is relative, and pip builds in another folder: give the whole path")
    carried = _carried(library) if library else {}
    tag = _tag(carried) if library else "py3-none-any"
    kind = f"Wheel-Version: 1.0\nGenerator: slurm-ddp\nRoot-Is-Purelib: {str(not library).lower()}\nTag: {tag}\n"
    files = [*_files(carried), (f"{INFO}/METADATA", METADATA.encode()), (f"{INFO}/WHEEL", kind.encode())]
    record = ""
    for name, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files.append((f"{INFO}/RECORD", f"{record}{INFO}/RECORD,,\n".encode()))
    wheel = f"{NAME}-{VERSION}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return wheel

"""backend.py - what pip calls (PEP 517) to make the wheel, without a network: the package's files, and the library that
DDP_LIBRARY names, if any."""
import base64
import hashlib
import os
import platform
import re
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "slurm_ddp"
with open(os.path.join(HERE, NAME, "__init__.py"), encoding="utf-8") as init:
    VERSION = re.search(r'^__version__ = "(.*)"$', init.read(), re.M)[1]
INFO = f"{NAME}-{VERSION}.dist-info"
METADATA = f"Metadata-Version: 2.1\nName: slurm-ddp\nVersion: {VERSION}\nRequires-Python: >=3.8\n"


def _files(library):
    """(name in the wheel, bytes)"""
    for name in sorted(os.listdir(os.path.join(HERE, NAME))):
        if name.endswith((".py", ".cpp", ".h")):
            with open(os.path.join(HERE, NAME, name), "rb") as file:
                yield f"{NAME}/{name}", file.read()
    if library:
        with open(library, "rb") as file:
            yield f"{NAME}/libddp.so.0", file.read()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    library = os.environ.get("DDP_LIBRARY")
    tag = f"py3-none-linux_{platform.machine()}" if library else "py3-none-any"
    kind = f"Wheel-Version: 1.0\nGenerator: slurm-ddp\nRoot-Is-Purelib: {str(not library).lower()}\nTag: {tag}\n"
    files = [*_files(library), (f"{INFO}/METADATA", METADATA.encode()), (f"{INFO}/WHEEL", kind.encode())]
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

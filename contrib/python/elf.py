"""elf.py - what a shared library needs of others, from its dynamic section (ELF, 64 bits, little-endian)."""
import struct

PT_LOAD, PT_DYNAMIC = 1, 2
DT_NULL, DT_NEEDED, DT_STRTAB, DT_VERNEED, DT_VERNEEDNUM = 0, 1, 5, 0x6ffffffe, 0x6fffffff


def needs(data):
    """Names of the libraries that the loader has to find, and the names of the versions (GLIBC_2.34) that it wants of
    them. data: the file's bytes."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a library for 64 bits, little-endian")
    at, = struct.unpack_from("<Q", data, 32)
    size, n = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, at + i * size) for i in range(n)]

    def place(address):
        return next(address - s[3] + s[2] for s in segments if s[0] == PT_LOAD and s[3] <= address < s[3] + s[5])

    def text(offset):
        return data[strings + offset:data.index(b"\0", strings + offset)].decode()

    at = next(s[2] for s in segments if s[0] == PT_DYNAMIC)
    entries = []
    while not entries or entries[-1][0] != DT_NULL:
        entries.append(struct.unpack_from("<QQ", data, at + 16 * len(entries)))
    of = dict(entries)
    strings = place(of[DT_STRTAB])
    versions, at = set(), place(of[DT_VERNEED]) if DT_VERNEED in of else 0
    for _ in range(of.get(DT_VERNEEDNUM, 0)):
        _, n, _, first, following = struct.unpack_from("<HHIII", data, at)
        first += at
        for _ in range(n):
            _, _, _, name, step = struct.unpack_from("<IHHII", data, first)
            versions.add(text(name))
            first += step
        at += following
    return [text(value) for tag, value in entries if tag == DT_NEEDED], versions

"""metrics.py - a log of JSON lines that a resume cuts back to the checkpoint."""
import json
import os
import stat

from .job import job


class Metrics:
    """log(**values) appends a line to `path` on rank 0, and does nothing elsewhere. Given to a Checkpoint, lines beyond
    the checkpoint that training goes on from are cut off, since their steps come again; all of them, where there is
    none."""

    def __init__(self, path):
        self._file = open(path, "a", encoding="utf-8") if job().world.rank == 0 else None
        self._is_cut = self._file is not None and stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)

    def log(self, **values):
        if self._file:
            self._file.write(json.dumps(values) + "\n")
            self._file.flush()

    def state_dict(self):
        if not self._is_cut:
            return {"bytes": 0}
        os.fsync(self._file.fileno())  # before the checkpoint that counts on it
        return {"bytes": os.fstat(self._file.fileno()).st_size}

    def begin_anew(self):
        self.load_state_dict({"bytes": 0})

    def load_state_dict(self, state):
        if self._is_cut and os.fstat(self._file.fileno()).st_size > state["bytes"]:
            os.ftruncate(self._file.fileno(), state["bytes"])

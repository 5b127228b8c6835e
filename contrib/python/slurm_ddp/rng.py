"""rng.py - the states of this rank's random number generators, each as bytes of a length that is always the same."""
import random
import struct
import sys

PYTHON, NUMPY = "<625I?d", "<624IIId"


def capture():
    """name -> bytes: of Python's, NumPy's and PyTorch's, as far as they are loaded."""
    _, words, gauss = random.getstate()
    state = {"python": struct.pack(PYTHON, *words, gauss is not None, gauss or 0.0)}
    if "numpy" in sys.modules:
        kind, words, at, has_gauss, gauss = sys.modules["numpy"].random.get_state()
        if kind == "MT19937":
            state["numpy"] = struct.pack(NUMPY, *words, at, has_gauss, gauss)
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        state["torch"] = bytes(torch.get_rng_state().tolist())  # numpy() needs NumPy, which PyTorch does not
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = bytes(torch.cuda.get_rng_state().tolist())
    return state


def restore(state):
    """Of what capture() gave."""
    if "python" in state:
        *words, has_gauss, gauss = struct.unpack(PYTHON, state["python"])
        random.setstate((3, tuple(words), gauss if has_gauss else None))
    if "numpy" in state:
        import numpy
        *words, at, has_gauss, gauss = struct.unpack(NUMPY, state["numpy"])
        numpy.random.set_state(("MT19937", words, at, has_gauss, gauss))
    if "torch" in state:
        import torch
        torch.set_rng_state(torch.frombuffer(bytearray(state["torch"]), dtype=torch.uint8))
    if "cuda" in state:
        import torch
        torch.cuda.set_rng_state(torch.frombuffer(bytearray(state["cuda"]), dtype=torch.uint8))

"""tree.py - a state_dict as JSON, with its tensors beside it.

What JSON has stays as it is. A member that it lacks becomes an object with one "$" member: {"$tuple": [...]}, {"$dict":
[[key, value], ...]} (keys that are no texts), {"$ordered": DICT}, {"$counter": ...}, {"$deque": [...], "maxlen": N or
null}, {"$tensor": NAME, "dtype": ..., "shape": ...} (and "numpy": true; where its elements lie in another order,
"order": its dimensions, the outermost in memory first), {"$bytes": BASE64}, {"$float": "inf"}, {"$dtype":
"bfloat16"} (PyTorch's), {"$module": DICT, "metadata": DICT} (a module's state_dict, with the versions of the modules in
it, by which they read it). No pickle: a checkpoint runs nothing when it is read.
"""
import base64
import collections
import functools
import math
import re
import sys

from ._lib import Error

# As safetensors names them; other types travel as bytes.
DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
          "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL"}


RNG_NAME = re.compile(r"rng\.\d+\.[a-z]+")  # of checkpoint.py's own tensors


@functools.lru_cache(maxsize=None)
def _name_of(dtype):
    return str(dtype).rsplit(".", maxsplit=1)[-1]


def dtype_name(tensor):
    return _name_of(tensor.dtype)


class Encoder:
    """tensors: name -> tensor, of all that was encoded."""

    def __init__(self):
        self.torch = sys.modules.get("torch")
        self.numpy = sys.modules.get("numpy")
        self.tensors = {}
        self._seen = {}

    def encode(self, value, name):
        """name: of what value is, which its tensors' names begin with."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"$float": str(float(value))}
        if self.torch and isinstance(value, self.torch.Tensor):
            return self._tensor(value.detach(), name)
        if self.numpy and isinstance(value, self.numpy.generic) and type(value.item()) is not type(value):
            return self.encode(value.item(), name)  # a longdouble's is one, too
        if self.numpy and isinstance(value, self.numpy.ma.MaskedArray):
            raise Error(f"Checkpoint: {name} is a masked array: save its data and its mask")
        if self.numpy and isinstance(value, self.numpy.ndarray) and self.torch:
            return {**self._tensor(self._of_array(value, name), name), "numpy": True}
        if self.torch and isinstance(value, self.torch.dtype):
            return {"$dtype": _name_of(value)}
        if isinstance(value, bytes):
            return {"$bytes": base64.b64encode(value).decode()}
        if isinstance(value, collections.Counter):
            return {"$counter": self.encode(list(value.items()), name)}
        if isinstance(value, dict) and hasattr(value, "_metadata"):
            return {"$module": self._dict(value, name), "metadata": self._dict(value._metadata, f"{name}._metadata")}
        if isinstance(value, collections.OrderedDict):
            return {"$ordered": self._dict(value, name)}
        if isinstance(value, dict):
            return self._dict(value, name)
        if isinstance(value, (list, tuple, collections.deque)) and not hasattr(value, "_fields"):  # a namedtuple's
            return self._row(value, [self.encode(v, f"{name}.{i}") for i, v in enumerate(value)])
        raise Error(f"Checkpoint: {name} is a {type(value).__name__}: a state_dict that is saved has numbers, texts, "
                    "lists, dicts and tensors")

    @staticmethod
    def _row(value, items):
        if isinstance(value, collections.deque):
            return {"$deque": items, "maxlen": value.maxlen}
        return {"$tuple": items} if isinstance(value, tuple) else items

    def _dict(self, value, name):
        if all(isinstance(k, str) and not k.startswith("$") for k in value):
            return {k: self.encode(v, f"{name}.{k}" if name else k) for k, v in value.items()}
        return {"$dict": [[self.encode(k, name), self.encode(v, f"{name}.{k}")] for k, v in value.items()]}

    def _of_array(self, array, name):
        try:
            return self.torch.from_numpy(array.copy())
        except (TypeError, ValueError):
            raise Error(f"Checkpoint: {name} is a NumPy array of {array.dtype}, of which this PyTorch has no tensors: "
                        "save it as another type, or as a list") from None

    def _tensor(self, tensor, name):
        if hasattr(tensor, "full_tensor") or tensor.layout != self.torch.strided:
            raise Error(f"Checkpoint: {name} is sharded or sparse: only tensors that every rank has whole are saved "
                        "here; for FSDP use torch.distributed.checkpoint")
        if hasattr(tensor, "__tensor_flatten__"):
            raise Error(f"Checkpoint: {name} is a {type(tensor).__name__}, which is made of other tensors and has no "
                        "memory of its own: save those, or use torch.distributed.checkpoint")
        if tensor.is_meta or tensor.is_quantized:
            kind = "a meta tensor, which has no values" if tensor.is_meta else "quantized, which has no type here"
            raise Error(f"Checkpoint: {name} is {kind}: leave it out of the state_dict")
        tensor = tensor.resolve_conj().resolve_neg()  # such a view has its base's memory, and other values
        key = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
        known = self._seen.get(key) if tensor.numel() else None  # tied weights are saved once
        if known is None:
            known = self._free(name)
            self.tensors[known] = tensor
            self._seen[key] = known
        row = {"$tensor": known, "dtype": dtype_name(tensor), "shape": list(tensor.shape)}
        if not tensor.is_contiguous():  # channels_last: fused optimizers take a state to lie as its parameter does
            row["order"] = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
        return row

    def _free(self, name):
        """The name, or where another tensor has it, as a module `head` of the model and a thing that is called so, one
        that is like it."""
        free, n = name, 1
        while free in self.tensors or RNG_NAME.fullmatch(free):
            n += 1
            free = f"{name}~{n}"
        return free


def decode(value, find):
    """find(name): the tensor's bytes, a memoryview. Tensors are copies of those."""
    if isinstance(value, list):
        return [decode(v, find) for v in value]
    if not isinstance(value, dict):
        return value
    kind = next((k for k in value if k.startswith("$")), None)
    inner = value.get(kind)
    if kind is None:
        return {k: decode(v, find) for k, v in value.items()}
    if kind == "$tensor":
        return _decode_tensor(value, find(inner))
    if kind == "$tuple":
        return tuple(decode(inner, find))
    if kind == "$dict":
        return {decode(k, find): decode(v, find) for k, v in inner}
    if kind == "$ordered":
        return collections.OrderedDict(decode(inner, find))
    if kind == "$dtype":
        import torch
        return getattr(torch, inner)
    if kind == "$module":
        state = collections.OrderedDict(decode(inner, find))
        state._metadata = decode(value["metadata"], find)
        return state
    if kind == "$deque":
        return collections.deque(decode(inner, find), value["maxlen"])
    if kind == "$counter":
        return collections.Counter(dict(decode(inner, find)))
    if kind == "$bytes":
        return base64.b64decode(inner)
    if kind == "$float":
        return float(inner)
    raise Error(f"Checkpoint: state.json has a {kind}, which this version of slurm_ddp does not know", "data")


def _decode_tensor(value, data):
    import torch
    dtype = getattr(torch, value["dtype"])
    flat = torch.frombuffer(bytearray(data), dtype=torch.uint8) if len(data) else \
        torch.empty(0, dtype=torch.uint8, device="cpu")
    tensor = flat.view(dtype).reshape(value["shape"])
    if "order" in value:
        order = value["order"]
        tensor = tensor.permute(order).contiguous().permute(sorted(range(len(order)), key=order.__getitem__))
    return tensor.numpy() if value.get("numpy") else tensor

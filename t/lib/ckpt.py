"""Checkpoints as Python reads them. Verbs, each with a checkpoint's folder:

bytes FOLDER            every tensor, by the package safetensors, is what t/lib/ckptfolder.c wrote
indexes FOLDER          the indexes name the tensors and files that the package finds
sums FOLDER             the program in doc/user.md (on standard input) finds the manifest's checksums
logits FOLDER PROGRAM   GPT2LMHeadModel and PROGRAM (t/lib/logits) give the same logits for any tokens
make FOLDER             writes a random GPT-2, as transformers saves it
same FOLDER OTHER       both folders hold the same values of GPT-2's parameters
packages NAME...        exit code 1, naming the first that is missing
"""
import glob
import importlib
import json
import os
import subprocess
import sys


def tensors_of(folder, group):
    """Name -> array of all files of a group, and name -> the file's name."""
    from safetensors.numpy import load_file
    values, files = {}, {}
    for path in sorted(glob.glob(os.path.join(folder, f"{group}*.safetensors"))):
        for name, value in load_file(path).items():
            values[name], files[name] = value, os.path.basename(path)
    return values, files


def made(number, n):
    """What ckptfolder_data gives tensor `number`."""
    import numpy
    x, out = (number * 2654435761 + 1) % 2**32, numpy.empty(n, numpy.uint32)
    for i in range(n):
        x = (x * 1664525 + 1013904223) % 2**32
        out[i] = x
    return out.view(numpy.int32).astype(numpy.float32) / numpy.float32(4294967296)


def check_bytes(folder):
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        listed = json.load(file)["tensors"]
    found = {**tensors_of(folder, "model")[0], **tensors_of(folder, "optimizer")[0]}
    assert sorted(listed) == sorted(found), (listed.keys(), found.keys())
    for number, (name, entry) in enumerate(listed.items()):
        value = found[name]
        assert value.dtype == "float32" and list(value.shape) == entry["shape"], name
        assert value.tobytes() == made(number, value.size).tobytes(), name
    print(len(found), "tensors")


def check_indexes(folder):
    for group in ("model", "optimizer"):
        with open(os.path.join(folder, f"{group}.safetensors.index.json"), encoding="utf-8") as file:
            index = json.load(file)
        values, files = tensors_of(folder, group)
        assert index["weight_map"] == files, group
        assert index["metadata"]["total_size"] == sum(v.nbytes for v in values.values()), group
    print("indexes hold")


def check_sums(folder):
    text = sys.stdin.read()
    assert "DIR/step-00000100/" in text and "assert" in text, "no program"
    exec(compile(text.replace("DIR/step-00000100/", folder + "/"), "doc/user.md", "exec"), {})
    print("checksums hold")


def check_logits(folder, program):
    import numpy
    import torch
    from transformers import GPT2LMHeadModel
    model, info = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info[what], (what, info[what])
    model.eval()
    worst = 0
    for seed in range(3):
        n, vocab = model.config.n_positions, model.config.vocab_size
        tokens = torch.randint(vocab, (1, n), generator=torch.Generator().manual_seed(seed))
        out = os.path.join(os.environ["tmp"], "logits")
        subprocess.run([program, folder, out, *map(str, tokens[0].tolist())], check=True)
        ours = numpy.fromfile(out, numpy.float32).reshape(n, vocab)
        with torch.no_grad():
            theirs = model(tokens).logits[0].numpy()
        assert float(theirs.std()) > 0.01, "logits of one value prove nothing"
        worst = max(worst, float(abs(ours - theirs).max()))
    assert worst <= 1e-4, f"logits differ by {worst}"
    print(f"logits within 1e-4 (at most {worst:.1e} apart)")


def make(folder):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(7)
    config = GPT2Config(vocab_size=256, n_positions=32, n_embd=128, n_layer=2, n_head=4, initializer_range=0.2)
    GPT2LMHeadModel(config).save_pretrained(folder, safe_serialization=True)


def same(folder, other):
    one, two = ({name.removeprefix("transformer."): value for name, value in tensors_of(f, "model")[0].items()}
                for f in (folder, other))
    shared = sorted(set(one) & set(two))
    assert len(shared) == 2 + 2 * 12 + 2, shared
    for name in shared:
        assert one[name].tobytes() == two[name].tobytes(), name
    print(len(shared), "parameters are the same")


def packages(*names):
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as why:
            sys.exit(f"{name} ({why})")


VERBS = {"bytes": check_bytes, "indexes": check_indexes, "sums": check_sums, "logits": check_logits, "make": make,
         "same": same, "packages": packages}
VERBS[sys.argv[1]](*sys.argv[2:])

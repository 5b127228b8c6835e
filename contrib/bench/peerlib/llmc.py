"""llmc.py - the training step of llm.c's CPU trainer (github.com/karpathy/llm.c, train_gpt2.c), where LLMC names a
folder in which it was built (make train_gpt2), and ours at the same sizes.

Equal: layers, width, heads, vocabulary, batch 4 and context 64 (llm.c fixes both), float32, AdamW at every step without
decay and clipping, one process with all cores as threads. Not equal: llm.c reads weights and tokens of its own format,
made up here, so that the losses cannot be compared; it multiplies matrices with its own loops, not with a BLAS."""
import array
import json
import os
import random
import re
import struct
import time

from peerlib.figures import short, spread, stats, table
from peerlib.machine import Failure, complain, has_avx512, last_words
from peerlib.step import SIZES

BATCH, CONTEXT = 4, 64
SECONDS = 25  # of one program


def header(*numbers):
    return struct.pack("256i", *numbers, *[0] * (256 - len(numbers)))


def write_floats(file, n):
    """n small random numbers, a block of them again and again."""
    draw = random.Random(1)
    block = array.array("f", (draw.uniform(-0.03, 0.03) for _ in range(1 << 16))).tobytes()
    for _ in range(4 * n // len(block)):
        file.write(block)
    file.write(block[:4 * n % len(block)])


def write_inputs(folder, size):
    """The files that train_gpt2 opens in its working directory."""
    n_layers, width, vocab = size["layers"], size["width"], size["vocab"]
    n_params = vocab * width + CONTEXT * width + n_layers * (12 * width * width + 13 * width) + 2 * width
    with open(os.path.join(folder, "gpt2_124M.bin"), "wb") as file:
        file.write(header(20240326, 3, CONTEXT, vocab, n_layers, size["heads"], width, vocab))
        write_floats(file, n_params)
    data = os.path.join(folder, "dev", "data", "tinyshakespeare")
    os.makedirs(data)
    draw = random.Random(2)
    tokens = array.array("H", (draw.randrange(min(vocab, 16)) for _ in range(1 << 16))).tobytes()
    for name in "train", "val":
        with open(os.path.join(data, f"tiny_shakespeare_{name}.bin"), "wb") as file:
            file.write(header(20240520, 1, 1 << 16) + tokens)


def time_llmc(m, program, folder):
    """Seconds of each step but the first two, until the time is over or it would stop to generate text."""
    process = m.start(["sh", "-c", 'cd "$0" && exec "$1"', folder, program], m.environment(m.cores))
    seconds, end = [], time.monotonic() + SECONDS
    for line in process.stdout:
        found = re.search(r"^step (\d+): .*took ([0-9.]+) ms", line)
        if found:
            seconds.append(float(found[2]) / 1e3)
        if len(seconds) >= 20 or (len(seconds) >= 3 and time.monotonic() > end):
            break
    process.kill()
    process.wait()
    if len(seconds) < 3:
        raise Failure(f"{program} ended after {len(seconds)} steps: {last_words(process)}")
    return seconds[2:]


def time_ours(m, size, steps):
    flags = [w for key in ("layers", "width", "heads", "vocab") for w in (f"--{key}", str(size[key]))]
    out = m.run("ddp bench step", [m.ddp(), "bench", "step", "--json", "--batch", str(BATCH), "--context", str(CONTEXT),
                                   "--clip", "0", "--weight-decay", "0", "--warmup", "3", "--steps",
                                   str(steps)] + flags,
                m.environment(m.cores))
    return json.loads(out)["step_s"]


def run(m, report):
    program = os.path.join(os.environ.get("LLMC", ""), "train_gpt2")
    if not os.environ.get("LLMC") or not os.access(program, os.X_OK):
        raise Failure("LLMC=DIR must name a folder in which llm.c's train_gpt2 was built: clone github.com/karpathy/"
                      "llm.c, make train_gpt2")
    goal = 5 if has_avx512() else 3
    data, rows = [], []
    for model in ["tiny"] if m.options.quick else m.options.models:
        complain(f"llm.c, {model}")
        folder = m.path("llmc-" + model)
        os.mkdir(folder)
        write_inputs(folder, SIZES[model])
        s = {"llm.c": stats(time_llmc(m, os.path.abspath(program), folder)),
             "ours": stats(time_ours(m, SIZES[model], 5 if m.options.quick else 20))}
        ratio = s["llm.c"]["median"] / s["ours"]["median"]
        report.goal(f"training step, {model}: llm.c / ours", ratio, at_least=goal)
        data.append({"model": model, "batch": BATCH, "context": CONTEXT, "seconds": s, "ratio": ratio})
        rows.append([model, spread(s["ours"]), spread(s["llm.c"]), f"{s['ours']['n']}, {s['llm.c']['n']}",
                     short(ratio) + "x"])
    table(f"GPT training step, 1 process x {m.cores} threads, batch {BATCH}, context {CONTEXT}: ms, median (quartiles)",
          ["", "ours", "llm.c", "steps", "ratio"], rows)
    return data

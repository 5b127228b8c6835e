"""step.py - a GPT's training step, ours and PyTorch DDP's: the same layers, weights, samples, optimizer, ranks and
threads, both alive at once and stepping in turn."""
import json
import os

from peerlib.figures import short, spread, stats, table
from peerlib.machine import HERE, Failure, complain, free_port, last_words

SIZES = {
    "tiny": {"layers": 4, "width": 128, "heads": 4, "context": 64, "vocab": 256, "batch": 8},
    "small": {"layers": 6, "width": 256, "heads": 8, "context": 128, "vocab": 256, "batch": 4},
    "12x768": {"layers": 12, "width": 768, "heads": 12, "context": 256, "vocab": 256, "batch": 1},
}
GOALS = {"tiny": 2, "small": 1.5, "12x768": 1.2}
LOSS_TOLERANCE = 1e-3
BLOCK = 6  # steps of one side in a row


class Side:
    """Ranks that obey commands through a FIFO each; rank 0 answers a command with a line of JSON."""

    def __init__(self, m, name, ranks, start):
        self.name, self.prefix = name, m.path(name)
        for r in range(ranks):
            os.mkfifo(f"{self.prefix}.{r}")
        self.processes = start(self.prefix)
        # Opened for reading and writing: that never waits for the other end.
        self.commands = [open(f"{self.prefix}.{r}", "r+b", buffering=0) for r in range(ranks)]
        self.setting = self.answer()

    def answer(self):
        line = self.processes[0].stdout.readline()
        if not line:
            self.processes[0].wait(10)
            raise Failure(f"{self.name} ended early: {last_words(self.processes[0])}")
        return json.loads(line)

    def command(self, text):
        for file in self.commands:
            file.write(text.encode() + b"\n")
        return self.answer()

    def close(self, m):
        for r, file in enumerate(self.commands):
            os.unlink(f"{self.prefix}.{r}")
            file.close()
        for p in self.processes:
            m.finish(p, self.name, 60)


SAME_ORDER = "--ddp-order=distributed"  # gpt.py takes its samples from DistributedSampler


def flags(size):
    return [word for key, value in size.items() for word in (f"--{key}", str(value))]


def dump_weights(m, size, path):
    m.run("ddp bench step --dump", [m.ddp(), "bench", "step", "--dump", path, "--steps", "1", "--warmup", "0",
                                    "--json"] + flags(size), m.environment(m.cores))


def start_ours(m, size, ranks, more=()):
    return lambda prefix: [m.start([m.ddp(), "run", "-n", str(ranks), m.ddp(), "bench", "step", SAME_ORDER,
                                    "--lockstep", prefix] + flags(size) + list(more), m.environment(m.threads(ranks)))]


def start_torch(m, size, ranks, weights, more=()):
    def start(prefix):
        port = free_port()
        return [m.start([m.python, "-u", os.path.join(HERE, "gpt.py"), "--lockstep", prefix, "--load", weights] +
                        flags(size) + list(more),
                        m.torch_environment(r, ranks, m.threads(ranks), port, GLOO_SOCKET_IFNAME="lo"))
                for r in range(ranks)]
    return start


def in_turn(sides, blocks):
    """The first block warms up and gives the losses; then the given number of blocks each. {name: {series: values}}"""
    found = {s.name: {} for s in sides}
    first = {s.name: s.command(f"steps {BLOCK}") for s in sides}
    for _ in range(blocks):
        for s in sides:
            for key, values in s.command(f"steps {BLOCK}").items():
                found[s.name].setdefault(key, []).extend(values)
    for s in sides:
        s.command("products 1")
        found[s.name]["products_s"] = s.command("products 5")["products_s"]
        found[s.name]["first_losses"] = first[s.name]["loss"]
    return found


def check_losses(model, found):
    """Losses at steps 0 and 5 of both sides; a Failure where they are apart."""
    pairs = {k: (found["ours"]["first_losses"][k], found["torch"]["first_losses"][k]) for k in (0, 5)}
    for k, (a, b) in pairs.items():
        if not abs(a - b) <= LOSS_TOLERANCE * abs(b):
            raise Failure(f"{model}: the losses at step {k} differ: ours {a:.6f}, PyTorch's {b:.6f}: not the same "
                          "training")
    return pairs


def measure(m, model, ranks, steps):
    size = SIZES[model]
    weights = m.path("weights." + model)
    dump_weights(m, size, weights)
    complain(f"step, {model}: {ranks} ranks x {m.threads(ranks)} threads, {steps} steps a side")
    ours = Side(m, "ours", ranks, start_ours(m, size, ranks, ["--load", weights]))
    torch = Side(m, "torch", ranks, start_torch(m, size, ranks, weights))
    found = in_turn([ours, torch], -(-steps // BLOCK))
    losses = check_losses(model, found)
    for side in ours, torch:
        side.close(m)
    os.unlink(weights)
    return found, losses, torch.setting


def run(m, report):
    o = m.options
    version = m.check_torch()
    ranks, data, rows, note = m.cores if m.cores <= 4 else 4, [], [], {}
    steps = BLOCK if o.quick else max(o.steps, 1)
    for model in ["tiny"] if o.quick else o.models:
        if model not in SIZES:
            raise Failure(f"there is no model {model}: {', '.join(SIZES)}")
        found, losses, note = measure(m, model, ranks, steps)
        s = {side: {k: stats(found[side][k]) for k in ("step_s", "products_s")} for side in found}
        ratio = s["torch"]["step_s"]["median"] / s["ours"]["step_s"]["median"]
        report.goal(f"training step, {model}: PyTorch DDP / ours", ratio, at_least=GOALS[model])
        data.append({"model": model, "ranks": ranks, "threads": m.threads(ranks), "seconds": s, "ratio": ratio,
                     "losses": losses, "torch": note})
        rows.append([model] + [spread(s[side][k]) for k in ("step_s", "products_s") for side in ("ours", "torch")] +
                    [short(ratio) + "x"] + [f"{losses[k][0]:.4f} / {losses[k][1]:.4f}" for k in (0, 5)])
    table(f"GPT training step, {ranks} ranks x {m.threads(ranks)} threads: ms, median (quartiles) of {steps} steps a "
          f"side, in turns of {BLOCK}; PyTorch {version}, AdamW {note['adamw']}, attention {note['attention']}",
          ["", "ours", "PyTorch", "products, ours", "products, PyTorch", "ratio", "loss at 0", "loss at 5"], rows)
    return data

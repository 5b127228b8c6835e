"""allreduce.py - float32 all-reduce in place on one node: ours, Open MPI, PyTorch over gloo, and y += x."""
import json

from peerlib.figures import median, short, spread, stats, table
from peerlib.machine import Failure, complain

MIB = 1 << 20
GOALS = {1: {"gloo": 50, "mpi": 4}, 25: {"gloo": 14, "mpi": 4}, 100: {"gloo": 9, "mpi": 4}}
MEMORY_GOAL = 0.9


def parse_lines(text, what):
    """Lines of mpibench and gloobench.py to {bytes: [seconds]}."""
    times = {}
    for line in text.splitlines():
        n_bytes, wrong, *seconds = line.split()
        if wrong != "0":
            raise Failure(f"{what}: {wrong} wrong elements at {n_bytes} bytes")
        times[int(n_bytes)] = [float(s) for s in seconds]
    return times


def run_ours(m, ranks, sizes, iterations, warmup):
    """{bytes: (direct, staged, y += x)}, each the median and the quartiles in seconds of one run."""
    what = f"ddp bench allreduce on {ranks} ranks"
    out = m.run(what, [m.ddp(), "run", "-n", str(ranks), m.ddp(), "bench", "allreduce", "--memory", "--json",
                       "--sizes", ",".join(map(str, sizes)), "-n", str(iterations), "-w", str(warmup)],
                m.environment(m.threads(ranks)))
    rows = json.loads(out)["rows"]
    return {r["size"]: {"ours": r["direct"]["time_us"]["median"] * 1e-6,
                        "staged": r["staged"]["time_us"]["median"] * 1e-6,
                        "memory": r["memory_us"]["median"] * 1e-6} for r in rows}


def run_mpi(m, ranks, sizes, iterations, warmup):
    out = m.run(f"Open MPI on {ranks} ranks", m.mpirun(ranks) + [m.mpi_program(), str(warmup), str(iterations)] +
                [str(s) for s in sizes], m.environment(m.threads(ranks)))
    return {n: {"mpi": median(t)} for n, t in parse_lines(out, "Open MPI").items()}


def run_gloo(m, ranks, sizes, iterations, warmup):
    out = m.run_torch(f"PyTorch over gloo on {ranks} ranks", "gloobench.py",
                      [str(warmup), str(iterations)] + [str(s) for s in sizes], ranks)
    return {n: {"gloo": median(t)} for n, t in parse_lines(out, "gloo").items()}


def measure(m, ranks, sizes, rounds, iterations, warmup):
    """{bytes: {contender: [each round's median]}}, the contenders in turn."""
    found = {n: {} for n in sizes}
    for k in range(rounds):
        complain(f"all-reduce, {ranks} ranks, round {k + 1} of {rounds}")
        for run in run_ours, run_mpi, run_gloo:
            for n, values in run(m, ranks, sizes, iterations, warmup).items():
                for name, seconds in values.items():
                    found[n].setdefault(name, []).append(seconds)
    return found


def row_of(report, ranks, n_bytes, found):
    s = {name: stats(values) for name, values in found.items()}
    ratio = {name: s[name]["median"] / s["ours"]["median"] for name in ("gloo", "mpi")}
    memory = 2 * s["memory"]["median"] / (3 * s["ours"]["median"])
    where = f"all-reduce, {ranks} ranks, {n_bytes // MIB} MiB: "
    goals = GOALS.get(n_bytes // MIB, {})
    if "gloo" in goals:
        report.goal(where + "PyTorch over gloo / ours", ratio["gloo"], at_least=goals["gloo"])
        report.goal(where + "Open MPI / ours", ratio["mpi"], at_least=goals["mpi"])
    if n_bytes == 100 * MIB:
        report.goal(where + "of y += x bandwidth", memory, at_least=MEMORY_GOAL)
    data = {"ranks": ranks, "bytes": n_bytes, "seconds": s, "ratio": ratio, "of_memory": memory}
    cells = [f"{ranks} ranks, {n_bytes // MIB} MiB"] + [spread(s[k]) for k in ("ours", "staged", "mpi", "gloo")]
    return data, cells + [short(ratio["mpi"]) + "x", short(ratio["gloo"]) + "x", f"{100 * memory:.0f}%"]


def run(m, report):
    o = m.options
    m.check_torch()
    sizes = [MIB, 25 * MIB] if o.quick else [MIB, 25 * MIB, 100 * MIB]
    rounds, iterations, warmup = (1, 5, 2) if o.quick else (o.rounds, 15, 4)
    data, rows = [], []
    for ranks in o.ranks:
        for n_bytes, found in measure(m, ranks, sizes, rounds, iterations, warmup).items():
            one, cells = row_of(report, ranks, n_bytes, found)
            data.append(one)
            rows.append(cells)
    table(f"All-reduce in place, float32, one node, {m.cores} cores: ms, median of {rounds} runs (quartiles), each run "
          f"the median of {iterations}",
          ["", "ours", "ours, staged", "Open MPI", "PyTorch/gloo", "MPI/ours", "gloo/ours", "of y += x"], rows)
    return data

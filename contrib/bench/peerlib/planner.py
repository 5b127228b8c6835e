"""planner.py - buckets planned from what is measured, against fixed ones of 25 MiB, in turn: what a step's
communication costs (`ddp bench reducer`). Planned ones must never be worse beyond the interquartile spread, and better
somewhere."""
import json

from peerlib.figures import quantile, spread, stats, table
from peerlib.machine import complain
from peerlib.net import LINK, Pair

# name, MiB, tensors, ms of backward, shaped link in bit/s (None: one node)
CASES = [
    ("one node, 100 MiB in 100 tensors, backward 100 ms", 100, 100, 100, None),
    ("one node, 8 MiB in 400 tensors, backward 10 ms", 8, 400, 10, None),
    ("1 Gbit/s, 8 MiB in 50 tensors, backward 100 ms", 8, 50, 100, 1e9),
    ("4 Gbit/s, 50 MiB in 100 tensors, backward 150 ms", 50, 100, 150, 4e9),
]


def run_one(m, pair, case, fixed, steps):
    _, mib, tensors, backward_ms, rate = case
    arguments = ["bench", "reducer", "--json", "--mb", str(mib), "--tensors", str(tensors), "--backward-ms",
                 str(backward_ms), "--steps", str(steps)] + (["--ddp-bucket-mb=25"] if fixed else [])
    argv = pair.ddp_run(1, arguments) if rate else [m.ddp(), "run", "-n", str(m.cores), m.ddp()] + arguments
    return json.loads(m.run("ddp bench reducer", argv, m.environment(1, DDP_INTERFACE=LINK if rate else None)))


def measure(m, pair, case, rounds, steps):
    if case[4]:
        pair.shape(case[4])
    found = {"fixed": [], "planned": []}
    for k in range(rounds):
        complain(f"planner, {case[0]}, round {k + 1} of {rounds}")
        for name in found:
            found[name].append(run_one(m, pair, case, name == "fixed", steps))
    return found


def run(m, report):
    pair = Pair(m, apart=True)
    rounds, steps = (1, 5) if m.options.quick else (m.options.rounds, 15)
    data, rows, better, worse = [], [], 0, 0
    for case in CASES:
        found = measure(m, pair, case, rounds, steps)
        s = {name: stats([r["sync_s"]["median"] for r in runs]) for name, runs in found.items()}
        low, high = (quantile([r["sync_s"][q] for r in found["fixed"]], 0.5) for q in ("q1", "q3"))
        verdict = "worse" if s["planned"]["median"] > high else "better" if s["planned"]["median"] < low else "even"
        better += verdict == "better"
        worse += verdict == "worse"
        buckets = [f"{found[name][-1]['buckets']}" for name in ("fixed", "planned")]
        data.append({"case": case[0], "seconds": s, "fixed_quartiles": [low, high], "verdict": verdict,
                     "buckets": buckets, "runs": found})
        rows.append([case[0], spread(s["fixed"]), f"{1e3 * low:.1f}-{1e3 * high:.1f}", spread(s["planned"]),
                     " / ".join(buckets), verdict])
    report.goal("planned buckets worse than fixed 25 MiB, cases", worse, at_most=0)
    report.goal("planned buckets better than fixed 25 MiB, cases", better, at_least=1)
    table(f"A summed backward pass with buckets fixed at 25 MiB and planned: ms, median of {rounds} runs (quartiles)",
          ["", "fixed", "quartiles within its runs", "planned", "buckets", "planned is"], rows)
    return data

"""backends.py - PyTorch's collectives of float32 tensors over its backends gloo and ddp, in pairs, one process for
both: on one node and between two. PEER_PYTHON's PyTorch must be able to compile slurm_ddp.torch."""
import os

from peerlib.allreduce import MIB
from peerlib.figures import median, short, spread, stats, table
from peerlib.machine import HERE, Failure, complain, free_port
from peerlib.net import ADDRESS, LINK, Pair

GOALS = {"one node": 5, "two nodes": 2}  # all-reduce of 25 MiB: the median of pairs, gloo / ddp


def environment(m, **extra):
    return {"PYTHONPATH": os.path.join(HERE, "..", "python"), "XDG_CACHE_HOME": m.path("cache"),
            "DDP_LIBRARY": os.path.join(m.options.build, ".libs/libddp.so.0"), **extra}


def parse(text):
    """{(collective, bytes): {"gloo": [seconds], "ddp": [seconds]}}"""
    found = {}
    for line in text.splitlines():
        name, n_bytes, wrong, *seconds = line.split()
        if wrong != "0":
            raise Failure(f"backend ddp: {wrong} wrong elements of {name} at {n_bytes} bytes")
        seconds = [float(s) for s in seconds]
        found[name, int(n_bytes)] = {"gloo": seconds[::2], "ddp": seconds[1::2]}
    return found


def run_ranks(m, ranks, arguments, pair=None):
    """Half of the ranks on each node of the pair."""
    port, processes = free_port(), []
    for r in range(ranks):
        node = r * 2 // ranks if pair else 0
        extra = environment(m, GLOO_SOCKET_IFNAME=LINK if pair else "lo", DDP_NODE=node)
        env = m.torch_environment(r, ranks, m.threads(ranks), port, ADDRESS[0] if pair else "127.0.0.1", **extra)
        processes.append(m.start([m.python, "-u", os.path.join(HERE, "backends.py")] + arguments, env,
                                 before=pair.enter(node) if pair else ()))
    return parse([m.finish(p, "PyTorch's backends", 300) for p in processes][0])


def rows_of(report, where, ranks, found):
    for (name, n_bytes), times in found.items():
        ratio = median([g / d for g, d in zip(times["gloo"], times["ddp"])])
        s = {k: stats(v) for k, v in times.items()}
        if name == "all_reduce" and n_bytes == 25 * MIB:
            report.goal(f"PyTorch, {where}, {ranks} ranks, 25 MiB all-reduce: gloo / ddp", ratio,
                        at_least=GOALS[where])
        data = {"where": where, "ranks": ranks, "collective": name, "bytes": n_bytes, "seconds": s, "ratio": ratio}
        yield data, [f"{where}, {ranks} ranks, {name}, {n_bytes // MIB} MiB", spread(s["ddp"]), spread(s["gloo"]),
                     short(ratio) + "x"]


def run(m, report):
    o = m.options
    m.check_torch()
    m.run("slurm_ddp.torch", [m.python, "-c", "import slurm_ddp.torch"], m.environment(1, **environment(m)))
    sizes = [MIB] if o.quick else [MIB, 25 * MIB]
    arguments = ["2", "5"] if o.quick else ["5", "31"]
    arguments += [str(s) for s in sizes]
    pair, both = Pair(m), []
    for where, ranks in (("one node", 2), ("one node", 4), ("two nodes", 2), ("two nodes", 4)):
        complain(f"PyTorch's backends, {where}, {ranks} ranks")
        found = run_ranks(m, ranks, arguments, pair if where == "two nodes" else None)
        both += rows_of(report, where, ranks, found)
    table(f"PyTorch's collectives, float32, {m.cores} cores: ms, median of {arguments[1]} pairs (quartiles), and the "
          "median of the pairs' ratios", ["", "ddp", "gloo", "gloo / ddp"], [cells for _, cells in both])
    return [data for data, _ in both]

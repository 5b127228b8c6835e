"""nodes.py - float32 all-reduce between two nodes over TCP: ours, Open MPI, PyTorch over gloo. That it was TCP is seen
by counting what the link carried: each node must send at least its all-reduces' size."""
import json
import os

from peerlib.allreduce import MIB, parse_lines
from peerlib.figures import median, short, spread, stats, table
from peerlib.machine import HERE, Failure, complain, free_port
from peerlib.net import ADDRESS, LINK, Pair

GOALS = {"gloo": 2, "mpi": 1.2}
KIB = 1024


def run_ours(m, pair, per_node, sizes, iterations, warmup):
    out = m.run("ddp bench allreduce between nodes",
                pair.ddp_run(per_node, ["bench", "allreduce", "--json", "--sizes", ",".join(map(str, sizes)), "-n",
                                        str(iterations), "-w", str(warmup)]),
                m.environment(m.threads(2 * per_node), DDP_INTERFACE=LINK))
    answer = json.loads(out)
    if answer["nodes"] != 2 or answer["wrong"]:
        raise Failure(f"ours: {answer['nodes']} nodes, {answer['wrong']} wrong elements")
    return {r["size"]: r["direct"]["time_us"]["median"] * 1e-6 for r in answer["rows"]}


def write_agent(m, pair):
    """What mpirun uses instead of ssh, AGENT HOST COMMAND...: a shell on that node, with a host name of its own, by
    which Open MPI names its shared memory."""
    path = m.path("agent")
    lines = [f'{a}) exec nsenter --net=/run/netns/{ns} unshare --uts sh -c "hostname node{k}; $*" ;;'
             for k, (a, ns) in enumerate(zip(ADDRESS, pair.names))]
    with open(path, "w", encoding="ascii") as file:
        file.write('#!/bin/sh\nhost=$1\nshift\ncase $host in\n' + "\n".join(lines) + "\n*) exit 1 ;;\nesac\n")
    os.chmod(path, 0o755)
    return path


def run_mpi(m, pair, per_node, sizes, iterations, warmup):
    """Shared memory (vader) within a node, TCP between them. mpirun itself is on node 0."""
    hosts = ",".join(f"{a}:{per_node}" for a in ADDRESS)
    options = {"plm_rsh_agent": write_agent(m, pair), "pml": "ob1", "btl": "tcp,vader,self",
               "btl_tcp_if_include": LINK, "oob_tcp_if_include": LINK}
    argv = m.mpirun(2 * per_node, "--host", hosts, "--bind-to", "none")
    argv += [w for k, v in options.items() for w in ("--mca", k, v)]
    argv += [m.mpi_program(), str(warmup), str(iterations)] + [str(s) for s in sizes]
    on_node = ["unshare", "--uts", "sh", "-c", 'hostname node0; exec "$@"', "sh"]
    out = m.finish(m.start(on_node + argv, m.environment(m.threads(2 * per_node)), before=pair.enter(0)),
                   "Open MPI between nodes", 300)
    return {n: median(t) for n, t in parse_lines(out, "Open MPI").items()}


def run_gloo(m, pair, per_node, sizes, iterations, warmup):
    port, ranks = free_port(), 2 * per_node
    argv = [m.python, "-u", os.path.join(HERE, "gloobench.py"), str(warmup), str(iterations)] + [str(s) for s in sizes]
    processes = [m.start(argv, m.torch_environment(r, ranks, m.threads(ranks), port, ADDRESS[0],
                                                   GLOO_SOCKET_IFNAME=LINK), before=pair.enter(r // per_node))
                 for r in range(ranks)]
    out = [m.finish(p, "PyTorch over gloo between nodes", 300) for p in processes][0]
    return {n: median(t) for n, t in parse_lines(out, "gloo").items()}


CONTENDERS = {"ours": run_ours, "mpi": run_mpi, "gloo": run_gloo}


def counted(m, pair, name, per_node, sizes, iterations, warmup):
    """Runs one contender; a Failure where the link carried less than all-reduces between two nodes must send."""
    sides = 2 if name == "ours" else 1  # staged and direct
    least = sides * (iterations + warmup + 1) * sum(sizes)
    before = pair.sent()
    seconds = CONTENDERS[name](m, pair, per_node, sizes, iterations, warmup)
    sent = [b - a for a, b in zip(before, pair.sent())]
    if min(sent) < least:
        raise Failure(f"{name}: the nodes sent {sent} bytes over the link, less than the {least} of the formula: it "
                      "did not run over TCP")
    return seconds, [s / least for s in sent]


def measure(m, pair, per_node, sizes, rounds, iterations, warmup):
    found, sent = {n: {} for n in sizes}, {}
    for k in range(rounds):
        complain(f"between nodes, 2 x {per_node} ranks, round {k + 1} of {rounds}")
        for name in CONTENDERS:
            seconds, sent[name] = counted(m, pair, name, per_node, sizes, iterations, warmup)
            for n, s in seconds.items():
                found[n].setdefault(name, []).append(s)
    return found, sent


def run(m, report):
    o = m.options
    m.check_torch()
    pair = Pair(m)
    sizes = [MIB] if o.quick else [KIB, 64 * KIB, MIB, 25 * MIB]
    rounds, iterations, warmup = (1, 5, 2) if o.quick else (o.rounds, 50, 10)
    data, rows = [], []
    for per_node in (1, 2):
        found, sent = measure(m, pair, per_node, sizes, rounds, iterations, warmup)
        for n, values in found.items():
            size = f"{n // MIB} MiB" if n >= MIB else f"{n // KIB} KiB"
            s = {name: stats(v) for name, v in values.items()}
            ratio = {name: s[name]["median"] / s["ours"]["median"] for name in GOALS}
            for name, least in GOALS.items():
                report.goal(f"between nodes, 2 x {per_node} ranks, {size}: {name} / ours", ratio[name],
                            at_least=least)
            data.append({"nodes": 2, "ranks_per_node": per_node, "bytes": n, "seconds": s, "ratio": ratio,
                         "sent_over_formula": sent})
            rows.append([f"2 x {per_node} ranks, {size}"] + [spread(s[k]) for k in ("ours", "mpi", "gloo")] +
                        [short(ratio[k]) + "x" for k in ("mpi", "gloo")] +
                        ["/".join(f"{max(sent[k]):.2f}" for k in ("ours", "mpi", "gloo"))])
    table(f"All-reduce in place, float32, two network namespaces over TCP: ms, median of {rounds} runs (quartiles)",
          ["", "ours", "Open MPI", "PyTorch/gloo", "MPI/ours", "gloo/ours", "bytes sent / formula"], rows)
    return data

"""overlap.py - which share of communication is hidden behind the backward pass.

Every step has three micro-steps: the last sums its gradients over the ranks, the one before does not (no_sync in
PyTorch); before each of the two all ranks meet, which is not counted. exposed = T_sync - T_nosync, the median over the
steps, each of its own two; T_comm: one plain all-reduce of as many bytes, alone. hidden = 1 - exposed / T_comm."""
import os

from peerlib.figures import median, short, stats, table
from peerlib.machine import HERE, Failure, complain, free_port
from peerlib.net import ADDRESS, LINK, Pair
from peerlib.step import SAME_ORDER, Side, dump_weights, flags, start_ours

# Many tokens for each weight, as in real training: what TCP takes from the cores is then small beside the model.
SIZE = {"layers": 6, "width": 128, "heads": 4, "context": 64, "vocab": 256, "batch": 64}
QUICK = {"layers": 2, "width": 64, "heads": 2, "context": 32, "vocab": 64, "batch": 4}
ACCUM = ["--accum", "3"]
SHARE = 0.65         # of backward that communication is to take
ALLOWED = 0.5, 0.8
HIDDEN_GOAL, STEP_GOAL = 0.9, 1.03
BLOCK = 5


def start_ours_on(m, pair, size, weights):
    argv = pair.ddp_run(1, ["bench", "step", SAME_ORDER] + flags(size) + ACCUM + ["--load", weights, "--lockstep"])
    return lambda prefix: [m.start(argv + [prefix], m.environment(m.threads(2), DDP_INTERFACE=LINK))]


def start_torch_on(m, pair, size, weights):
    def start(prefix):
        port = free_port()
        argv = [m.python, "-u", os.path.join(HERE, "gpt.py"), "--load", weights, "--lockstep", prefix]
        argv += flags(size) + ACCUM
        return [m.start(argv, m.torch_environment(r, 2, m.threads(2), port, ADDRESS[0], GLOO_SOCKET_IFNAME=LINK),
                        before=pair.enter(r)) for r in (0, 1)]
    return start


STARTS = {"ours": start_ours_on, "torch": start_torch_on}


def find_rate(pair, side, n_bytes):
    """Shapes the link until an all-reduce of the gradients takes SHARE of backward: computed from the bytes, then
    corrected once by what was measured. Gives the rate."""
    pair.shape(None)
    side.command("steps 3")
    backward = median(side.command("steps 5")["backward_s"])
    rate = 8 * n_bytes / (SHARE * backward)
    for _ in range(2):
        pair.shape(rate)
        side.command("comm 1")
        share = median(side.command("comm 3")["comm_s"]) / backward
        if abs(share - SHARE) < 0.02:
            break
        rate *= share / SHARE
    return rate


def measure_shaped(m, pair, name, start, steps):
    """One job finds the rate; another, which knows no other link, is measured."""
    complain(f"overlap, {name}: 1 rank on each of two nodes")
    side = Side(m, name + "-rate", 2, start)
    n_bytes = 4 * side.setting["parameters"]
    rate = find_rate(pair, side, n_bytes)
    side.close(m)
    pair.shape(rate)
    side = Side(m, name + "-shaped", 2, start)
    side.command("steps 10")  # whoever plans from what it measures does so now
    d = measure_side(pair, side, n_bytes, steps)
    side.close(m)
    return {"rate_bits_per_s": rate, **d}


def measure_side(pair, side, n_bytes, steps):
    before = pair.sent()
    comm = side.command("comm 3")["comm_s"]
    sent = [b - a for a, b in zip(before, pair.sent())]
    if min(sent) < 3 * n_bytes:
        raise Failure(f"{side.name}: the link carried {sent} bytes for three all-reduces of {n_bytes}")
    found = {}
    for _ in range(-(-steps // BLOCK)):
        for key, values in side.command(f"steps {BLOCK}").items():
            found.setdefault(key, []).extend(values)
    comm += side.command("comm 3")["comm_s"]
    exposed = [a - b for a, b in zip(found["sync_s"], found["quiet_s"])]
    s = {"quiet": stats(found["quiet_s"]), "sync": stats(found["sync_s"]), "exposed": stats(exposed),
         "comm": stats(comm), "backward": stats(found["backward_s"])}
    share = s["comm"]["median"] / s["backward"]["median"]
    if not ALLOWED[0] <= share <= ALLOWED[1]:
        complain(f"{side.name}: communication took {share:.2f} of backward, outside {ALLOWED}: another run may hit it")
    return {"link_bytes": sent, "gradient_bytes": n_bytes, "comm_over_backward": share,
            "hidden": 1 - s["exposed"]["median"] / s["comm"]["median"], "seconds": s}


def between_nodes(m, report, size, steps):
    weights = m.path("weights.overlap")
    dump_weights(m, size, weights)
    pair = Pair(m, apart=True)
    data, rows = {}, []
    for name, start in STARTS.items():
        if name not in m.options.sides:
            continue
        d = data[name] = measure_shaped(m, pair, name, start(m, pair, size, weights), steps)
        s = d["seconds"]
        rows.append([name, f"{d['rate_bits_per_s'] / 1e6:.0f} Mbit/s", f"{100 * d['comm_over_backward']:.0f}%"] +
                    [f"{1e3 * s[k]['median']:.1f}" for k in ("comm", "quiet", "sync")] +
                    ["{:.1f} ({:.1f}-{:.1f})".format(*(1e3 * s["exposed"][k] for k in ("median", "q1", "q3"))),
                     f"{100 * d['hidden']:.0f}%", f"{d['link_bytes'][0] / 3 / d['gradient_bytes']:.3f}"])
    if "ours" in data:
        report.goal("communication hidden, 1 rank on each of two nodes", data["ours"]["hidden"], at_least=HIDDEN_GOAL)
    table("Communication hidden, two network namespaces, 1 rank each, the link shaped: ms, medians (quartiles)",
          ["", "link", "comm/backward", "comm", "no sync", "sync", "exposed", "hidden", "bytes sent / formula"], rows)
    return data


def one_node(m, report, size, steps):
    """A step with summing over the same step without: (sync + rest) / (quiet + rest), rest being the optimizer."""
    complain(f"overlap: {m.cores} ranks on one node")
    side = Side(m, "ours-node", m.cores, start_ours(m, size, m.cores, ACCUM))
    side.command("steps 10")
    found = {}
    for _ in range(-(-steps // BLOCK)):
        for key, values in side.command(f"steps {BLOCK}").items():
            found.setdefault(key, []).extend(values)
    side.close(m)
    ratios = []
    for step, quiet, sync in zip(found["step_s"], found["quiet_s"], found["sync_s"]):
        rest = max(0, step - 2 * quiet - sync)
        ratios.append((sync + rest) / (quiet + rest))
    s = stats(ratios)
    report.goal(f"one node, {m.cores} ranks: step over the same step without sync", s["median"], at_most=STEP_GOAL)
    table(f"One node, {m.cores} ranks on {m.cores} cores, ours",
          ["", "no sync, ms", "sync, ms", "step / step without sync"],
          [["ours", short(1e3 * median(found["quiet_s"])), short(1e3 * median(found["sync_s"])),
            f"{s['median']:.3f} ({s['q1']:.3f}-{s['q3']:.3f})"]])
    return {"ratio": s, "quiet_s": stats(found["quiet_s"]), "sync_s": stats(found["sync_s"])}


def run(m, report):
    size, steps = (QUICK, 5) if m.options.quick else (SIZE, min(m.options.steps, 20))
    sides, data = m.options.sides, {}
    if "torch" in sides:
        m.check_torch()
    if set(STARTS) & set(sides):
        data["between_nodes"] = between_nodes(m, report, size, steps)
    if "node" in sides:
        data["one_node"] = one_node(m, report, size, steps)
    return data

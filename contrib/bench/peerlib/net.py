"""net.py - two nodes on one machine: network namespaces joined by a pair of veths, which can be shaped and which
count."""
import json
import os
import secrets
import shutil
import subprocess

from peerlib.machine import Failure

ADDRESS = "198.18.0.1", "198.18.0.2"  # RFC 2544 sets these aside for tests
LINK = "eth0"
CONGESTION = "reno"  # always there; with BBR as the system's, all but ours, which refuses it, would be slower


def call(*argv, check=True):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise Failure(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Pair:
    """Nodes 0 and 1, gone when the machine's with statement ends. apart: each has half of the cores to itself."""

    def __init__(self, m, apart=False):
        if os.geteuid() != 0:
            raise Failure("network namespaces need root")
        for tool in "ip", "tc", "nsenter":
            if not shutil.which(tool):
                raise Failure(f"{tool} is not there: run \"contrib/deps run\" as root")
        self.m = m
        mine = sorted(os.sched_getaffinity(0))
        half = len(mine) // 2
        self.cores = [",".join(map(str, c)) for c in ((mine[:half], mine[half:]) if apart and half else (mine, mine))]
        name = "ddp-peers-" + secrets.token_hex(3)
        self.names = [f"{name}-0", f"{name}-1"]
        m.cleanups.append(self.remove)
        for ns in self.names:
            call("ip", "netns", "add", ns)
        call("ip", "link", "add", LINK, "netns", self.names[0], "type", "veth", "peer", "name", LINK, "netns",
             self.names[1])
        for k, (ns, address) in enumerate(zip(self.names, ADDRESS)):
            call(*self.enter(k), "sh", "-c", f"echo {CONGESTION} >/proc/sys/net/ipv4/tcp_congestion_control")
            call("ip", "-n", ns, "addr", "add", address + "/24", "dev", LINK)
            for link in "lo", LINK:
                call("ip", "-n", ns, "link", "set", link, "up")
        self.wrapper = self.write_wrapper()

    def remove(self):
        """The veths go with their namespaces."""
        for ns in self.names:
            call("ip", "netns", "del", ns, check=False)

    def enter(self, node):
        """The words before a command that is to run on that node."""
        return ["nsenter", f"--net=/run/netns/{self.names[node]}", "taskset", "-c", self.cores[node]]

    def write_wrapper(self):
        """What `ddp run` starts as a rank: it moves to its node and becomes the program."""
        path = self.m.path("on-node")
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\ncase $DDP_NODE in\n" +
                       "".join(f'{k}) exec {" ".join(self.enter(k))} "$@" ;;\n' for k in (0, 1)) + "esac\n")
        os.chmod(path, 0o755)
        return path

    def ddp_run(self, ranks_per_node, arguments):
        """A command line that starts `ddp ARGUMENTS...` on both nodes."""
        return [self.m.ddp(), "run", "--layout", f"{ranks_per_node},{ranks_per_node}", "--boot",
                "unix:" + self.m.path("boot." + secrets.token_hex(4)), "--", self.wrapper, self.m.ddp()] + arguments

    def sent(self):
        """Bytes that each node has sent over the link."""
        return [json.loads(call("ip", "-n", ns, "-s", "-j", "link", "show", LINK))[0]["stats64"]["tx"]["bytes"]
                for ns in self.names]

    def shape(self, bits_per_s):
        """Both directions; None: as fast as it goes. The burst lets a few of the largest segments through."""
        for ns in self.names:
            if bits_per_s is None:
                call("tc", "-n", ns, "qdisc", "del", "dev", LINK, "root", check=False)
                continue
            rate = int(bits_per_s)
            call("tc", "-n", ns, "qdisc", "replace", "dev", LINK, "root", "tbf", "rate", f"{rate}bit", "burst",
                 str(max(128 << 10, rate // 8 // 1000)), "latency", "200ms")

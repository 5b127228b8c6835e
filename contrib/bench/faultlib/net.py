"""net.py - the network of a cluster's node (contrib/cluster --netns): cut, deaf, mute or slow, and whole again."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NOBODY_THERE = "02:00:00:00:00:01"


def call(*argv):
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


class Net:
    """addresses: node -> its IPv4 address; "ctl" is slurmctld's and srun's, outside of all namespaces."""

    def __init__(self, ident, addresses):
        self.ident, self.addresses = ident, addresses
        self.undo = []

    def ns(self, node):
        return f"ddp-{self.ident}-{node}"

    def outer(self, node):
        """The other end of the node's eth0, a port of the bridge."""
        return f"ddp-{self.ident}-{node[1:]}"

    def link_of(self, node):
        return ["ip", "-n", self.ns(node)], "eth0"

    def cut(self, node):
        ip, link = self.link_of(node)
        call(*ip, "link", "set", link, "down")
        self.undo.append(lambda: self.join(node))

    def join(self, node):
        """With the link its routes went."""
        ip, link = self.link_of(node)
        call(*ip, "link", "set", link, "up")
        call(*ip, "route", "replace", "default", "via", self.addresses["ctl"])

    def misdirect(self, who, to):
        """What `who` sends to `to` arrives nowhere, and `who` is not told."""
        ip, link = (["ip"], f"ddp-{self.ident}") if who == "ctl" else self.link_of(who)
        call(*ip, "neigh", "replace", self.addresses[to], "lladdr", NOBODY_THERE, "dev", link, "nud", "permanent")
        self.undo.append(lambda: call(*ip, "neigh", "del", self.addresses[to], "dev", link))

    def mute(self, node):
        for other in self.addresses:
            if other != node:
                self.misdirect(node, other)

    def deafen(self, node):
        for other in self.addresses:
            if other != node:
                self.misdirect(other, node)

    def slow(self, node, delay_s, loss):
        """Both ways, by a process in place of the bridge's port: there need not be a netem in the kernel."""
        bridge, port = f"ddp-{self.ident}", self.outer(node)
        inner, plug = port + "w", port + "x"
        call("ip", "link", "add", inner, "type", "veth", "peer", "name", plug)
        self.undo.append(lambda: call("ip", "link", "del", inner))
        for name in inner, plug:
            call("ip", "link", "set", name, "up")
        wire = subprocess.Popen([sys.executable, f"{HERE}/wire.py", port, inner, str(delay_s), str(loss)],
                                stdout=subprocess.PIPE)
        self.undo.append(lambda: (wire.kill(), wire.wait(), wire.stdout.close()))
        wire.stdout.readline()
        call("ip", "link", "set", port, "nomaster")
        self.undo.append(lambda: call("ip", "link", "set", port, "master", bridge))
        call("ip", "link", "set", plug, "master", bridge)

    def mend(self):
        while self.undo:
            self.undo.pop()()

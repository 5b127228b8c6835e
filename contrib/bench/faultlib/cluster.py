"""cluster.py - a cluster of contrib/cluster, the steps that run there, and what is left of them."""
import glob
import os
import pwd
import signal
import subprocess
import threading
import time

from faultlib.net import Net

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "cluster")
USER = pwd.getpwnam("nobody")
TIME_WAIT = "06"


def read(path, default=""):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return default


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(text))


def status_of(pid):
    """Fields of /proc/PID/status; one of another user's that is not dumpable still shows its real uid there."""
    return dict(line.split(":\t", 1) for line in read(f"/proc/{pid}/status").splitlines() if ":\t" in line)


def parent(pid):
    return int(status_of(pid).get("PPid", "0"))


class Cluster:
    def __init__(self, folder, n_nodes, plugin):
        self.dir, self.nodes = folder, [f"n{k + 1}" for k in range(n_nodes)]
        self.tool("up", str(n_nodes), "--netns", "--no-affinity", "--plugin", plugin)
        self.id = read(f"{folder}/id").strip()
        hosts = [line.split() for line in read(f"{folder}/hosts.{self.id}").splitlines()]
        self.net = Net(self.id, {name: line[0] for line in hosts for name in line[1:]
                                 if name in self.nodes + ["ctl"]})
        self.shm = set(os.listdir("/dev/shm"))
        for node in self.nodes:
            os.mkdir(self.group(node))
            self.adopt(node)

    def group(self, node):
        """All that runs on the node is in this memory control group (version 1), as a step is in one of Slurm's."""
        return f"/sys/fs/cgroup/memory/ddp-{self.id}-{node}"

    def adopt(self, node):
        write(f"{self.group(node)}/cgroup.procs", self.slurmd(node))

    def limit_memory(self, node, left):
        used = int(read(f"{self.group(node)}/memory.usage_in_bytes"))
        write(f"{self.group(node)}/memory.limit_in_bytes", used + left)

    def unlimit_memory(self):
        for node in self.nodes:
            write(f"{self.group(node)}/memory.limit_in_bytes", -1)

    def start_slurmd(self, node):
        self.tool("slurmd", node)
        self.adopt(node)

    def tool(self, verb, *args, **more):
        argv = [TOOL, verb, *args, "--dir", self.dir] if verb == "up" else [TOOL, verb, "--dir", self.dir, *args]
        return subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, **more)

    def query(self, *argv):
        return self.tool("run", *argv, stdout=subprocess.PIPE, text=True, timeout=60).stdout.split()

    def down(self):
        self.net.mend()
        self.tool("down")
        for node in self.nodes:
            os.rmdir(self.group(node))

    def slurmd(self, node):
        return int(read(f"{self.dir}/pid/{node}").split()[0])

    def ours(self):
        """The user's processes in the cluster but for those outside of its nodes (srun)."""
        mark = f"/hosts.{self.id}"
        inside = {f"net:[{os.stat('/run/netns/' + self.net.ns(n)).st_ino}]" for n in self.nodes}
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or status_of(entry).get("Uid", "0").split()[0] != str(USER.pw_uid):
                continue
            try:
                if mark in read(f"/proc/{entry}/mountinfo") and os.readlink(f"/proc/{entry}/ns/net") in inside:
                    found.append(int(entry))
            except OSError:
                pass
        return found

    def sockets(self):
        """The user's, and the guards' names, in all nodes' networks."""
        left = []
        for node in self.nodes:
            net = f"/proc/{self.slurmd(node)}/net"
            for table in "tcp", "tcp6":
                rows = [line.split() for line in read(f"{net}/{table}").splitlines()[1:]]
                left += [f"{node}:{r[1]}>{r[2]}" for r in rows if r[7] == str(USER.pw_uid) and r[3] != TIME_WAIT]
            left += [f"{node}:{line.split()[-1]}" for line in read(f"{net}/unix").splitlines() if "@ddp" in line]
        return left

    def files(self):
        """Not Slurm's own: its PMIx leaves a folder where slurmstepd is killed."""
        left = [name for name in os.listdir("/dev/shm") if name not in self.shm]
        return left + [name for node in self.nodes for name in glob.glob(f"{self.dir}/tmp.{node}/*")
                       if os.stat(name).st_uid == USER.pw_uid and "/spmix_appdir" not in name]

    def settle(self, seconds):
        """No job, all nodes idle. False: not within that time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            jobs = self.query("squeue", "-h", "-o", "%A")
            if jobs:
                self.tool("run", "scancel", *jobs, stderr=subprocess.DEVNULL)
            elif set(self.query("sinfo", "-h", "-N", "-o", "%T")) == {"idle"}:
                return True
            time.sleep(0.2)
        return False


class Step:
    """An srun in the cluster; what it says, with times."""

    def __init__(self, cluster, argv, env):
        self.lines = {"out": [], "err": []}
        self.srun = subprocess.Popen([TOOL, "run", "--dir", cluster.dir, *argv], env={**os.environ, **env},
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     text=True, errors="replace")
        self.readers = [threading.Thread(target=self.follow, args=(f, self.lines[name]), daemon=True)
                        for f, name in ((self.srun.stdout, "out"), (self.srun.stderr, "err"))]
        for thread in self.readers:
            thread.start()

    @staticmethod
    def follow(file, lines):
        for line in file:
            lines.append((time.monotonic(), line.rstrip("\n")))

    def said_at(self, start, name="out"):
        """When a line began so, or 0."""
        return next((at for at, line in list(self.lines[name]) if line.startswith(start)), 0)

    def pids(self):
        """srun's own: it has a child that ends the step when it dies."""
        pids = [self.srun.pid]
        for pid in pids:
            pids += [int(p) for t in glob.glob(f"/proc/{pid}/task/*/children") for p in read(t).split()]
        return pids

    def kill(self):
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def wait(self, seconds):
        """The exit code; None: it has not ended."""
        try:
            code = self.srun.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        for thread in self.readers:
            thread.join(5)
        return 128 - code if code < 0 else code

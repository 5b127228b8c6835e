"""machine.py - what runs: programs of every contender, in an environment that is the same for all, and their end."""
import ctypes
import os
import secrets
import signal
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LIBC = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """One line for the user: what failed, and the cure."""


def children():
    pids = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
                pids += map(int, file.read().split())
        except OSError:
            pass
    return pids


def end_descendants(seconds=10):
    """SIGKILL for every child, and for the orphans that come to us by that, until none is left."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for pid in children():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


class Machine:
    """Builds and starts programs. Used in a with statement: at its end nothing that it started or made is left."""

    def __init__(self, options):
        self.options = options
        self.cores = len(os.sched_getaffinity(0))
        self.python = os.environ.get("PEER_PYTHON", "/usr/bin/python3")
        self.cleanups = []

    def __enter__(self):
        def leave(number, _frame):
            raise KeyboardInterrupt(number)
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            signal.signal(number, leave)
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.work = tempfile.mkdtemp(prefix="ddp-peers.")
        os.chmod(self.work, 0o755)
        self.shm = tempfile.mkdtemp(prefix="bench-peers.", dir="/dev/shm")
        return self

    def __exit__(self, *_):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            signal.signal(number, signal.SIG_IGN)
        end_descendants()
        for cleanup in reversed(self.cleanups):
            cleanup()
        for folder in self.work, self.shm:
            shutil.rmtree(folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.work, name)

    def ddp(self):
        path = os.path.join(self.options.build, "ddp")
        if not os.access(path, os.X_OK):
            raise Failure(f"{path} is not there: run make there, or give --build")
        return path

    def environment(self, threads, **extra):
        """The same for every contender. The core type is the one that ours would choose by itself: Debian's OpenBLAS
        takes an older one on machines with AVX-512."""
        others = ("DDP_", "SLURM_", "OMPI_", "PMIX_", "OPENBLAS_")
        env = {k: v for k, v in os.environ.items() if not k.startswith(others)}
        for name in "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT":
            env.pop(name, None)
        env["OMP_NUM_THREADS"] = env["OPENBLAS_NUM_THREADS"] = str(threads)
        core = os.environ.get("OPENBLAS_CORETYPE") or ("SkylakeX" if has_avx512() else None)
        if core:
            env["OPENBLAS_CORETYPE"] = core
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        env.update({k: str(v) for k, v in extra.items() if v is not None})
        return env

    def start(self, argv, env, out=subprocess.PIPE, before=()):
        """In a session of its own, so that Ctrl-C comes to us alone; it dies when we do."""
        argv = [*before, *argv]
        parent = os.getpid()

        def prepare():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)
        errors = open(self.path(f"stderr.{secrets.token_hex(4)}"), "w+b")
        process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
                                   start_new_session=True, preexec_fn=prepare, text=True)
        process.errors = errors
        return process

    def finish(self, process, what, seconds):
        try:
            out, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{what} took more than {seconds} s: {last_words(process)}") from None
        if process.returncode:
            raise Failure(f"{what} failed with code {process.returncode}: {last_words(process)}")
        return out

    def run(self, what, argv, env, seconds=300):
        return self.finish(self.start(argv, env), what, seconds)

    def torch_environment(self, rank, size, threads, port, address="127.0.0.1", **extra):
        return self.environment(threads, RANK=rank, WORLD_SIZE=size, LOCAL_RANK=rank, MASTER_ADDR=address,
                                MASTER_PORT=port, **extra)

    def run_torch(self, what, script, arguments, ranks, seconds=300):
        """Starts a rank of the script each; gives rank 0's output."""
        port = free_port()
        all_ranks = [self.start([self.python, "-u", os.path.join(HERE, script)] + arguments,
                                self.torch_environment(r, ranks, self.threads(ranks), port, GLOO_SOCKET_IFNAME="lo"))
                     for r in range(ranks)]
        return [self.finish(p, what, seconds) for p in all_ranks][0]

    def threads(self, ranks):
        """ranks x threads = cores."""
        return max(1, self.cores // ranks)

    def mpirun(self, ranks, *more):
        """What Open MPI keeps in files goes to folders that we remove: it leaves them where it is killed. It cannot
        know that two nodes share cores: that waiting ranks must yield is said here."""
        settings = {"orte_tmpdir_base": self.work, "btl_vader_backing_directory": self.shm}
        if ranks > self.cores:
            settings["mpi_yield_when_idle"] = "1"
        argv = ["mpirun", "-n", str(ranks), *more] + (["--oversubscribe"] if ranks > self.cores else [])
        return argv + [word for k, v in settings.items() for word in ("--mca", k, v)]

    def mpi_program(self):
        path = self.path("mpibench")
        if not os.path.exists(path):
            if not shutil.which("mpicc") or not shutil.which("mpirun"):
                raise Failure("mpicc and mpirun are not there: run \"contrib/deps peers\" as root")
            self.run("mpicc", ["mpicc", "-O2", "-o", path, os.path.join(HERE, "mpibench.c")], dict(os.environ))
        return path

    def check_torch(self):
        try:
            return self.run("python", [self.python, "-c", "import torch; print(torch.__version__)"],
                            self.environment(1)).strip()
        except (Failure, OSError):
            raise Failure(f"{self.python} has no PyTorch: run \"contrib/deps peers\" as root, or name another Python "
                          "with PEER_PYTHON=") from None


def has_avx512():
    needed = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("flags"):
                return needed <= set(line.split())
    return False


def last_words(process):
    process.errors.seek(0)
    lines = process.errors.read().decode(errors="replace").strip().splitlines()
    return " / ".join(lines[-3:]) or "it said nothing"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def say(text=""):
    print(text, flush=True)


def complain(text):
    print(f"contrib/bench/{os.path.basename(sys.argv[0])}: {text}", file=sys.stderr, flush=True)

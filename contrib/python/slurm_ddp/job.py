"""job.py - this process's place among the ranks, and what the ranks agree on after each step."""
import atexit
import ctypes
import functools
import logging
import multiprocessing
import os
import signal
import sys
import threading

from ._lib import I64, Error, Status, Step, World, call, calls, library, why_of

log = logging.getLogger("slurm_ddp")
EXIT_STOPPED = 75  # DDP_EXIT_STOPPED: stopped as asked, and saved: run it again, and it goes on
# In the environment of a rank's children: its process number, whether it catches the signals that stop a job, and the
# numbers of World.
RANK_WORLD = "DDP_PYTHON_WORLD"


class Stopped(SystemExit):
    """The job was asked to stop and has saved: where nobody catches this, the process exits with 75."""

    def __init__(self, why):
        super().__init__(EXIT_STOPPED)
        self.why = why

    def __str__(self):
        return self.why


def _end_by(pids):
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid not in pids:
        pass
    os._exit(0)


def _outlive_stop(*pids):
    """In a DataLoader's worker. Slurm's SIGTERM, which comes to all processes, must not end it while its rank still
    makes its step and saves; SIGTERM from its parent, or from one of `pids`, ends it. Not in subprocess's child, which
    is another program at once: it would keep the mask (what a worker starts does: kill() ends that)."""
    if sys._getframe(1).f_globals.get("__name__") == "subprocess":
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_end_by, args=({os.getppid(), *pids},), daemon=True).start()


class Job:
    """One per process, made when it is first needed."""

    def __init__(self):
        self._handle = ctypes.c_void_p(call("ddp_init", None, None))
        self.pid = os.getpid()
        self.world = World.from_buffer_copy(library().ddp_world(self.handle)[0])
        self.is_open = False
        self.step_done = Step()
        self.has_checkpoint = False  # whose step() asks
        self.warned = ""
        self._check_world()
        self._tell_workers()
        atexit.register(self.close)
        self._tell_peers()

    @property
    def handle(self):
        if not self._handle:
            raise Error("this process has left the job, as it ends: an atexit handler that is to save has to be "
                        "registered after Checkpoint(...)")
        return self._handle

    def _check_world(self):
        """What torch.distributed goes by is what libddp has found."""
        for name, have in (("WORLD_SIZE", self.world.size), ("RANK", self.world.rank)):
            if os.environ.get(name, str(have)).strip() != str(have):
                raise Error(f"{name} is {os.environ[name]}, but libddp finds {have}: start one process per rank by "
                            "`srun --ddp=on` or `ddp run`, without torchrun or mp.spawn between")

    def _tell_workers(self):
        numbers = [getattr(self.world, name) for name, _ in World._fields_]
        os.environ[RANK_WORLD] = " ".join(map(str, [self.pid, int(self.is_open), *numbers]))

    def _tell_peers(self):
        """An exception that ends this rank is what the others' errors say."""
        before = sys.excepthook

        def hook(kind, value, trace):
            if os.getpid() == self.pid and self._handle:
                library().ddp_abort(self._handle, 1, why_of(kind, value))
            before(kind, value, trace)
        sys.excepthook = hook

    def open(self, options=None):
        """Opens the state (ddp_state_open), once; the signals that stop a job are caught from here on."""
        if self.is_open and not options:
            return self
        for key, value in (options or {}).items():
            call("ddp_option", self.handle, key.encode(), str(value).encode())
        call("ddp_state_open", self.handle)
        if not self.is_open:
            self.is_open = True
            self._tell_workers()
            os.register_at_fork(after_in_child=_outlive_stop)  # the child has libddp's handlers of the other signals
        return self

    def step(self):
        call("ddp_state_step_sized", self.handle, self.step_done, ctypes.sizeof(Step))
        return self.step_done

    def status(self):
        s = Status()
        library().ddp_checkpoint_status_sized(self.handle, s, ctypes.sizeof(s))
        return s

    def tell(self):
        """What the status warns of, each once."""
        warning = self.status().warning.decode(errors="replace")
        if warning and warning != self.warned:
            log.warning("%s", warning)
        self.warned = warning

    def warning_of_rank_0(self):
        """The others' statuses have none. Collective."""
        size = Status.warning.size
        warning = ctypes.create_string_buffer(self.status().warning, size)
        call("ddp_bcast", self.handle, warning, size // 8, I64, 0)
        return warning.value.decode(errors="replace")

    def close(self):
        """Not beside a call of another thread, a daemon that outlives the main one: the others see this process end."""
        if os.getpid() == self.pid and self._handle and not calls:
            library().ddp_finalize(self._handle)
            self._handle = None


def _parent_of(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


@functools.lru_cache(maxsize=1)
def _rank_of(pid):
    """What RANK_WORLD says of the rank whose worker process `pid`, this one, is by multiprocessing's spawn or
    forkserver: its parent is the rank, or the fork server, whose parent is. Else None. While a worker, or the fork
    server, still imports what its rank has as __main__, parent_process() is None."""
    is_worker = multiprocessing.parent_process() or getattr(multiprocessing.current_process(), "_inheriting", False)
    rank_pid, *numbers = map(int, os.environ.get(RANK_WORLD, "0").split())
    if is_worker and rank_pid and rank_pid in (os.getppid(), _parent_of(os.getppid())):
        return rank_pid, *numbers
    return None


def _rank_world(pid):
    rank = _rank_of(pid)
    return World(*rank[2:]) if rank else None


def _outlive_all_stops(rank_pid):
    """In a worker that inherits no handlers, and in the fork server."""
    is_main = threading.current_thread() is threading.main_thread()  # in others nobody may set a handler
    for signo in (signal.SIGUSR1, signal.SIGUSR2) if is_main else ():
        if signal.getsignal(signo) == signal.SIG_DFL:
            signal.signal(signo, signal.SIG_IGN)
    _outlive_stop(rank_pid)
    os.register_at_fork(after_in_child=functools.partial(_outlive_stop, rank_pid))


_job = None
_rank = _rank_of(os.getpid())
if _rank and _rank[1]:
    _outlive_all_stops(_rank[0])


def job():
    global _job
    if not _job and not _rank_world(os.getpid()):
        _job = Job()
    if not _job or _job.pid != os.getpid():
        raise Error("this process is a child of one that is a rank, and none itself: only world() can be called here")
    return _job


def world():
    """This process among the ranks: rank, size, local_rank, local_size, node, n_nodes; in a DataLoader's worker its
    rank. Collective at its first call on a rank."""
    return _job.world if _job else _rank_world(os.getpid()) or job().world


def why_stopped(step):
    return "stopped by " + (signal.Signals(step.stop_signal).name if step.stop_signal else "the end of its time")


def stop_requested():
    """True on all ranks after the same call, once the scheduler or the user has asked any of them to stop: by a signal,
    or since the job's time is nearly over. For a loop that saves by its own means, which then ends with EXIT_STOPPED;
    collective, so once a step on every rank. With a Checkpoint its step() asks, and this only repeats the answer."""
    j = job().open()
    return bool((j.step_done if j.has_checkpoint else j.step()).stop)


def requeue():
    """For a loop that was asked to stop and has saved by its own means: has the batch job put back into the queue,
    where that is possible (not with --no-requeue, nor where somebody cancels the job), and says on rank 0 what became
    of it; "" elsewhere. Collective; then end with sys.exit(EXIT_STOPPED). A Checkpoint does so by itself, where
    --ddp=on,requeue=auto says so."""
    j = job().open()
    call("ddp_requeue", j.handle)
    note = library().ddp_requeue_note(j.handle)
    return note.decode() if note else ""


def deadline():
    """When the job's time is over, as time.time() counts: the same on all ranks. None: never, or not known yet, before
    the first step() or stop_requested()."""
    return job().step_done.end_s or None

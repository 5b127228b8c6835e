"""sampler.py - libddp's ledger for a DataLoader."""
import ctypes
import random
import sys
import warnings

from ._lib import Error, call
from .job import job

ACCELERATE = "{} already: give it no DataLoader that has this sampler"
WRONG = {"BatchSamplerShard": ACCELERATE.format("accelerator.prepare() would share out again what is this rank's"),
         "SkipBatchSampler": ACCELERATE.format("skip_first_batches() would leave out again what a resume has"),
         "BatchSampler": "a DataLoader that has it as its sampler makes batches of its batches: DataLoader(dataset, "
                         "batch_sampler=sampler)"}


def _seed(loader, *of):
    """A DataLoader that begins to read draws a number for its workers' seeds, and after a resume one begins where in a
    run that nobody stopped none does. So it draws from a generator of its own, whose seed follows from `of`."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(loader, torch.utils.data.DataLoader):
        return
    if loader.generator is getattr(loader, "ddp_generator", None):  # not its program's
        seed = random.Random(repr((torch.initial_seed(), of))).getrandbits(63)
        loader.generator = loader.ddp_generator = torch.Generator(torch.empty(0).device).manual_seed(seed)


class Sampler:
    """Batches of sample numbers, for DataLoader(dataset, batch_sampler=...) or by itself: every sample exactly once an
    epoch, in an order drawn from seed and epoch, whatever stops and resumes happen between, and on whatever numbers of
    ranks. It takes no memory and goes on anywhere at once.

    data: the dataset, or how many samples there are. A step takes batch_size x accumulate x ranks of them, in
    `accumulate` batches on each rank; an epoch's last step takes what is left, spread evenly. So that no rank is ever
    without a sample, what would be fewer than one for each goes with the step before (a batch may then have one more),
    or after a resume on more ranks with the next epoch's first.

    Its state is how many samples all ranks together have used in steps that are done (step(), which a Checkpoint
    calls), not those that a DataLoader has drawn ahead.
    """

    def __init__(self, data, batch_size, accumulate=1, seed=0, rank=None, size=None):
        where = job().world if rank is None or size is None else None
        if not isinstance(data, int) and not hasattr(data, "__len__"):
            raise Error(f"Sampler: a {type(data).__name__} has no length, and no numbers of samples, by which a resume "
                        "goes: give a dataset with __getitem__ and __len__")
        self.n = data if isinstance(data, int) else len(data)
        self.batch_size, self.accumulate, self.seed = batch_size, accumulate, seed
        self.rank = where.rank if rank is None else rank
        self.size = where.size if size is None else size
        self.drop_last = False  # as DataLoaders ask
        self.position = 0       # samples used by all ranks, over all epochs
        self.on_read = None     # called when an iterator begins to read, from a resume to the first step after it
        self._drawn = 0         # where the last iterator is
        self._limit = None      # of epochs()
        self._read_at = None    # where an iterator began that was read to its end
        self._is_ahead = False  # may the last iterator's reader be ahead of the loop?
        if batch_size < 1 or accumulate < 1 or not 0 <= self.rank < self.size:
            raise Error(f"Sampler: batch_size {batch_size}, accumulate {accumulate}, rank {self.rank} of {self.size}: "
                        "at least 1, 1, and a rank below the number of ranks")
        if self.n < self._least:
            raise Error(f"Sampler: {self.n} samples are fewer than one for each of {accumulate} batches on {self.size} "
                        "ranks: use more data or fewer ranks")

    @property
    def _least(self):
        return self.accumulate * self.size

    @property
    def epoch(self):
        return self.position // self.n

    @property
    def after_step(self):
        """The position behind the step that is being made."""
        return self.position + self._step(self.position)

    @property
    def is_at_last_step(self):
        """Is the step that is being made an epoch's last one?"""
        return self.after_step == self._end(self.position)

    def epochs(self, n):
        """The epochs that are left of n: `for epoch in sampler.epochs(3)`."""
        self._limit = n
        if self.position % self.n == 0:  # what an epoch ends with may come before the first batch, and draw
            self._tell()
            self.on_read = None
        while self.epoch < n:
            yield self.epoch

    def _end(self, position):
        """Where the iterator that begins at `position` ends."""
        end = (position // self.n + 1) * self.n
        if end - position >= self._least:
            return end
        if self._limit is not None and end >= self._limit * self.n:
            raise Error(f"Sampler: {end - position} samples are left of the last epoch, for {self._least} batches: go "
                        f"on with at most {(end - position) // self.accumulate} ranks")
        return end + self.n

    def _step(self, position):
        """How many samples the step at `position` takes."""
        left, most = self._end(position) - position, self.batch_size * self._least
        return left if left < most + self._least else most

    def _samples(self, first, n):
        """Samples at places [first, first + n) of all epochs' orders, one after the other."""
        ids = (ctypes.c_uint64 * n)()
        done = 0
        while done < n:
            epoch, place = divmod(first + done, self.n)
            part = min(n - done, self.n - place)
            to = ctypes.cast(ctypes.byref(ids, 8 * done), ctypes.POINTER(ctypes.c_uint64))
            call("ddp_ledger", self.n, self.seed, epoch, place, part, to)
            done += part
        return list(ids)

    def _batch(self, position, micro):
        """Of a step's n samples cut into chunks, those that are this rank's in its batch number `micro`."""
        n, chunk = self._step(position), micro * self.size + self.rank
        first, end = n * chunk // self._least, n * (chunk + 1) // self._least
        return self._samples(position + first, end - first)

    def _is_read_again(self):
        """The last iterator was read to its end, and what it gave was not used. Workers read ahead of a loop, which may
        leave before."""
        if self._read_at is None or self._read_at == self.position:
            return self._read_at is not None
        return not self._is_ahead and self.position != self._drawn

    def _tell(self):
        if self.on_read:
            self.on_read()

    def __iter__(self):
        caller = sys._getframe(1)
        loader = caller.f_locals.get("loader")  # so it is called where PyTorch calls, in _BaseDataLoaderIter
        wrong = WRONG.get(type(caller.f_locals.get("self")).__name__)
        if wrong:
            raise Error(f"Sampler: {wrong}")
        if self._is_read_again():
            warnings.warn("slurm_ddp.Sampler is read again from a place that was read before: call step(), or a "
                          "Checkpoint's, after each optimizer step, and give Sampler(accumulate=N) where that takes N "
                          "batches", RuntimeWarning, 2)
        _seed(loader, self.seed, self.rank, self.position)
        self._is_ahead = getattr(loader, "num_workers", 0) > 0
        is_at_begin = self.position % self.n == 0
        if is_at_begin:
            self._tell()  # an epoch begins here, as it did when nothing had been restored
        self._drawn, self._read_at = self.position, None
        return self._read(self.position, self._end(self.position), not is_at_begin)

    def _read(self, position, end, tells):
        begun = position
        if tells:
            self._tell()
        while position < end:
            self._drawn = position + self._step(position)
            for micro in range(self.accumulate):
                yield self._batch(position, micro)
            position = self._drawn
        self._read_at = begun

    def __len__(self):
        """Batches from here to the end of the epoch, on each rank."""
        n, position = 0, self.position
        end = self._end(position)
        whole = max((end - position) // (self.batch_size * self._least) - 2, 0)
        position += whole * self.batch_size * self._least
        while position < end:
            position += self._step(position)
            n += 1
        return (whole + n) * self.accumulate

    def step(self):
        """A step is done: its samples count as used. A Checkpoint that has this sampler calls it."""
        to = self.after_step
        if to > self._drawn:
            raise Error(f"Sampler: a step is over whose samples nobody has read: step() comes once after each "
                        f"{self.accumulate} batches")
        self.position, self.on_read = to, None

    def set_epoch(self, epoch):
        """For loops that call it at an epoch's start, where it changes nothing: the epoch follows from the position."""
        if epoch != self.epoch and self.position:
            raise Error(f"Sampler: set_epoch({epoch}), but training is in epoch {self.epoch}: write `for epoch in "
                        "sampler.epochs(N)`")
        if epoch != self.epoch:
            self.position = epoch * self.n

    def state_dict(self):
        return {"n": self.n, "seed": self.seed, "position": self.position}

    def load_state_dict(self, state):
        for key, have in (("n", self.n), ("seed", self.seed)):
            if state[key] != have:
                raise Error(f"Sampler: the checkpoint has {key} {state[key]}, not {have}: go on with the same data and "
                            "seed, or name another folder")
        self.position = self._drawn = state["position"]
        self._read_at = None

"""lightning.py - a callback that gives Lightning's Trainer slurm_ddp's samples, checkpoints and stops."""
import signal

from lightning.pytorch import callbacks

from ._lib import Error
from .checkpoint import Checkpoint


def _add(progress, n):
    for name in ("ready", "started", "processed", "completed"):
        setattr(progress, name, getattr(progress, name) + n)


def _after(loop, name, call):
    """Lightning calls no callback there."""
    theirs = getattr(type(loop), name).__get__(loop)

    def both(*args):
        theirs(*args)
        call()
    setattr(loop, name, both)


class Saver(callbacks.Callback):
    """folder: where the training's state goes and comes from by itself; sampler: the slurm_ddp.Sampler of the
    DataLoader (batch_sampler=sampler). The Trainer wants max_steps in place of epochs, use_distributed_sampler=False
    and enable_checkpointing=False."""

    def __init__(self, folder, sampler):
        self.folder, self.sampler = folder, sampler
        self._before = 0  # batches of Lightning's epoch before the resume

    def _check_counts(self, trainer):
        if trainer.max_steps <= 0 or trainer.accumulate_grad_batches != self.sampler.accumulate:
            raise Error(f"lightning.Saver: the Trainer needs max_steps, since a resume counts steps, not epochs, and "
                        f"accumulate_grad_batches={self.sampler.accumulate}, as the Sampler, in all epochs")

    def _check(self, trainer, module, n_batches):
        accumulate, most = self.sampler.accumulate, trainer.num_training_batches
        if trainer.global_step:
            raise Error(f"lightning.Saver: Lightning has gone on by itself, at step {trainer.global_step}, from "
                        "ckpt_path or a hpc_ckpt_*.ckpt in default_root_dir, where its own requeue leaves that: "
                        "leave the one away and remove the other; Saver goes on from its folder")
        self._check_counts(trainer)
        if most < n_batches and most % accumulate:
            raise Error(f"lightning.Saver: limit_train_batches makes epochs of {most} batches, no whole steps of "
                        f"{accumulate}: the Sampler would count samples that nobody used; limit them to a multiple")
        if not module.automatic_optimization:
            raise Error("lightning.Saver: automatic_optimization=False is not supported: a resume could not tell how "
                        "many batches a step takes; leave the optimizer to the Trainer")

    def on_train_start(self, trainer, module):
        n_batches = len(self.sampler)  # of a whole epoch
        self._check(trainer, module, n_batches)
        # Lightning's own handlers would save and requeue by other means, or wait for ranks that got no signal. At the
        # end it puts back what was there before; but srun ends all ranks with SIGTERM as soon as one has left.
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        trainer._signal_connector._original_handlers.clear()
        schedulers = {f"scheduler{i}": c.scheduler for i, c in enumerate(trainer.lr_scheduler_configs)}
        optimizers = {f"optimizer{i}": o for i, o in enumerate(trainer.optimizers)}
        scaler = getattr(trainer.precision_plugin, "scaler", None)  # of 16-bit floats
        scalers = {"scaler": scaler} if scaler is not None else {}
        self.checkpoint = Checkpoint(self.folder, model=module, sampler=self.sampler, **optimizers, **schedulers,
                                     **scalers)
        loop = trainer.fit_loop.epoch_loop
        loop.automatic_optimization.optim_progress.optimizer.step.total.completed = self.checkpoint.steps
        loop._batches_that_stepped = self.checkpoint.steps
        _after(loop, "on_run_start", lambda: self._on_epoch_begun(loop))
        _after(loop, "on_advance_end", lambda: self._on_batch_over(trainer))
        if self.checkpoint.resumed:
            self._go_on(trainer, n_batches)

    def _go_on(self, trainer, n_batches):
        """Validation and schedules go by Lightning's counts of epochs and batches, which would begin at 0 again. With
        limit_train_batches several of its epochs are one of the Sampler's, the last of which may be shorter."""
        fit, most = trainer.fit_loop, trainer.num_training_batches
        n_done = max(n_batches - len(self.sampler), 0)
        _add(fit.epoch_progress.current, self.sampler.epoch * -(-n_batches // most) + n_done // most)
        self._before = n_done % most
        _add(fit.epoch_loop.batch_progress.total, self.checkpoint.steps * self.sampler.accumulate)
        if not trainer.current_epoch:  # of a later epoch Lightning does it
            iter(fit._data_fetcher)  # what it has read ahead already was the first batch of all

    def _on_epoch_begun(self, loop):
        _add(loop.batch_progress.current, self._before)  # here: it is 0 when an epoch begins
        self._before = 0

    def _on_batch_over(self, trainer):
        """A step's checkpoint comes after its validation and the schedulers that go by it; that of an epoch's last step
        after what comes at the epoch's end, too."""
        if not trainer.fit_loop.epoch_loop._num_ready_batches_reached() or trainer.reload_dataloaders_every_n_epochs:
            self._step(trainer)

    def on_train_epoch_start(self, trainer, *_):
        self._step(trainer)

    def on_train_end(self, trainer, *_):
        self._step(trainer)
        self.checkpoint.save()

    def _step(self, trainer):
        self._check_counts(trainer)  # GradientAccumulationScheduler changes them
        if trainer.global_step > self.checkpoint.steps:
            self.checkpoint.step()

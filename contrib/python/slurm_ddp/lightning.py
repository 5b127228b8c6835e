"""lightning.py - a callback that gives Lightning's Trainer slurm_ddp's samples, checkpoints and stops."""
import signal

from lightning.pytorch import callbacks

from ._lib import Error
from .checkpoint import Checkpoint


def _add(progress, n):
    for name in ("ready", "started", "processed", "completed"):
        setattr(progress, name, getattr(progress, name) + n)


class Saver(callbacks.Callback):
    """folder: where the training's state goes and comes from by itself; sampler: the slurm_ddp.Sampler of the
    DataLoader (batch_sampler=sampler). The Trainer wants max_steps in place of epochs, use_distributed_sampler=False
    and enable_checkpointing=False."""

    def __init__(self, folder, sampler):
        self.folder, self.sampler = folder, sampler
        self._before = 0  # batches of this epoch before the resume

    def on_train_start(self, trainer, module):
        if trainer.max_steps <= 0 or trainer.accumulate_grad_batches != self.sampler.accumulate:
            raise Error(f"lightning.Saver: the Trainer needs max_steps, since a resume counts steps, not epochs, and "
                        f"accumulate_grad_batches={self.sampler.accumulate}, as the Sampler")
        if not module.automatic_optimization:
            raise Error("lightning.Saver: automatic_optimization=False is not supported: a resume could not tell how "
                        "many batches a step takes; leave the optimizer to the Trainer")
        # Lightning's own handlers would save and requeue by other means, or wait for ranks that got no signal. At the
        # end it puts back what was there before; but srun ends all ranks with SIGTERM as soon as one has left.
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        trainer._signal_connector._original_handlers.clear()
        schedulers = {f"scheduler{i}": c.scheduler for i, c in enumerate(trainer.lr_scheduler_configs)}
        optimizers = {f"optimizer{i}": o for i, o in enumerate(trainer.optimizers)}
        scaler = getattr(trainer.precision_plugin, "scaler", None)  # of 16-bit floats
        scalers = {"scaler": scaler} if scaler is not None else {}
        n_batches = len(self.sampler)  # of a whole epoch
        self.checkpoint = Checkpoint(self.folder, model=module, sampler=self.sampler, **optimizers, **schedulers,
                                     **scalers)
        loop = trainer.fit_loop.epoch_loop
        loop.automatic_optimization.optim_progress.optimizer.step.total.completed = self.checkpoint.steps
        loop._batches_that_stepped = self.checkpoint.steps
        if self.checkpoint.resumed:
            self._go_on(trainer, n_batches)

    def _go_on(self, trainer, n_batches):
        """Validation and schedules go by Lightning's counts of epochs and batches, which would begin at 0 again. With
        limit_train_batches its epochs are not the Sampler's."""
        fit = trainer.fit_loop
        if trainer.num_training_batches == n_batches:
            _add(fit.epoch_progress.current, self.sampler.epoch)
            self._before = n_batches - len(self.sampler)
        _add(fit.epoch_loop.batch_progress.total, self.checkpoint.steps * self.sampler.accumulate)
        if not trainer.current_epoch:  # of a later epoch Lightning does it
            iter(fit._data_fetcher)  # what it has read ahead already was the first batch of all

    def on_train_batch_start(self, trainer, *_):
        _add(trainer.fit_loop.epoch_loop.batch_progress.current, self._before)  # here: it is 0 when an epoch begins
        self._before = 0

    def on_train_batch_end(self, trainer, *_):
        """What comes at an epoch's end, validation and schedulers that go by it, is in its last step's checkpoint."""
        if not trainer.is_last_batch or trainer.reload_dataloaders_every_n_epochs:
            self._step(trainer)

    def on_train_epoch_start(self, trainer, *_):
        self._step(trainer)

    def on_train_end(self, trainer, *_):
        self._step(trainer)
        self.checkpoint.save()

    def _step(self, trainer):
        if trainer.global_step > self.checkpoint.steps:
            self.checkpoint.step()

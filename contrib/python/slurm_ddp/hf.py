"""hf.py - Hugging Face's Trainer with slurm_ddp's samples, checkpoints and stops."""
import transformers
from torch.utils.data import DataLoader, IterableDataset

from . import rng
from ._lib import Error
from .checkpoint import Checkpoint
from .sampler import Sampler


class _Saves(transformers.TrainerCallback):
    def __init__(self, folder, trainer):
        self.folder, self.trainer = folder, trainer

    def on_train_begin(self, args, state, control, model=None, optimizer=None, lr_scheduler=None, **_):
        if state.global_step:
            raise Error("hf.Trainer: train(resume_from_checkpoint=...) is not needed: it goes on from its folder by "
                        "itself; leave that away")
        scaler = getattr(getattr(self.trainer, "accelerator", None), "scaler", None)  # of 16-bit floats
        scalers = {"scaler": scaler} if scaler is not None else {}
        self.checkpoint = Checkpoint(self.folder, model=model, optimizer=optimizer, scheduler=lr_scheduler,
                                     sampler=self.trainer.sampler, **scalers)
        state.global_step = self.checkpoint.steps
        state.epoch = self.trainer.sampler.position / self.trainer.sampler.n  # its loop counts from 0
        # losses are summed up from here on
        self.trainer._globalstep_last_logged = self.trainer._initial_global_step = state.global_step

    def on_step_end(self, args, state, *_, **__):
        state.epoch = self.trainer.sampler.after_step / self.trainer.sampler.n
        self.is_over = not self.trainer.sampler.is_at_last_step

    def on_epoch_end(self, *_, **__):
        self.is_over = True

    def step(self, state):
        """Once all that belongs to a step is done, and with an epoch's last one what comes at the epoch's end."""
        if self.is_over and state.global_step > self.checkpoint.steps:
            self.checkpoint.step()

    def on_train_end(self, *_, **__):
        self.checkpoint.save()


def _check(dataset, args):
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise Error(f"hf.Trainer: train_dataset is a {type(dataset).__name__}, without numbers of samples, by which a "
                    "resume goes: give one with __getitem__ and __len__")
    order = getattr(args, "train_sampling_strategy", "random")
    if order != "random":
        raise Error(f"hf.Trainer: the order {order} is not supported: samples come in the Sampler's; leave away "
                    "train_sampling_strategy (group_by_length)")
    if args.load_best_model_at_end:
        raise Error("hf.Trainer: load_best_model_at_end=True is not supported: a resume does not know which was best; "
                    "save the best in a callback's on_evaluate")


class Trainer(transformers.Trainer):
    """transformers.Trainer with one more argument, folder, where its state goes and comes from by itself; it wants
    max_steps in place of epochs, and save_strategy="no"."""

    def __init__(self, *args, folder, **kwargs):
        if not hasattr(transformers.Trainer, "_maybe_log_save_evaluate"):  # in which steps are saved
            raise Error("hf.Trainer: this transformers is not known: its Trainer has no _maybe_log_save_evaluate, as "
                        f"5.24's has: transformers {transformers.__version__}")
        super().__init__(*args, **kwargs)
        a = self.args
        if a.max_steps <= 0:
            raise Error("hf.Trainer: TrainingArguments(max_steps=...) is needed: a resume counts steps, not epochs")
        _check(self.train_dataset, a)
        self.sampler = Sampler(self.train_dataset, a.per_device_train_batch_size, a.gradient_accumulation_steps,
                               a.seed if a.data_seed is None else a.data_seed)
        self.saves = _Saves(folder, self)
        self.add_callback(self.saves)

    def set_initial_training_values(self, *args, **kwargs):
        """The loop ends by max_steps, not by its number of epochs, of which a resume on fewer ranks has longer ones and
        may begin with a part of one."""
        n_epochs, *rest = super().set_initial_training_values(*args, **kwargs)
        return n_epochs + 1, *rest

    def _run_epoch(self, *args, **kwargs):
        """None, where it was started again after its end: the loop asks only after a step."""
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        else:
            super()._run_epoch(*args, **kwargs)

    def evaluate(self, *args, **kwargs):
        """It leaves random numbers as they were: where workers persist, only a life's first one draws their seed."""
        before = rng.capture()
        try:
            return super().evaluate(*args, **kwargs)
        finally:
            rng.restore(before)

    def _maybe_log_save_evaluate(self, *args, **kwargs):
        """Evaluation steps a ReduceLROnPlateau: the step's checkpoint comes after it."""
        super()._maybe_log_save_evaluate(*args, **kwargs)
        self.saves.step(self.state)

    def get_train_dataloader(self):
        """As transformers makes it, without the columns that the model does not take, but for the samples' order."""
        theirs = super().get_train_dataloader()
        same = ["collate_fn", "num_workers", "pin_memory", "timeout", "worker_init_fn"]
        same += ["prefetch_factor", "persistent_workers"] if theirs.num_workers else []
        return DataLoader(theirs.dataset, batch_sampler=self.sampler, **{name: getattr(theirs, name) for name in same})

"""hf.py - Hugging Face's Trainer with slurm_ddp's samples, checkpoints and stops."""
import transformers
from torch.utils.data import DataLoader

from ._lib import Error
from .checkpoint import Checkpoint
from .sampler import Sampler


class _Saves(transformers.TrainerCallback):
    def __init__(self, folder, trainer):
        self.folder, self.trainer = folder, trainer

    def on_train_begin(self, args, state, control, model=None, optimizer=None, lr_scheduler=None, **_):
        scaler = getattr(getattr(self.trainer, "accelerator", None), "scaler", None)  # of 16-bit floats
        scalers = {"scaler": scaler} if scaler is not None else {}
        self.checkpoint = Checkpoint(self.folder, model=model, optimizer=optimizer, scheduler=lr_scheduler,
                                     sampler=self.trainer.sampler, **scalers)
        state.global_step = self.checkpoint.steps
        self.trainer._globalstep_last_logged = state.global_step  # losses are summed up from here on

    def on_step_end(self, *_, **__):
        self.checkpoint.step()

    def on_train_end(self, *_, **__):
        self.checkpoint.save()


class Trainer(transformers.Trainer):
    """transformers.Trainer with one more argument, folder, where its state goes and comes from by itself; it wants
    max_steps in place of epochs, and save_strategy="no"."""

    def __init__(self, *args, folder, **kwargs):
        super().__init__(*args, **kwargs)
        a = self.args
        if a.max_steps <= 0:
            raise Error("hf.Trainer: TrainingArguments(max_steps=...) is needed: a resume counts steps, not epochs")
        self.sampler = Sampler(self.train_dataset, a.per_device_train_batch_size, a.gradient_accumulation_steps,
                               a.seed if a.data_seed is None else a.data_seed)
        self.add_callback(_Saves(folder, self))

    def get_train_dataloader(self):
        """As transformers makes it, without the columns that the model does not take, but for the samples' order."""
        theirs = super().get_train_dataloader()
        same = ["collate_fn", "num_workers", "pin_memory", "timeout", "worker_init_fn"]
        same += ["prefetch_factor", "persistent_workers"] if theirs.num_workers else []
        return DataLoader(theirs.dataset, batch_sampler=self.sampler, **{name: getattr(theirs, name) for name in same})

"""hf.py - Hugging Face's Trainer with slurm_ddp's samples, checkpoints and stops."""
import transformers
from torch.utils.data import DataLoader

from ._lib import Error
from .checkpoint import Checkpoint
from .sampler import Sampler


class _Saves(transformers.TrainerCallback):
    def __init__(self, folder, sampler):
        self.folder, self.sampler = folder, sampler

    def on_train_begin(self, args, state, control, model=None, optimizer=None, lr_scheduler=None, **_):
        self.checkpoint = Checkpoint(self.folder, model=model, optimizer=optimizer, scheduler=lr_scheduler,
                                     sampler=self.sampler)
        state.global_step = self.checkpoint.steps

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
                               a.data_seed or a.seed)
        self.add_callback(_Saves(folder, self.sampler))

    def get_train_dataloader(self):
        return DataLoader(self.train_dataset, batch_sampler=self.sampler, collate_fn=self.data_collator,
                          num_workers=self.args.dataloader_num_workers,
                          pin_memory=self.args.dataloader_pin_memory)

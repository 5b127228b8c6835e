#!/usr/bin/env python3
"""frameworkstop.py FRAMEWORK FOLDER [STEP] - trains a small model by Hugging Face's Trainer (hf) or Lightning
(lightning), with what comes at the end of a step and of an epoch: evaluation, and a learning rate that goes by it; or
with what comes after steps within Lightning's epochs, which are half of the Sampler's (pieces).
12 steps, on two ranks 4 an epoch; with STEP it is asked to stop while it makes that one. Rank 0 prints "steps N hash
HASH".
PROBE_REFUSED: what hf.Trainer (order, best, stream) or lightning.Saver (limit, accumulate, own) cannot go on with."""
import hashlib
import os
import re
import signal
import sys

import torch

import slurm_ddp

STEPS = 12
stop_at = int(sys.argv[3]) if len(sys.argv) > 3 else 0
refused = os.environ.get("PROBE_REFUSED")
rank = slurm_ddp.world().rank
batch_size = slurm_ddp.world().size  # on one rank an epoch has 16 steps
step, checkpoints = slurm_ddp.Checkpoint.step, []


def step_and_stop(self):
    if self.steps + 1 == stop_at and rank == 0:
        os.kill(os.getpid(), signal.SIGTERM if stop_at == 4 else signal.SIGUSR1)
    checkpoints.append(self)
    step(self)


class Numbers(torch.utils.data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        tokens = torch.randint(0, 20, (8,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": tokens, "labels": tokens}


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(Numbers(8))


def hf(folder):
    import transformers

    import slurm_ddp.hf

    transformers.set_seed(3)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=20, n_positions=8, n_embd=16, n_layer=1, n_head=2, bos_token_id=None, eos_token_id=None))
    arguments = transformers.TrainingArguments(
        folder + ".out", max_steps=STEPS, per_device_train_batch_size=batch_size, gradient_accumulation_steps=2,
        use_cpu=True, report_to=[], logging_steps=1, disable_tqdm=True,
        save_strategy="epoch" if refused == "best" else "no", ddp_find_unused_parameters=True, learning_rate=1e-2,
        dataloader_num_workers=1, dataloader_persistent_workers=True,
        eval_strategy="epoch", eval_delay=1, lr_scheduler_type="reduce_lr_on_plateau",
        lr_scheduler_kwargs={"patience": 1, "threshold": 10.0, "factor": 0.5},
        train_sampling_strategy="group_by_length" if refused == "order" else "random",
        load_best_model_at_end=refused == "best")
    data = Stream() if refused == "stream" else Numbers(32)
    trainer = slurm_ddp.hf.Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=Numbers(4),
                                   folder=folder)
    mean = trainer.train().training_loss
    losses = [logged["loss"] for logged in trainer.state.log_history if "loss" in logged]
    assert abs(sum(losses) - mean * len(losses)) < 0.01, f"the mean of {losses} is {mean}"
    assert trainer.state.epoch == trainer.sampler.position / trainer.sampler.n, f"epoch {trainer.state.epoch}"
    return model


def lightning(folder, is_in_pieces=False):
    import lightning as pl

    import slurm_ddp.lightning

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))

        def training_step(self, batch, i):
            loss = (self.inner(batch) - batch.sum(1, keepdim=True)).square().mean() * (1 + i + self.current_epoch)
            self.log("step_loss", loss, sync_dist=True)
            return loss

        def validation_step(self, batch, _):
            self.log("loss", self.inner(batch).square().mean(), sync_dist=True)

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
            schedules = [torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=n, threshold=10.0, factor=0.5)
                         for n in (1, 2)]
            by = {"monitor": "step_loss", "interval": "step"} if is_in_pieces else {"monitor": "loss"}
            return [optimizer], [{"scheduler": schedule, **by} for schedule in schedules]

    pl.seed_everything(3 + rank, verbose=False)
    data = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
    accumulate = 1 if refused == "accumulate" else 2
    sampler = slurm_ddp.Sampler(data, batch_size=batch_size, accumulate=accumulate, seed=5)
    model = Model()
    pieces = {"limit_train_batches": 3 if refused == "limit" else 4, "val_check_interval": 2} if is_in_pieces else {}
    more = [pl.pytorch.callbacks.GradientAccumulationScheduler({0: 1, 1: 2})] if refused == "accumulate" else []
    trainer = pl.Trainer(
        accelerator="cpu", strategy="ddp_find_unused_parameters_true", devices=slurm_ddp.world().local_size,
        num_nodes=slurm_ddp.world().n_nodes, max_steps=STEPS,
        accumulate_grad_batches=accumulate, use_distributed_sampler=False, enable_checkpointing=False, logger=False,
        enable_progress_bar=False, enable_model_summary=False,
        callbacks=[slurm_ddp.lightning.Saver(folder, sampler), *more], **pieces)
    tested, own = torch.utils.data.DataLoader(data[:4]), None
    if refused == "own":
        alone = pl.Trainer(accelerator="cpu", devices=1, max_steps=3, logger=False, barebones=True)
        alone.fit(Model(), torch.utils.data.DataLoader(data), tested)
        own = f"{folder}.{rank}.ckpt"
        alone.save_checkpoint(own)
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_sampler=sampler), tested, ckpt_path=own)
    epochs = trainer.fit_loop.epoch_loop
    counts = epochs.batch_progress.total.ready, epochs._batches_that_stepped  # schedules and logs go by them
    assert counts == (STEPS * accumulate, STEPS), f"batches and steps: {counts}"
    return model


def pieces(folder):
    return lightning(folder, True)


slurm_ddp.Checkpoint.step = step_and_stop
trained = {"hf": hf, "lightning": lightning, "pieces": pieces}[sys.argv[1]](sys.argv[2])
with open("/proc/self/status", encoding="ascii") as status:
    caught = int(re.search("SigCgt:(.*)", status.read())[1], 16)
assert caught >> signal.SIGTERM - 1 & 1, "SIGTERM, which srun sends when one rank has left, would end the others"
values = b"".join(p.detach().numpy().tobytes() for p in trained.parameters())
if rank == 0:
    print("steps", len(checkpoints), "hash", hashlib.sha256(values).hexdigest()[:16], flush=True)

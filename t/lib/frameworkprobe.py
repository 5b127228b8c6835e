#!/usr/bin/env python3
"""frameworkprobe.py FRAMEWORK FOLDER - trains a small model by Hugging Face's Trainer (hf), Lightning (lightning) or
Accelerate (accelerate) by slurm_ddp's lines, to step 150; rank 0 prints "went on at step N" and "params hash HASH".
PROBE_SIGNAL=NUMBER:RANK:STEPS:MS: that rank gets that signal MS milliseconds after it has done so many steps."""
import hashlib
import os
import sys
import threading

import torch

import slurm_ddp

STEPS = 150
rank = slurm_ddp.world().rank
step = slurm_ddp.Checkpoint.step
number, victim, steps, ms = (int(x) for x in os.environ.get("PROBE_SIGNAL", "0:-1:0:0").split(":"))
first = []


def step_and_signal(self):
    step(self)
    if not first:
        first.append(self.steps - 1)
        if rank == 0:
            print("went on at step", first[0], flush=True)
    if rank == victim and self.steps == first[0] + steps:
        threading.Timer(ms / 1000, os.kill, (os.getpid(), number)).start()


def hf(folder):
    import transformers

    import slurm_ddp.hf

    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 203

        def __getitem__(self, i):
            tokens = torch.randint(0, 100, (16,), generator=torch.Generator().manual_seed(i))
            return {"input_ids": tokens, "labels": tokens}

    transformers.set_seed(3)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=100, n_positions=16, n_embd=32, n_layer=1, n_head=2, bos_token_id=None, eos_token_id=None))
    arguments = transformers.TrainingArguments(
        folder + ".out", max_steps=STEPS, per_device_train_batch_size=2, gradient_accumulation_steps=2, use_cpu=True,
        report_to=[], save_strategy="no", disable_tqdm=True, ddp_find_unused_parameters=True)
    slurm_ddp.hf.Trainer(model=model, args=arguments, train_dataset=Numbers(), folder=folder).train()
    return model


def lightning(folder):
    import lightning as pl

    import slurm_ddp.lightning

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))

        def training_step(self, batch, _):
            return (self.inner(batch) - batch.sum(1, keepdim=True)).square().mean()

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    pl.seed_everything(3 + rank, verbose=False)
    data = torch.randn(203, 8, generator=torch.Generator().manual_seed(1))
    sampler = slurm_ddp.Sampler(data, batch_size=2, accumulate=2, seed=5)
    model = Model()
    trainer = pl.Trainer(
        accelerator="cpu", strategy="ddp_find_unused_parameters_true", devices=slurm_ddp.world().local_size,
        num_nodes=slurm_ddp.world().n_nodes, max_steps=STEPS, accumulate_grad_batches=2,
        use_distributed_sampler=False, enable_checkpointing=False, logger=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[slurm_ddp.lightning.Saver(folder, sampler)])
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_sampler=sampler))
    return model


def accelerate(folder):
    from accelerate import Accelerator, DistributedDataParallelKwargs

    accelerator = Accelerator(cpu=True, kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)])
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    torch.manual_seed(3 + rank)
    data = torch.randn(203, 8, generator=torch.Generator().manual_seed(1))
    sampler = slurm_ddp.Sampler(data, batch_size=2, accumulate=1, seed=5)
    loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
    checkpoint = slurm_ddp.Checkpoint(folder, model=model, optimizer=optimizer, scheduler=scheduler, sampler=sampler)
    while checkpoint.steps < STEPS:
        for batch in loader:
            accelerator.backward((model(batch) - batch.sum(1, keepdim=True)).square().mean())
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            checkpoint.step()
            if checkpoint.steps == STEPS:
                break
    checkpoint.save()
    return model


slurm_ddp.Checkpoint.step = step_and_signal
trained = {"hf": hf, "lightning": lightning, "accelerate": accelerate}[sys.argv[1]](sys.argv[2])
values = b"".join(p.detach().numpy().tobytes() for p in trained.parameters())
if rank == 0:
    print("params hash", hashlib.sha256(values).hexdigest()[:16], flush=True)

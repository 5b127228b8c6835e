#!/usr/bin/env python3
"""lightningprobe.py FOLDER - trains a small model by Lightning with slurm_ddp.lightning.Saver, for 40 steps; prints
"step N params hash HASH". PROBE_KILL as of gptprobe.py, PROBE_STOP likewise with SIGUSR1."""
import hashlib
import os
import signal
import sys

import lightning
import torch

import slurm_ddp
import slurm_ddp.lightning


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))

    def training_step(self, batch, _):
        return (self.inner(batch) - batch.sum(1, keepdim=True)).square().mean()

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


step = slurm_ddp.Checkpoint.step


def step_or_signal(self):
    for name, number in (("PROBE_KILL", signal.SIGKILL), ("PROBE_STOP", signal.SIGUSR1)):
        rank, at = (int(x) for x in os.environ.get(name, "-1:0").split(":"))
        if self.steps == at and slurm_ddp.world().rank == rank:
            os.kill(os.getpid(), number)
    step(self)


slurm_ddp.Checkpoint.step = step_or_signal
lightning.seed_everything(3 + slurm_ddp.world().rank, verbose=False)
data = torch.randn(203, 8, generator=torch.Generator().manual_seed(1))
sampler = slurm_ddp.Sampler(data, batch_size=2, accumulate=2, seed=5)
model = Model()
trainer = lightning.Trainer(
    accelerator="cpu", strategy="ddp_find_unused_parameters_true", devices=slurm_ddp.world().local_size,
    num_nodes=slurm_ddp.world().n_nodes, max_steps=40, accumulate_grad_batches=2, use_distributed_sampler=False,
    enable_checkpointing=False, logger=False, enable_progress_bar=False, enable_model_summary=False,
    callbacks=[slurm_ddp.lightning.Saver(sys.argv[1], sampler)])
trainer.fit(model, torch.utils.data.DataLoader(data, batch_sampler=sampler))
values = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
if trainer.is_global_zero:
    print(f"step {trainer.global_step} params hash {hashlib.sha256(values).hexdigest()[:16]}", flush=True)

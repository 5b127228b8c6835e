#!/usr/bin/env python3
"""hfprobe.py FOLDER - trains a small GPT-2 by slurm_ddp.hf.Trainer, for 40 steps; prints "params hash HASH". PROBE_KILL
as of gptprobe.py, PROBE_STOP likewise with SIGUSR1."""
import hashlib
import os
import signal
import sys

import torch
import transformers

import slurm_ddp
import slurm_ddp.hf


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 203

    def __getitem__(self, i):
        tokens = torch.randint(0, 100, (16,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": tokens, "labels": tokens}


step = slurm_ddp.Checkpoint.step


def step_or_signal(self):
    for name, number in (("PROBE_KILL", signal.SIGKILL), ("PROBE_STOP", signal.SIGUSR1)):
        rank, at = (int(x) for x in os.environ.get(name, "-1:0").split(":"))
        if self.steps == at and slurm_ddp.world().rank == rank:
            os.kill(os.getpid(), number)
    step(self)


slurm_ddp.Checkpoint.step = step_or_signal
transformers.set_seed(3)
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
    vocab_size=100, n_positions=16, n_embd=32, n_layer=1, n_head=2, bos_token_id=None, eos_token_id=None))
arguments = transformers.TrainingArguments(
    sys.argv[1] + ".out", max_steps=40, per_device_train_batch_size=2, gradient_accumulation_steps=2, use_cpu=True,
    report_to=[], save_strategy="no", disable_tqdm=True, ddp_find_unused_parameters=True)
trainer = slurm_ddp.hf.Trainer(model=model, args=arguments, train_dataset=Numbers(), folder=sys.argv[1])
trainer.train()
values = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
if slurm_ddp.world().rank == 0:
    print(f"step {trainer.state.global_step} params hash {hashlib.sha256(values).hexdigest()[:16]}", flush=True)

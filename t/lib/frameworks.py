#!/usr/bin/env python3
"""frameworks.py NAME - one step of gradient descent by that framework, on all ranks: rank r's gradient pulls a weight
of 0 to r, so that the mean gradient puts it at (ranks - 1) / 2. Each rank prints "rank R of N weight W".
With PROBE_BACKEND=ddp by slurm_ddp's backend (accelerate, hf, lightning).
frameworks.py version NAME - prints what is installed; exit code 1: nothing, or one that is too old."""
import importlib
import importlib.metadata
import os
import sys

NEEDS = {"ddp": "torch", "torchrun": "torch", "fsdp2": "torch", "spawn": "torch", "accelerate": "accelerate",
         "hf": "transformers", "lightning": "lightning", "deepspeed": "deepspeed", "jax": "jax"}
LEAST = {"torchrun": (2, 0), "fsdp2": (2, 6)}  # before 2.0 an option has another name, and Python 3.11 is too new


def take_backend():
    """As doc/user.md says; whether it is slurm_ddp's."""
    if os.environ.get("PROBE_BACKEND") != "ddp":
        return False
    import slurm_ddp.torch  # noqa: F401
    return True


def init_backend():
    """Where a framework takes the group that is there."""
    if take_backend():
        import torch.distributed as dist
        dist.init_process_group("ddp")


def check_backend():
    if take_backend():
        import torch.distributed as dist
        assert dist.get_backend() == "ddp", dist.get_backend()


def say(rank, size, weight):
    sys.stdout.write(f"rank {rank} of {size} weight {weight.item():.4g}\n")
    sys.stdout.flush()


def parts():
    """A model of one weight, and its optimizer."""
    import torch
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    return model, torch.optim.SGD(model.parameters(), lr=0.5)


def loss_of(model, rank):
    import torch
    return ((model(torch.ones(1, 1)) - rank) ** 2).sum()


def ddp():
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    dist.init_process_group("gloo")
    model, optimizer = parts()
    wrapped = DistributedDataParallel(model)  # it reduces for as long as it lives
    loss_of(wrapped, dist.get_rank()).backward()
    optimizer.step()
    say(dist.get_rank(), dist.get_world_size(), model.weight)
    dist.destroy_process_group()


torchrun = ddp


def spawned(local, n):
    os.environ.update(RANK=str(int(os.environ["NODE_RANK"]) * n + local), LOCAL_RANK=str(local),
                      WORLD_SIZE=str(int(os.environ["WORLD_SIZE"]) * n))
    ddp()


def spawn():
    """One task a node, which starts two ranks itself."""
    import torch.multiprocessing
    torch.multiprocessing.spawn(spawned, (2,), nprocs=2)


def fsdp2():
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    dist.init_process_group("gloo")
    model = torch.nn.Linear(1, dist.get_world_size(), bias=False)
    torch.nn.init.zeros_(model.weight)
    fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss_of(model, dist.get_rank()).backward()
    optimizer.step()
    values = model.weight.full_tensor()
    assert values.numel() == dist.get_world_size() and (values == values[0]).all()
    say(dist.get_rank(), dist.get_world_size(), values[0])
    dist.destroy_process_group()


def accelerate():
    import accelerate as a
    init_backend()
    accelerator = a.Accelerator(cpu=True)
    model, optimizer = accelerator.prepare(*parts())
    accelerator.backward(loss_of(model, accelerator.process_index))
    optimizer.step()
    check_backend()
    say(accelerator.process_index, accelerator.num_processes, accelerator.unwrap_model(model).weight)
    accelerator.end_training()


def samples():
    """As many as there are ranks: each rank gets one, in whatever order."""
    return list(range(int(os.environ["WORLD_SIZE"])))


def hf():
    import torch
    import transformers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = parts()[0]

        def forward(self, labels):
            loss = loss_of(self.inner, labels[0])
            return {"loss": loss, "logits": loss.detach()}

    model = Model()
    init_backend()
    arguments = transformers.TrainingArguments(
        os.environ["HOME"], max_steps=1, per_device_train_batch_size=1, learning_rate=0.5, optim="sgd",
        lr_scheduler_type="constant", max_grad_norm=0, use_cpu=True, report_to=[], save_strategy="no",
        disable_tqdm=True)
    trainer = transformers.Trainer(model, arguments, train_dataset=[{"labels": float(i)} for i in samples()])
    trainer.train()
    check_backend()
    say(arguments.process_index, arguments.world_size, model.inner.weight)


def lightning():
    import lightning as pl

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = parts()[0]

        def training_step(self, batch, _):
            check_backend()
            return loss_of(self.inner, batch[0])

        def configure_optimizers(self):
            import torch
            return torch.optim.SGD(self.parameters(), lr=0.5)

    import torch
    from lightning.pytorch.strategies import DDPStrategy
    strategy = DDPStrategy(process_group_backend="ddp") if take_backend() else "ddp"
    model = Model()
    data = torch.utils.data.DataLoader(samples(), batch_size=1)
    trainer = pl.Trainer(accelerator="cpu", num_nodes=int(os.environ["SLURM_NNODES"]), strategy=strategy,
                         devices=int(os.environ["LOCAL_WORLD_SIZE"]), max_steps=1, logger=False, barebones=True)
    trainer.fit(model, data)
    say(trainer.global_rank, trainer.world_size, model.inner.weight)


def deepspeed():
    import deepspeed as ds
    import torch.distributed as dist
    ds.init_distributed("gloo")
    model, optimizer = parts()
    settings = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1},
                "zero_allow_untested_optimizer": True, "gradient_clipping": 0}
    engine = ds.initialize(model=model, optimizer=optimizer, config=settings)[0]
    engine.backward(loss_of(engine, dist.get_rank()))
    engine.step()
    say(dist.get_rank(), dist.get_world_size(), model.weight)
    dist.destroy_process_group()


def jax():
    import jax as j
    from jax.experimental import multihost_utils
    j.distributed.initialize()
    rank = float(j.process_index())
    gradient = j.grad(lambda w: (w - rank) ** 2)(0.0)
    mean = multihost_utils.process_allgather(gradient).mean()
    say(j.process_index(), j.process_count(), 0 - 0.5 * mean)


def version(name):
    """Of the framework, once that can be imported, and of the PyTorch below it."""
    importlib.import_module(NEEDS[name])
    found, least = importlib.metadata.version(NEEDS[name]), LEAST.get(name, (0, 0))
    if tuple(int(x) for x in found.split(".")[:2]) < least:
        sys.exit(f"{NEEDS[name]} {found}: {name} needs {least[0]}.{least[1]}")
    print(", ".join(f"{n} {importlib.metadata.version(n)}" for n in dict.fromkeys((NEEDS[name], "torch"))
                    if n != "torch" or name != "jax"))


if __name__ == "__main__":
    if sys.argv[1] == "version":
        version(sys.argv[2])
    else:
        globals()[sys.argv[1]]()

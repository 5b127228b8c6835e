#!/usr/bin/env python3
"""curves.py - a run's record, ddp-record(5), as curves in TensorBoard or in Weights & Biases.

    python curves.py run.jsonl --tensorboard logs/run     # pip install torch tensorboard; tensorboard --logdir logs
    python curves.py run.jsonl --wandb PROJECT            # pip install wandb; WANDB_MODE=offline sends nothing yet
"""
import argparse
import json


def read(path):
    """(step, time, {curve: value}) of each line that has a step; without steps that were lost and done again."""
    points = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                e = json.loads(line)
            except json.JSONDecodeError:  # it was not written to its end
                continue
            if not isinstance(e.get("step"), int):  # null is a guard's, who does not know it
                continue
            if e["event"] in ("resume", "train"):
                points = [p for p in points if p[0] <= e["step"]]
            else:
                flat = {**e, **{f"parts/{name}": s for name, s in e.get("parts", {}).items()}}
                values = {f"{e['event']}/{name}": x for name, x in flat.items()
                          if isinstance(x, (int, float)) and name not in ("step", "t")}
                points.append((e["step"], e["t"], values))
    return sorted(points, key=lambda p: p[0])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("record", help="what --ddp-record=FILE has written")
    to = p.add_mutually_exclusive_group(required=True)
    to.add_argument("--tensorboard", metavar="FOLDER")
    to.add_argument("--wandb", metavar="PROJECT")
    o = p.parse_args()
    if o.tensorboard:
        from torch.utils.tensorboard import SummaryWriter
        with SummaryWriter(o.tensorboard) as writer:
            for step, t, values in read(o.record):
                for curve, value in values.items():
                    writer.add_scalar(curve, value, step, t)
    else:
        import wandb
        with wandb.init(project=o.wandb) as run:
            for step, t, values in read(o.record):
                run.log({**values, "t": t}, step=step)


if __name__ == "__main__":
    main()

#!/bin/bash
# contrib/examples/curves.py: what TensorBoard and W&B are told of a run that was killed and went on. Both are doubles
# here, which print the calls.
. "$(dirname "$0")/lib/tap.sh"
curves=(env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$tmp" /usr/bin/python3 "$top_srcdir/contrib/examples/curves.py")
mkdir -p "$tmp/torch/utils"
touch "$tmp/torch/__init__.py" "$tmp/torch/utils/__init__.py"
cat >"$tmp/torch/utils/tensorboard.py" <<'PYTHON'
class SummaryWriter:
    def __init__(self, log_dir):
        print("open", log_dir)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        print("closed")

    def add_scalar(self, tag, scalar_value, global_step, walltime):
        print(tag, scalar_value, global_step, walltime)
PYTHON
cat >"$tmp/wandb.py" <<'PYTHON'
import json


class Run:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        print("finished")

    def log(self, data, step):
        print(step, json.dumps(data))


def init(project):
    print("project", project)
    return Run()
PYTHON
cat >"$tmp/run.jsonl" <<'LINES'
{"event": "start", "t": 1, "v": 1}
{"event": "train", "t": 2, "step": 0, "steps": 200}
{"event": "interval", "t": 3.5, "step": 50, "loss": 2.5, "efficiency": null, "parts": {"data": 0.25}, "compute_s": [1]}
{"event": "validation", "t": 4, "step": 50, "loss": 2}
{"event": "interval", "t": 5, "step": 100, "loss": 9}
{"event": "inter
{"event": "interval", "t": 5.5, "step": 105, "parts": {"data": 0.25}
{"event": "stop", "t": 5.5, "by": "guard", "step": null, "signal": "USR1", "restart": 0}
{"event": "resume", "t": 6, "step": 60, "from": "ckpt/step-60"}
{"event": "interval", "t": 7, "step": 110, "loss": 1.5}
{"event": "epoch", "t": 8, "step": 110, "number": 3, "name": "third"}
LINES
printf '{"event": "interval", "t": 9, "step": 160, "lo' >>"$tmp/run.jsonl"
run "${curves[@]}" "$tmp/run.jsonl" --tensorboard logs
is "TensorBoard: each number with its step and time, none of lost steps" "$rc:$err:$out" "0::open logs
interval/loss 2.5 50 3.5
interval/parts/data 0.25 50 3.5
validation/loss 2 50 4
interval/loss 1.5 110 7
epoch/number 3 110 8
closed"
run "${curves[@]}" "$tmp/run.jsonl" --wandb llm
is "W&B: steps that never fall" "$rc:$err:$out" '0::project llm
50 {"interval/loss": 2.5, "interval/parts/data": 0.25, "t": 3.5}
50 {"validation/loss": 2, "t": 4}
110 {"interval/loss": 1.5, "t": 7}
110 {"epoch/number": 3, "t": 8}
finished'
for file in "$top_srcdir"/t/data/record/*; do
    run "${curves[@]}" "$file" --wandb llm
    is "${file##*/}: likewise" "$rc:$err:$(sed -n 's/ {.*//p' <<<"$out" | sort -cn 2>&1)" "0::"
done
run "${curves[@]}" "$tmp/run.jsonl"
like "neither" "$rc:$err" '^2:.*one of the arguments --tensorboard --wandb is required'
done_testing

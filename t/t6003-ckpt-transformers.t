#!/bin/bash
# What train saves is a GPT-2 that transformers loads, with the same logits; what transformers saves train begins with.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/python.sh"
need_packages numpy safetensors torch transformers
export tmp HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
ckpt() { run "$python" "$top_srcdir/t/lib/ckpt.py" "$@"; }
sizes="--layers 2 --width 128 --heads 4 --context 32 --batch 4 --val-windows 2"
# shellcheck disable=SC2086
train() { run "$top_builddir/ddp" run -n 2 "$top_builddir/train" --data /usr/share/common-licenses $sizes "$@"; }

train --steps 20 --ckpt "$tmp/ours" --ddp-ckpt-file-mb=1
is "train saves a model" "$rc" 0 || diag "$err"
folder=$tmp/ours/step-00000020
ok "in several files" test -f "$folder/model-00002-of-00002.safetensors"
ckpt logits "$folder" "$top_builddir/t/lib/logits"
like "which transformers loads; the logits are the same" "$rc:$out" "^0:logits within 1e-4 " || diag "$err"
"$top_builddir/ddp" ckpt export "$tmp/ours" "$tmp/one/" >/dev/null
is "a folder is exported" "$(ls -A "$tmp/one" | xargs)" "config.json model.safetensors"
ckpt same "$tmp/one" "$folder"
is "... that holds the same" "$rc:$out" "0:28 parameters are the same"

ckpt make "$tmp/theirs"
train --steps 1 --lr 0 --min-lr 0 --init "$tmp/theirs" --ckpt "$tmp/begun"
is "train begins with a model of theirs" "$rc" 0 || diag "$err"
ckpt same "$tmp/theirs" "$tmp/begun/step-00000001"
is "with its values" "$rc:$out" "0:28 parameters are the same" || diag "$err"
ckpt logits "$tmp/begun/step-00000001" "$top_builddir/t/lib/logits"
like "and its logits" "$rc:$out" "^0:logits within 1e-4 " || diag "$err"

# the comparison sees another model's
cat >"$tmp/bent" <<BENT
#!/bin/sh
shift
exec "$top_builddir/t/lib/logits" "$tmp/begun/step-00000001" "\$@"
BENT
chmod +x "$tmp/bent"
ckpt logits "$folder" "$tmp/bent"
like "another model's logits are others" "$rc:$err" "^1:.*AssertionError: logits differ by"
done_testing

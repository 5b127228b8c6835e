#!/bin/bash
# What is said of GPUs is what was seen: "not yet run on a GPU" until a result of contrib/gpu-check, made with the
# present sources, lies in doc/gpu.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/contrib/lib/gpu-state.sh"
says='emulated, not yet run on a GPU'
state=$(gpu_state "$top_srcdir")
like "the sources have a state" "$state" '^[0-9a-f]{16}$'
if grep -lsF "\"state\": \"$state\"" "$top_srcdir"/doc/gpu/*.json; then
    want=0
else
    want=1
fi
for file in README.md NEWS.md doc/gpu.md doc/user.md doc/man/ddp_device.3; do
    is "$file says so as long as it is true" "$(tr '\n' ' ' <"$top_srcdir/$file" | grep -c "$says")" $want
done
run env -u RANK -u WORLD_SIZE "$top_builddir/t/lib/train-emu" --data /usr/share/common-licenses/GPL-3 --layers 1 \
    --width 64 --heads 1 --context 16 --batch 1 --steps 1 --val-windows 1 --device cuda
is "train, too" "$rc $(grep -c "$says" <<<"$out")" "0 $want" || diag "$err"
done_testing

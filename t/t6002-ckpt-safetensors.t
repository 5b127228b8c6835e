#!/bin/bash
# A checkpoint's files are what the Python package safetensors reads, byte for byte, and its checksums are what
# doc/user.md says.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/python.sh"
need_packages numpy safetensors xxhash
ckpt() { run "$python" "$top_srcdir/t/lib/ckpt.py" "$@"; }

"$top_builddir/t/lib/ckptmake" "$tmp/c" 1
"$top_builddir/t/lib/ckptmake" "$tmp/c" 2 8500
for step in 1 2; do
    folder=$tmp/c/step-0000000$step
    ckpt bytes "$folder"
    is "step $step: all bytes" "$rc:$out:$err" "0:15 tensors:"
    ckpt indexes "$folder"
    is "step $step: both indexes" "$rc:$out:$err" "0:indexes hold:"
    awk '/^```python/ { on = 1; text = ""; next } /^```/ { if (on && text ~ /DIR\/step-/) printf "%s", text; on = 0 }
        on { text = text $0 "\n" }' "$top_srcdir/doc/user.md" >"$tmp/program"
    run bash -c '"$@" <"$0"' "$tmp/program" "$python" "$top_srcdir/t/lib/ckpt.py" sums "$folder"
    is "step $step: the checksums, by the program in doc/user.md" "$rc:$out:$err" "0:checksums hold:"
done
"$top_builddir/ddp" ckpt export "$tmp/c" "$tmp/model.safetensors" >/dev/null
cp "$tmp/c/step-00000001/"{manifest.json,optimizer*} "$tmp"
ckpt bytes "$tmp"
is "an exported model, too" "$rc:$out:$err" "0:15 tensors:"

# what the program sees when a byte is another one
printf X | dd of="$tmp/c/step-00000001/model-00001-of-00001.safetensors" bs=1 seek=20000 conv=notrunc status=none
run bash -c '"$@" <"$0"' "$tmp/program" "$python" "$top_srcdir/t/lib/ckpt.py" sums "$tmp/c/step-00000001"
like "a damaged byte" "$rc:$err" "^1:.*AssertionError: wte.weight"
ckpt bytes "$tmp/c/step-00000001"
like "and here" "$rc:$err" "^1:.*AssertionError: wte.weight"
done_testing

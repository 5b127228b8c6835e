#!/bin/bash
# ddp_load: values alone, from a checkpoint, from a file, from what others wrote in float32, float16 or bfloat16.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/ckptprobe.sh"

params() { grep ^params <<<"$out"; }

ranks 2 "$tmp/c" small=on steps=5 last=on --ddp-ckpt-file-mb=0.3
want=$(params)
for n in 1 2 3; do
    ranks $n none small=on load="$tmp/c/step-00000005" resume=none steps=0
    is "$n: from a checkpoint" "$rc $(params)" "0 $want" || diag "$err"
done
ranks 2 none small=on resume=none steps=0
ok "without, the values are others" [ "$(params)" != "$want" ]
ranks 2 none small=on sgd=on load="$tmp/c/step-00000005" resume=none steps=0
is "the optimizer may be another" "$rc $(params)" "0 $want" || diag "$err"

ranks 2 none small=on load=NULL resume=none steps=0
like "no folder at all: refused" "$rc:$err" '^1:.*ddp_load: no folder or file is named'

cp -r "$tmp/c/step-00000005" "$tmp/bad"
printf x | dd of="$(ls "$tmp"/bad/model-*.safetensors | tail -1)" bs=1 seek=9000 conv=notrunc status=none
ranks 2 none small=on load="$tmp/bad" resume=none steps=0
is "a checkpoint that is damaged: refused" "$rc" 1
like "... and said" "$err" 'bad/model-.*\.safetensors is damaged \(tensor '

echo '{"tool": 1}' >"$tmp/bad/manifest.json"
ranks 2 none small=on load="$tmp/bad" resume=none steps=0
like "a folder with another program's manifest.json: refused, with the cure" "$rc:$err" \
    '^1:.*another program.s, move that'

# Writes t/lib/ckptprobe's small model, the values i % 64 of parameter p plus p: exact in all three types.
write() { # PATH TYPE PREFIX [SHAPE-OF-bias]; only=NAMES: these alone; plus=N: other values
    python3 - "$@" <<'PY'
import json, os, struct, sys
path, dtype, prefix = sys.argv[1:4]
shapes = {"extra-one": [3], "big": [100, 1100], "bias": [7], "block": [4096], "odd": [3, 5, 331]}
if len(sys.argv) > 4:
    shapes["bias"] = json.loads(sys.argv[4])
head, data = {"__metadata__": {"by": "hand"}}, b""
only, plus = os.environ.get("only"), int(os.environ.get("plus", 0))
for p, (name, shape) in enumerate(shapes.items(), plus):
    if only and name not in only.split():
        continue
    n = 1
    for size in shape:
        n *= size
    values = [float(i % 64 + p) for i in range(n)]
    if dtype == "F16":
        raw = struct.pack(f"<{n}e", *values)
    elif dtype == "BF16":
        raw = b"".join(struct.pack("<f", v)[2:] for v in values)
    else:
        raw = struct.pack(f"<{n}f", *values) if dtype == "F32" else struct.pack(f"<{n}q", *map(int, values))
    head[prefix + name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(head).encode()
open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
PY
}
want=
for type in F32 F16 BF16; do
    for prefix in "" old.; do
        mkdir -p "$tmp/$type$prefix"
        write "$tmp/$type$prefix/model.safetensors" $type "$prefix"
        ranks 2 none small=on load="$tmp/$type$prefix" resume=none steps=0
        : "${want:=$(params)}"
        is "$type, names with '$prefix'" "$rc $(params)" "0 $want" || diag "$err"
    done
done
ranks 2 none small=on load="$tmp/F32/model.safetensors" resume=none steps=0
is "a file" "$rc $(params)" "0 $want" || diag "$err"

# Which files of a folder: as transformers does, model.safetensors, else those of the index.
index() { # DIR TENSOR=FILE...
    local map
    map=$(printf '"%s", ' "${@:2}" | sed 's/=/": "/g')
    echo "{\"metadata\": {}, \"weight_map\": {${map%, }}}" >"$1/model.safetensors.index.json"
}
plus=9 write "$tmp/F32/model-ema.safetensors" F32 ""
plus=9 only="big bias" write "$tmp/F32/model-00001-of-00002.safetensors" F32 ""
ranks 2 none small=on load="$tmp/F32" resume=none steps=0
is "others beside model.safetensors are not looked at" "$rc $(params)" "0 $want" || diag "$err"
map=(big=a.safetensors bias=b.safetensors block=b.safetensors odd=a.safetensors)
mkdir "$tmp/two"
only="big odd" write "$tmp/two/a.safetensors" F32 ""
only="bias block" write "$tmp/two/b.safetensors" F32 ""
plus=9 write "$tmp/two/model-ema.safetensors" F32 ""
index "$tmp/two" "${map[@]}"
ranks 2 none small=on load="$tmp/two" resume=none steps=0
is "the files of the index, and no other" "$rc $(params)" "0 $want" || diag "$err"

refused() { # DESC WHY PATH
    ranks 2 none small=on resume=none steps=0 load="$3"
    is "$1: refused" "$rc" 1
    like "$1: ... and said" "$err" "$2"
}
write "$tmp/shape" F32 "" "[8]"
refused "another shape" 'shape: bias is \[8\], not \[7\]: start with the options' "$tmp/shape"
write "$tmp/prefix" F32 "new."
refused "other names" 'prefix has no tensor big: ' "$tmp/prefix"
write "$tmp/type" I64 ""
refused "another type" 'big is of type I64: F32, F16 and BF16' "$tmp/type"
head -c 100000 "$tmp/F32/model.safetensors" >"$tmp/short"
refused "a file that is cut" 'rank 0: .*/short: ' "$tmp/short"
printf 'abc' >"$tmp/abc"
refused "no safetensors file" '/abc is no safetensors file: it has 3 bytes' "$tmp/abc"
mkfifo "$tmp/pipe"
run_deadline=20 refused "a pipe that nobody writes to" '/pipe is not a regular file' "$tmp/pipe"
mkdir "$tmp/empty"
refused "an empty folder" '/empty has no model.safetensors and no model.safetensors.index.json: ' "$tmp/empty"
write "$tmp/empty/model-00001-of-00001.safetensors" F32 ""
refused "a folder of which nothing says what counts" '/empty has no model.safetensors and no ' "$tmp/empty"
only="big bias odd" write "$tmp/two/a.safetensors" F32 ""
refused "a tensor in two files" 'tensor bias is in .*/two/[ab].safetensors and in [ab].safetensors: ' "$tmp/two"
only="big" write "$tmp/two/a.safetensors" F32 ""
refused "a tensor that is not where the index says" '/two/a.safetensors has no tensor odd, which ' "$tmp/two"
rm "$tmp/two/b.safetensors"
refused "a file of the index that is missing" '/two/b.safetensors is missing, which model.*json names: fetch' "$tmp/two"
index "$tmp/two" "${map[@]}" extra=../F32/model.safetensors
refused "an index that leads out of the folder" 'the file of tensor extra is not the name of one in' "$tmp/two"
echo '{"weight_map": {}}' >"$tmp/two/model.safetensors.index.json"
refused "an index of nothing" 'index.json has no weight_map' "$tmp/two"
refused "nothing" '/nothing: No such file' "$tmp/nothing"
done_testing

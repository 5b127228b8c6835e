#!/bin/bash
# The trainer on one rank: it learns, repeats bit for bit, and names what is wrong with bad input.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
train=$top_builddir/train
data=/usr/share/common-licenses
unset RANK WORLD_SIZE OMP_NUM_THREADS "${!SLURM@}" "${!DDP_@}"

curve() { grep -o '"step": [0-9]*, "\(val_\)\?loss": [^,}]*' "$1"; }
number() { sed -n "s/.*$1 \([0-9.]*\).*/\1/p" <<<"$out"; }
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a < b) }'; }

# --- it learns ---
run "$train" --data $data --steps 30 --seed 7 --val-every 20 --log-json "$tmp/a.json"
is "30 steps end well" "$rc" 0
like "a live line" "$out" $'step 10/30 loss [0-9.]+ lr [0-9.e+-]+ norm [0-9.]+ tok/s [0-9]+\n'
like "validation on the way" "$out" $'step 20/30 val loss [0-9.]+\n'
like "validation at the end" "$out" 'step 30/30 val loss [0-9.]+'
ok "the first loss is that of guessing, ln 256" below 5.2 "$(number 'step 1\/30 loss')"
ok "the loss falls" below "$(number 'step 30\/30 loss')" 3.6
ok "the validation loss falls" below "$(number 'step 30\/30 val loss')" 3.6
is "one JSON line per step and validation" "$(wc -l <"$tmp/a.json")" 32

# --- it repeats ---
opts=(--data $data --steps 6 --seed 7 --val-windows 8 --print-hash)
run "$train" "${opts[@]}" --log-json "$tmp/a.json"
first=$out
run "$train" "${opts[@]}" --log-json "$tmp/b.json"
is "again: the same losses, bit for bit" "$(curve "$tmp/b.json")" "$(curve "$tmp/a.json")"
is "again: the same parameters" "$(grep hash <<<"$out")" "$(grep hash <<<"$first")"
run env OMP_NUM_THREADS=2 "$train" "${opts[@]}"
is "two threads: the same parameters" "$(grep hash <<<"$out")" "$(grep hash <<<"$first")"
run "$train" "${opts[@]}" --recompute
is "--recompute: the same parameters" "$(grep hash <<<"$out")" "$(grep hash <<<"$first")"

# What --recompute says that it saves is what the process holds less, within a twentieth.
peak() { # COMMAND...: greatest resident size in bytes
    python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)' "$@"
}
deep=(--data $data --steps 2 --log-every 0 --layers 16 --width 128 --heads 4 --context 128 --batch 8 --val-windows 1)
run "$train" "${deep[@]}" --recompute
read -r with without <<<"$(
    sed -n 's/^activations: \([0-9]*\) bytes .* instead of \([0-9]*\) .*MiB.*/\1 \2/p' <<<"$out"
)"
ok "--recompute: a fourth of the memory ($with bytes instead of $without)" [ "$((4 * with))" -lt "$without" ]
saved=$(($(peak "$train" "${deep[@]}") - $(peak "$train" "${deep[@]}" --recompute)))
ok "... and so much less is held ($saved bytes)" \
    awk -v s=$saved -v w=$((without - with)) 'BEGIN { exit !(s > 0.95 * w && s < 1.05 * w) }'
run "$train" "${opts[@]}" --seed 8
unlike "another seed: other parameters" "$(grep hash <<<"$out")" "$(grep hash <<<"$first")"
run "$train" --data $data --steps 1 --batch 4 --accum 2 --model small --layers 1 --context 16 --warmup 0.0001e \
    --scale-lr --optimizer sgd --val-windows 3 --log-every 0
is "presets can be changed by options" "$rc" 0
like "--help tells of options and presets" "$("$train" --help)" '--data FILE.*--steps N .*gpt2-124m +12 +768'

# --- bad input: one line that names the thing, and the exit code ---
le32() { # as escapes for printf
    local n
    for n; do printf '\\x%02x' $((n & 255)) $((n >> 8 & 255)) $((n >> 16 & 255)) $((n >> 24 & 255)); done
}
shard() { # FILE MAGIC TOKENS-IN-HEADER TOKENS-IN-FILE: all tokens are 300
    { printf "$(le32 "$2" 1 "$3")"
      head -c 1012 /dev/zero
      for ((i = 0; i < $4; i++)); do printf '\x2c\x01'; done; } >"$1"
}
refuses() { # DESC CODE ERE ARGUMENT...
    local desc=$1 code=$2 why=$3
    shift 3
    run "$train" "$@"
    is "$desc: exit code" "$rc" "$code"
    is "$desc: one line" "$(wc -l <<<"$err")" 1
    like "$desc: says it" "$err" "$why"
}
magic=20240520
shard "$tmp/good.bin" $magic 300 300
shard "$tmp/cut.bin" $magic 300 200
shard "$tmp/magic.bin" 1234 300 300
: >"$tmp/empty.bin"
head -c 50 /dev/zero >"$tmp/short"
refuses "unknown option" 2 'no option --stepz, did you mean --steps\? ./train --help' --data $data --stepz 3
refuses "unknown option like no other" 2 'no option --colour: ./train --help' --data $data --colour red
refuses "stray word" 2 'stray.*--data' stray
refuses "not a number" 2 '--steps=3x.*0\.\.' --data $data --steps 3x
refuses "out of range" 2 '--batch=0.*1\.\.' --data $data --batch=0
refuses "option without its value" 2 '--steps wants a value' --data $data --steps
refuses "unknown preset" 2 '--model=huge.*tiny\|small' --data $data --model huge
refuses "bad warm-up" 2 '--warmup=3x.*epochs' --data $data --warmup 3x
refuses "warm-up longer than the run" 2 '--warmup is .* more than --steps=9' --data $data --warmup 5e --steps 9
refuses "heads" 2 '--heads=3.*multiple' --data $data --heads 3
refuses "rates the wrong way round" 2 '--min-lr=1 ' --data $data --min-lr 1
refuses "no data" 2 'no data.*--data' --steps 1
refuses "missing file" 1 "$tmp/missing.*No such file" --data $data "$tmp/missing"
refuses "missing validation file" 1 "$tmp/missing.*No such file" --data $data --val "$tmp/missing"
refuses "empty shard" 1 'empty.bin: empty' --data "$tmp/empty.bin"
refuses "truncated shard" 1 'cut.bin: truncated.*300.*200' --data "$tmp/cut.bin"
sed -n '/^import struct$/,/^```$/{/^```$/!p}' "$top_srcdir/doc/user.md" >"$tmp/shard.py"
echo "write_shard('$tmp/guide.bin', [296 + i % 4 for i in range(3000)])" >>"$tmp/shard.py"
python3 "$tmp/shard.py"
run "$train" --data "$tmp/guide.bin" --vocab 300 --steps 1 --context 16
is "the guide's program writes a shard that is read" "$rc" 0 || diag "$err"
refuses "... whose tokens are as they were" 1 'guide.bin: token 299 at byte offset .*--vocab 300' \
    --data "$tmp/guide.bin" --vocab 299 --steps 1 --context 16
refuses "no shard" 1 'magic.bin: not a token shard' --data "$tmp/magic.bin"
refuses "token beyond the vocabulary" 1 'good.bin: token 300 at byte offset 1[0-9]*.*--vocab 301' \
    --data "$tmp/good.bin" --batch 1
refuses "bytes beyond it" 1 ': token [0-9]* at byte .* vocabulary of 100: bytes need --vocab 256$' \
    --data $data --vocab 100
refuses "too little data" 1 '50 tokens.*--context' --data "$tmp/short"
refuses "too little validation data" 1 '--val: 50 tokens' --data $data --val "$tmp/short"
refuses "batch larger than the data" 2 '--batch=100000.*smaller' --data $data --batch 100000
refuses "more memory than there is" 1 '^train: 1 rank on this node wants [0-9]{16} bytes of memory \(opti.* left: ' \
    --data $data --layers 10000 --width 65536 --heads 4 --steps 1
refuses "... for activations" 1 '\(activations: [0-9]{15,} each\)' --data $data --layers 10000 --width 8192 --heads 4 \
    --context 128 --batch 600
refuses "log file that cannot be" 1 "$tmp/none/x.*No such" --data $data --log-json "$tmp/none/x"
refuses "log file on a full disk" 1 "--log-json: /dev/full is not complete" --data $data --steps 2 --log-json /dev/full
refuses "setting of libddp" 2 'command line: --ddp-compress=fp16 .*use --ddp-compress=none\|bf16' --data $data \
    --ddp-compress=fp16
mkdir "$tmp/lib"
echo broken >"$tmp/lib/libopenblas.so.0"
DDP_MATMUL=openblas LD_LIBRARY_PATH=$tmp/lib refuses "missing BLAS" 1 'libopenblas0-pthread' --data $data
run "$train" --data "$tmp/good.bin" --vocab 301 --batch 1 --context 32 --steps 2
is "a shard trains" "$rc" 0
done_testing

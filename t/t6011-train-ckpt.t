#!/bin/bash
# The trainer's checkpoints: what it says, where it goes on, what it leaves, and what it refuses.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/training.sh"
unset RANK WORLD_SIZE "${!SLURM@}" "${!DDP_@}"
export OMP_NUM_THREADS=1
train=$top_builddir/train
fault=$top_builddir/t/lib/.libs/fault.so
text=/usr/share/common-licenses/GPL-3
small=(--data $text --context 32 --layers 2 --width 64 --heads 4 --batch 2 --seed 11 --val-windows 4
    --log-every 0 --print-hash)
ranks() { run "$top_builddir/ddp" run -n "$@"; } # N COMMAND...
hash_of() { grep -o 'params hash .*' <<<"$out"; }
bits() { sed 's/"tokens_per_s": [^,]*, //' "$1"; }
checkpoints() { (cd "$1" && echo step-*); }

# --- a run that is left alone ---
run=(--steps 40 --val-every 1 --log-json "$tmp/a.json" --ckpt "$tmp/a")
ranks 2 "$train" "${small[@]}" --steps 40 --val-every 1 --log-json "$tmp/want.json"
is "without checkpoints: runs" "$rc" 0 || diag "$err"
want=$(hash_of)
ranks 2 "$train" "${small[@]}" "${run[@]}" --ckpt-every 10
is "with checkpoints: runs" "$rc" 0 || diag "$err"
is "... the same parameters" "$(hash_of)" "$want"
is "... the same log" "$(bits "$tmp/a.json")" "$(bits "$tmp/want.json")"
like "... says what a checkpoint took" "$(sed -E 's/[0-9.]+ [um]?s\b/N/g' <<<"$out")" \
    'checkpoint step-00000010 committed: stood still N, copied in N, written in N, [0-9.]+ MiB'
like "... and of the last" "$out" "checkpoint step-00000040 committed"
is "... each once" "$(grep -o '^checkpoint [^ ]*' <<<"$out" | sort | uniq -d)" ""
like "... two are kept, the last of them of the end" "$(checkpoints "$tmp/a")" '^step-000000[1-3][0-9] step-00000040$'
is "... and nothing else lies there" "$(ls -A "$tmp/a" | wc -l)" 2
like "... with a config.json for transformers" "$(cat "$tmp/a/step-00000040/config.json")" \
    '"GPT2LMHeadModel".*"n_embd": 64.*"n_layer": 2.*"vocab_size": 256'

# --- it goes on ---
ranks 2 "$train" "${small[@]}" "${run[@]}"
is "a run that has ended, again: runs" "$rc" 0 || diag "$err"
like "... and has nothing to do" "$out" "resumed from $tmp/a/step-00000040, at step 40"
is "... which it says" "$err" "train: --steps=40 are done: nothing is left to train"
is "... the same parameters" "$(hash_of)" "$want"
is "... the same log" "$(bits "$tmp/a.json")" "$(bits "$tmp/want.json")"
rm -r "$tmp/a/step-00000040"
at=$(checkpoints "$tmp/a" | sed 's/step-0*//') # it depends on the disk how soon the one before was over
ranks 2 "$train" "${small[@]}" "${run[@]}"
like "from the one before: says so" "$rc $out" "^0 .*resumed from $tmp/a/step-000000$at, at step $at"
is "... the same parameters" "$(hash_of)" "$want"
is "... the same log, with that step's validation once" "$(bits "$tmp/a.json")" "$(bits "$tmp/want.json")"
rm -r "$tmp/a/step-00000040"
OMP_NUM_THREADS=2 ranks 2 "$train" "${small[@]}" "${run[@]}"
is "with other threads: nothing to warn of" "$rc $err" "0 "
is "... the same parameters" "$(hash_of)" "$want"
rm -r "$tmp/a/step-00000040"
sed -i 8q "$tmp/a.json"
ranks 2 "$train" "${small[@]}" "${run[@]}" --keep 1
like "a log that is short of the checkpoint is told" "$rc $err" \
    "^0 .*--log-json: $tmp/a.json ends with step 4, the checkpoint is of step $at"
like "... and goes on with the checkpoint's validation" "$(sed -n 9p "$tmp/a.json")" "^\\{\"step\": $at, \"val_loss"
is "--keep 1 keeps one" "$(checkpoints "$tmp/a")" step-00000040
ranks 2 "$train" "${small[@]}" "${run[@]}"
like "a log that lacks steps is told later, too" "$rc $err" \
    "^0 .*--log-json: $tmp/a.json lacks $((at - 5)) steps before step 40"
mkdir "$tmp/log"
ranks 2 env LD_PRELOAD="$fault" FAULT_DIR="$tmp/log" FAULT_RANK=0 FAULT_CALL="fdatasync json" FAULT_AT=1 FAULT_TIMES=0 \
    FAULT_DO=EIO "$train" "${small[@]}" --steps 4 --log-json "$tmp/log/json" --ckpt "$tmp/log/ckpt" --ckpt-every 1
is "a log that cannot be brought to the disk: said once, at a checkpoint" "$rc $err" \
    "0 train: warning: rank 0: --log-json: lines are not on disk: Input/output error"

# --- on other data ---
mkdir "$tmp/data" "$tmp/moved"
cp "$text" "$tmp/data/one"
cp "$text" "$tmp/data/two"
cp "$text" "$tmp/moved/one"
on=("$train" "${small[@]:2}" --steps 2 --resume "$tmp/on")
ranks 1 "$train" "${small[@]:2}" --steps 1 --ckpt "$tmp/on" --data "$tmp/data/one" --data "$text"
ranks 1 "${on[@]}" --data "$tmp/moved/one" --data "$text"
is "files in another folder: nothing to warn of" "$rc $(grep -c 'with data' <<<"$err")" "0 0"
ranks 1 "${on[@]}" --data "$tmp/data/two" --data "$text"
files="2 files of $((2 * $(stat -c %s "$text"))) bytes"
like "another file of that size: a warning" "$rc $err" \
    "^0 .*resumed with data \"$files, [0-9a-f]{16}\", not \"$files, [0-9a-f]{16}\""
ranks 1 "${on[@]}" --data "$text" --data "$tmp/data/one"
like "files in another order: a warning" "$rc $err" '^0 .*resumed with data "'
run "$top_builddir/ddp" ckpt show "$tmp/on"
like "ddp ckpt show has them" "$out" "samples of +$files"

# --- from one folder into another, and run again ---
other=(--steps 40 --ckpt "$tmp/o" --ckpt-every 0)
ranks 2 "$train" "${small[@]}" --steps 30 --ckpt "$tmp/from" --ckpt-every 0
ranks 2 "$train" "${small[@]}" "${other[@]}" --resume "$tmp/from" --steps 35
like "--resume OTHER --ckpt DIR goes on from OTHER" "$rc $out" "^0 .*resumed from $tmp/from/step-00000030"
ranks 2 "$train" "${small[@]}" "${other[@]}" --resume "$tmp/from"
like "... run again, from DIR" "$rc $out" "^0 .*resumed from $tmp/o/step-00000035" || diag "$err"
is "... where its checkpoints are" "$(checkpoints "$tmp/o")" "step-00000035 step-00000040"
ranks 2 "$train" "${small[@]}" "${other[@]}" --resume "$tmp/o/step-00000035"
like "one checkpoint of DIR that is not the newest: refused" "$rc $err" '^2 .*has a newer checkpoint, of step 40'

# --- a stop is saved ---
DDP_TEST_MARK=$tmp timeout -k 5 120 "$top_builddir/ddp" run -n 2 "$train" "${small[@]}" --steps 1000000 --log-every 1 \
    --ckpt "$tmp/stop" --ckpt-every 0 --log-json "$tmp/stop.json" >"$tmp/out" 2>"$tmp/err" </dev/null &
launcher=$!
until_true 60 grep -qs '^step 3/' "$tmp/out" || diag "training did not start: $(cat "$tmp/err")"
kill -TERM "$(training "$tmp" 1)"
rc=0
wait $launcher || rc=$?
is "a stop with --ckpt: exit code" "$rc" 75
like "... says how to go on" "$(grep '^train: stopped' "$tmp/err")" '^train: stopped by SIGTERM, with a checkpoint'
last=$(sed -n '$s/^{"step": \([0-9]*\),.*/\1/p' "$tmp/stop.json")
is "... the checkpoint is of the last step" "$(checkpoints "$tmp/stop")" "$(printf 'step-%08d' "$last")"

# --- inside a step, most likely ---
long=("${small[@]}" --batch 1 --accum 64 --steps 60 --log-every 1 --ckpt-every 0)
ranks 2 "$train" "${long[@]}" --ckpt "$tmp/unstopped"
unstopped=$(hash_of)
rm "$tmp/out"
DDP_STOP_WITHIN=0 DDP_TEST_MARK=$tmp timeout -k 5 120 "$top_builddir/ddp" run -n 2 "$train" "${long[@]}" \
    --ckpt "$tmp/inside" >"$tmp/out" 2>"$tmp/err" </dev/null &
launcher=$!
until_true 60 grep -qs '^step 3/' "$tmp/out" || diag "training did not start: $(cat "$tmp/err")"
kill -TERM "$(training "$tmp" 1)"
rc=0
wait $launcher || rc=$?
is "a stop inside a step: exit code" "$rc" 75 || diag "$(cat "$tmp/err")"
cp -r "$tmp/inside" "$tmp/inside-too"
ranks 2 "$train" "${long[@]}" --ckpt "$tmp/inside"
is "... the same again goes on to the same parameters" "$rc $(hash_of)" "0 $unstopped" || diag "$err"
ranks 2 "$train" "${long[@]}" --resume "$tmp/inside-too" --ckpt "$tmp/elsewhere"
is "... into another folder, too" "$rc $(hash_of)" "0 $unstopped" || diag "$err"

# --- weights to begin with ---
ranks 2 "$train" "${small[@]}" --steps 0 --init "$tmp/a/step-00000040"
is "--init: the parameters of the checkpoint" "$rc $(hash_of)" "0 $want" || diag "$err"
ranks 2 "$train" "${small[@]}" --steps 20 --init "$tmp/a/step-00000040" --ckpt "$tmp/tuned" --ckpt-every 10
tuned=$(hash_of)
rm -r "$tmp/tuned/step-00000020"
ranks 2 "$train" "${small[@]}" --steps 20 --init "$tmp/a/step-00000040" --ckpt "$tmp/tuned"
like "--init with a checkpoint goes on from the checkpoint" "$out" 'at step 10'
is "... to the same parameters" "$(hash_of)" "$tuned"

unsized=(--data $text --batch 2 --seed 11 --val-windows 4 --log-every 0 --print-hash)
ranks 2 "$train" "${unsized[@]}" --steps 0 --init "$tmp/a/step-00000040"
is "--init: sizes are those of its config.json" "$rc $(hash_of)" "0 $want" || diag "$err"
ok "a checkpoint is exported" "$top_builddir/ddp" ckpt export "$tmp/a" "$tmp/tanh/"
sed -i 's/gelu_new/gelu_pytorch_tanh/' "$tmp/tanh/config.json"
ranks 1 "$train" "${unsized[@]}" --steps 0 --init "$tmp/tanh"
is "--init: what was exported, and gelu_pytorch_tanh, which is the same" "$rc $(hash_of)" "0 $want" || diag "$err"
loss=$(sed -n 's/.*"step": 40, "val_loss": //p' "$tmp/want.json" | tr -d '}')
for n in 1 2; do
    ranks $n "$train" "${unsized[@]}" --eval --init "$tmp/a/step-00000040"
    is "$n: --eval: the validation loss of the end, and no word more" "$rc $out" \
        "0 $(printf 'val loss %.6f, of 4 windows of 32 tokens\n%s' "$loss" "$want")" || diag "$err"
done
ranks 1 "$train" --val "$text" --eval --init "$tmp/a/step-00000040"
like "--eval with --val alone" "$rc $out" '^0 val loss [0-9.]+, of [0-9]{4} windows'
ranks 2 "$train" --val "$text" --eval --init "$tmp/nowhere"
is "--eval of nothing: exit code, and one line" "$rc $(grep -c '^train: ' <<<"$err")" "1 1"
python3 - "$tmp/last.bin" <<'PYTHON'
import struct, sys
head = struct.pack("<3i", 20240520, 1, 1000) + bytes(253 * 4)
open(sys.argv[1], "wb").write(head + bytes(1940) + b"\1\1" + bytes(58))
PYTHON
ranks 2 "$train" --val "$tmp/last.bin" --eval --init "$tmp/a/step-00000040"
is "--eval of what one rank cannot read: exit code" "$rc" 1
like "... it is said" "$err" 'train: rank [01]: .*last.bin: token 257 at byte offset '
ok "... as that alone" test "$(grep -c 'same calls' <<<"$err")" = 0

# --- a disk that is full ---
full() { # FAULT-VARIABLE...: trains with a broken disk on rank 1
    ranks 2 env LD_PRELOAD="$fault" FAULT_DIR="$tmp/full" FAULT_FROM=.saving- FAULT_RANK=1 FAULT_AT=3 "$@" \
        "$train" "${small[@]}" --steps 40 --ckpt "$tmp/full" --ckpt-every 10
}
full FAULT_DO=ENOSPC
is "a full disk for once: training goes on" "$rc $(hash_of)" "0 $want" || diag "$err"
like "... with a warning" "$err" 'rank 1.*No space left on device'
is "... given once" "$(grep -c 'No space left' <<<"$err")" 1
like "... and later checkpoints are there" "$(checkpoints "$tmp/full")" 'step-00000040'
rm -r "$tmp/full"
full FAULT_DO=EIO FAULT_TIMES=0
is "a disk that stays broken: exit code" "$rc" 1
like "... training goes on to its last checkpoint, and every rank knows why that failed" "$err" \
    'rank 0: rank 1( .* aborted)?: the checkpoint of step 40, the last, could not be saved \([^ :]+: Input/output e'
for i in {1..8}; do # which rank hears of it first is chance
    rm -r "$tmp/full"
    full FAULT_DO=EIO FAULT_TIMES=0
    grep 'checkpoint of step 40 failed: rank 1: .*Input/output error' <<<"$err" || diag "$i: $err"
done >"$tmp/why"
is "... and rank 0 has said why before the first rank ends" "$(grep -c ^train "$tmp/why")" 8 || cat "$tmp/why"
is "... and each rank which one it was" \
    "$(grep -cE '^train: (rank [01]: )?rank 1( \([^)]*\) aborted)?: the checkpoint of step 40, the' <<<"$err")" 2 ||
    diag "$err"
rm -r "$tmp/full"
broken=(env LD_PRELOAD="$fault" FAULT_DIR="$tmp/full" FAULT_FROM=.saving- FAULT_RANK=1 FAULT_AT=3 FAULT_DO=EIO
    FAULT_TIMES=0)
ranks 2 "${broken[@]}" "$train" "${small[@]}" --steps 5 --ckpt "$tmp/full" --ckpt-every 0 --ddp-ckpt-required=on
is "where checkpoints are required: exit code" "$rc" 1
like "... with the reason, in each line" \
    "$(grep ^train: <<<"$err" | grep -v 'step 5 failed: rank 1: cannot write ')" '^$'
rm -r "$tmp/full"
DDP_TEST_MARK=$tmp timeout -k 5 120 "$top_builddir/ddp" run -n 2 "${broken[@]}" "$train" "${small[@]}" --batch 1 \
    --accum 512 --steps 100 --ckpt "$tmp/full" >"$tmp/out" 2>"$tmp/err" </dev/null &
launcher=$!
until_true 60 test -d "$tmp/full" || diag "training did not start: $(cat "$tmp/err")"
kill -TERM "$(training "$tmp" 1)"
rc=0
wait $launcher || rc=$?
is "a stop within the first step, which cannot be saved: exit code" "$rc" 1
like "... it is said" "$(cat "$tmp/err")" 'checkpoint of step [01], the last, could not be saved'

# --- no space for the last one: it waits for some ---
no_space() { # TIMES VARIABLE...: of rank 1's tries so many find none
    rm -rf "$tmp/last"
    ranks 2 env LD_PRELOAD="$fault" FAULT_DIR="$tmp/last" FAULT_FROM=.saving- FAULT_RANK=1 FAULT_CALL="open model" \
        FAULT_AT=1 FAULT_DO=ENOSPC FAULT_TIMES="$1" "${@:2}" "$train" "${small[@]}" --steps 40 --ckpt "$tmp/last" \
        --ckpt-every 0 --resume none
}
waits="no space is left in $tmp/last for the checkpoint of step 40, the last, which is tried again for"
gave_up="tried again 3 times: the checkpoint of step 40 failed: rank 1: .* could not be saved \([^ :]+: No space"
no_space 2
is "no space, and then some: saved" "$rc $(hash_of) $(checkpoints "$tmp/last")" "0 $want step-00000040" || diag "$err"
is "... it says once what it waits for" "$(grep -c "$waits 5 min 00 s (DDP_TIMEOUT)" <<<"$err")" 1 || diag "$err"
no_space 0 DDP_TIMEOUT=4
is "space that never comes: fails" "$rc $(checkpoints "$tmp/last")" "1 step-*" || diag "$err"
like "... when it has waited, and says so" "$err" \
    "$waits 4.0 s.*$gave_up"
no_space 2 DDP_CKPT_REQUIRED=on
is "no space, and then some, required: saved" "$rc $(hash_of) $(checkpoints "$tmp/last")" "0 $want step-00000040" ||
    diag "$err"
no_space 0 DDP_CKPT_REQUIRED=on DDP_TIMEOUT=4
like "... that never comes: fails when it has waited, and says so" "$rc $err" \
    "^1 .*$waits 4.0 s.*$gave_up"
no_space 3 FAULT_RANK=0 FAULT_FROM= FAULT_CALL="open -probe"
is "no space to open the folder, and then some: saved" "$rc $(hash_of) $(checkpoints "$tmp/last")" \
    "0 $want step-00000040" || diag "$err"
like "... which it waits for" "$err" "$waits 5 min 00 s"
no_space 0 SLURM_JOB_ID=1 SLURM_JOB_END_TIME=1
like "... and does not wait beyond the job's end" "$rc $err" \
    '^1 .*step 1 failed: rank 1: .*step 1, the last, could not be saved \([^ :]+: No space left on device\)'
is "... at all" "$(grep -c "tried again" <<<"$err")" 0
full_disk() { # STEPS: with no space but what is freed when it is asked for; leaves the launcher
    rm -rf "$tmp/disk/last" "$tmp/out" "$tmp/err"
    head -c 5000000 /dev/zero 2>/dev/null >"$tmp/disk/other" || true
    DDP_TEST_MARK=$tmp timeout -k 5 120 "$top_builddir/ddp" run -n 2 "$train" "${small[@]}" --log-every 1 --steps "$1" \
        --ckpt "$tmp/disk/last" --ckpt-every 0 >"$tmp/out" 2>"$tmp/err" </dev/null &
    launcher=$!
}
if mkdir "$tmp/disk" && mount -t tmpfs -o size=4m tmpfs "$tmp/disk" 2>/dev/null; then
    at_exit "umount $tmp/disk"
    full_disk 40
    until_true 60 grep -qs 'which is tried again for' "$tmp/err" || diag "no wait: $(cat "$tmp/err")"
    rm "$tmp/disk/other"
    rc=0
    wait $launcher || rc=$?
    is "a disk where somebody frees space: saved" "$rc $(checkpoints "$tmp/disk/last")" "0 step-00000040" ||
        diag "$(cat "$tmp/err")"
    full_disk 40
    until_true 60 grep -qs 'which is tried again for' "$tmp/err" || diag "no wait: $(cat "$tmp/err")"
    kill -TERM "$(training "$tmp" 1)"
    rc=0
    wait $launcher || rc=$?
    like "a signal ends the wait" "$rc $(cat "$tmp/err")" '^1 .*tried again [0-9]+ times?, until a signal: the ch'
    full_disk 1000000
    until_true 60 grep -qs '^step 3/' "$tmp/out" || diag "training did not start: $(cat "$tmp/err")"
    kill -TERM "$(training "$tmp" 1)"
    until_true 60 grep -qs 'which is tried again for' "$tmp/err" || diag "no wait: $(cat "$tmp/err")"
    rm "$tmp/disk/other"
    rc=0
    wait $launcher || rc=$?
    is "a stop waits for space, too" "$rc $(checkpoints "$tmp/disk/last" | wc -w)" "75 1" || diag "$(cat "$tmp/err")"
else
    diag "a full disk: no tmpfs can be mounted here"
fi
run timeout 60 env RANK=0 DDP_TIMEOUT=2 LD_PRELOAD="$fault" FAULT_DIR="$tmp/hung" FAULT_CALL="fsync model" FAULT_AT=1 \
    FAULT_DO=hang "$train" "${small[@]}" --steps 2 --ckpt "$tmp/hung" --ckpt-every 1
is "a file system that hangs: the program ends all the same" "$rc" 1
like "... and says why" "$err" 'the checkpoint of step 1 stands still: no rank has written anything for 2 s: '

# --- what is refused ---
refuses() { # DESC CODE ERE OPTION...
    local desc=$1 code=$2 why=$3
    shift 3
    run "$train" "${small[@]}" --steps 1 "$@"
    is "$desc: exit code" "$rc" "$code"
    is "$desc: one line" "$(wc -l <<<"$err")" 1
    like "$desc: says it" "$err" "$why"
}
refuses "--ckpt-every alone" 2 '--ckpt-every is about checkpoints.*add --ckpt DIR' --ckpt-every 5
refuses "--keep alone" 2 '--keep is about checkpoints.*add --ckpt DIR' --keep 5
refuses "--keep 0" 2 '--keep=0 .*1\.\.' --ckpt "$tmp/new" --keep 0
refuses "--ckpt without a name" 2 '--ckpt wants' --ckpt=
refuses "--resume=auto alone" 2 '--resume=auto .*add --ckpt DIR' --resume auto
refuses "--resume DIR and --init" 2 "--resume=$tmp/a and --init" --resume "$tmp/a" --init "$tmp/a"
refuses "--resume DIR that has none" 1 "--resume=$tmp/new: there is no checkpoint" --resume "$tmp/new"
is "... and makes no folder" "$(ls -d "$tmp/new" 2>&1)" "ls: cannot access '$tmp/new': No such file or directory"
cp "$tmp/a.json" "$tmp/kept"
refuses "--resume=none beside checkpoints" 2 "$tmp/a has checkpoints already: resume from them" \
    --ckpt "$tmp/a" --resume none --log-json "$tmp/kept"
ok "... and the log of what was trained stays" cmp "$tmp/a.json" "$tmp/kept"
refuses "--init without config.json" 1 "cannot read $tmp/config.json: No such file.*step-" --init "$tmp"
mkdir "$tmp/bare" && cp "$tmp/tanh/config.json" "$tmp/bare"
refuses "--init without weights" 1 "$tmp/bare has no model.safetensors and no model.safetensors.index.json" \
    --init "$tmp/bare"
refuses "--init of another size" 2 \
    "config.json: n_embd is 64, but the model has 32: leave the sizes out, or give --width 64" \
    --init "$tmp/a/step-00000040" --width 32
refuses "--eval alone" 2 '--eval judges the weights that --init names: add --init DIR' --eval
refuses "training data of one kind, --val of the other" 1 '--data has bytes, and --val has not' --val "$tmp/last.bin"
refuses "--eval and --ckpt" 2 '--eval takes no step.*leave out --ckpt' --eval --init "$tmp/a/step-00000040" \
    --ckpt "$tmp/b"
refuses "other data" 2 "other data|n_samples|samples" --ckpt "$tmp/a" --context 16
done_testing

#!/bin/bash
# train on (emulated) GPUs, stopped and gone on from: the bits of a run that nobody stopped, in float32 and bfloat16;
# from the processor and to it, near ones; a signal; the weights alone.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
unset RANK WORLD_SIZE OMP_NUM_THREADS CUDA_VISIBLE_DEVICES "${!SLURM@}" "${!DDP_@}" "${!EMU_@}" "${!NCCL@}"
emulated=$top_builddir/t/lib/train-emu
[ -x "$emulated" ] || skip_all "no emulated GPUs: they need a C++ compiler"
export EMU_DEVICES=2
head -c 3000 /usr/share/common-licenses/GPL-3 >"$tmp/data"
common=(--data "$tmp/data" --layers 1 --width 64 --heads 1 --context 16 --batch 2 --steps 4 --warmup 2 --lr 3e-3)
common+=(--seed 3 --log-every 0 --val-every 2 --val-windows 1 --print-hash)

trains() { run "$top_builddir/ddp" run -n "$1" "$emulated" "${common[@]}" "${@:2}"; }
hash_of() { sed -n 's/^params hash //p' <<<"$out"; }
losses() { sed -n 's/.*"\(val_\)\?loss": \([^,}]*\)[,}].*/\2/p' "$1"; }
# One line: the losses' number, and that they are within LIMIT of each other.
near() { # FILE FILE LIMIT
    paste <(losses "$1") <(losses "$2") | awk -v l="$3" \
        '{ d = ($1 - $2) / $1; if (d < 0) d = -d; bad += NF != 2 || !(d <= l) }
        END { print NR, bad + 0 }'
}

gone_on() { # DESC RANKS ARGUMENT...: from step 2, on GPUs throughout
    local want
    rm -rf "$tmp/c"
    trains "$2" --device cuda "${@:3}"
    want=$(hash_of)
    trains "$2" --device cuda "${@:3}" --ckpt "$tmp/c" --ckpt-every 2
    is "$1: checkpoints" "$rc $(hash_of) $(ls "$tmp/c" | wc -l)" "0 $want 2" || diag "$err"
    rm -rf "$tmp/c/step-00000004"
    trains "$2" --device cuda "${@:3}" --ckpt "$tmp/c" --ckpt-every 0
    like "$1: goes on" "$rc $out" '^0 .*resumed from .*, at step 2'
    is "$1: ... with the same bits" "$(hash_of)" "$want" || diag "$err"
    unlike "$1: ... and no warning" "$out$err" 'bits may differ'
}
gone_on "float32" 1 --dtype f32
gone_on "bfloat16" 1 --dtype bf16
EMU_STREAMS=deferred gone_on "bfloat16, work that is done late" 1 --dtype bf16

crosses() { # FROM TO LIMIT TO-ARGUMENT...
    rm -rf "$tmp/c" "$tmp/log" "$tmp/whole"
    trains 1 --device "$1" --dtype f32 --log-json "$tmp/whole"
    trains 1 --device "$1" --dtype f32 --ckpt "$tmp/c" --ckpt-every 2 --log-json "$tmp/log"
    rm -rf "$tmp/c/step-00000004"
    trains 1 --device "$2" "${@:4}" --ckpt "$tmp/c" --ckpt-every 0 --log-json "$tmp/log"
    is "from $1 to $2 ${*:4}: the losses are near" "$rc $(near "$tmp/whole" "$tmp/log" "$3")" "0 6 0" || diag "$err"
    like "... and what may differ is said" "$out$err" 'resumed with kernels ".*", not ".*", matrix products'
}
crosses cpu cuda 1e-5 --dtype f32
crosses cuda cpu 1e-5
crosses cpu cuda 5e-3 --dtype bf16

# --- the weights alone ---
trains 1 --device cpu --ckpt "$tmp/w" --ckpt-every 0
for to in cpu cuda; do
    trains 1 --device $to --dtype f32 --init "$tmp/w/step-00000004" --steps 2 --warmup 0 --log-json "$tmp/init-$to"
done
is "the weights alone, of the processor's run" "$rc $(near "$tmp/init-cpu" "$tmp/init-cuda" 1e-5)" "0 3 0" ||
    diag "$err"

# --- a signal ---
cat >"$tmp/stopped" <<'SCRIPT'
#!/bin/bash
# Sends SIGTERM when the third step's losses are in the log.
"$@" & pid=$!
end=$((SECONDS + 60))
until [ "$(grep -c '"loss"' "$LOG" 2>/dev/null)" -ge 3 ] || [ $SECONDS -ge $end ]; do sleep 0.01; done
kill -TERM $pid
wait $pid
SCRIPT
chmod +x "$tmp/stopped"
trains 1 --device cuda --dtype f32 --steps 30
want=$(hash_of)
run env LOG="$tmp/stop.log" "$tmp/stopped" "$emulated" "${common[@]}" --steps 30 --device cuda --dtype f32 --ckpt \
    "$tmp/s" --ckpt-every 0 --log-json "$tmp/stop.log"
is "a signal: saves and ends" "$rc $(ls "$tmp/s" | wc -l)" "75 1" || diag "$err"
trains 1 --device cuda --dtype f32 --steps 30 --ckpt "$tmp/s" --ckpt-every 0 --log-json "$tmp/stop.log"
is "... and the same command goes on with the same bits" "$rc $(hash_of)" "0 $want" || diag "$err"

double=$top_builddir/t/lib/nccldouble/.libs
if [ -e "$double/libnccl.so.2" ]; then
    export LD_LIBRARY_PATH=$double${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} NCCLDOUBLE_DIR=$tmp/double NCCLDOUBLE_IN_ORDER=1
    mkdir "$tmp/double"
    gone_on "two ranks, bfloat16" 2 --dtype bf16 --batch 1
    want=$(hash_of)
    for zero in 1 0; do # from a state that each rank holds whole, then from one that is spread
        rm -rf "$tmp/c/step-00000004"
        trains 2 --device cuda --dtype bf16 --batch 1 --ckpt "$tmp/c" --ckpt-every $((3 * zero)) --ddp-zero=$zero
        like "... with zero=$zero" "$rc $out" "^0 .*resumed from .*, at step $((zero ? 2 : 3))"
        is "... with the same bits" "$(hash_of)" "$want" || diag "$err"
    done
else
    diag "several ranks: this build lacks nccl.h (libnccl-dev)"
fi
done_testing

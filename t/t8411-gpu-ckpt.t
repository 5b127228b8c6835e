#!/bin/bash
# Checkpoints of (emulated) GPUs: the same files as the processor's, which goes on from a GPU's and the other way with
# the same bits; saves that fail, GPUs that fail while one is made, files that are torn; a model's values onto a GPU.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
unset RANK WORLD_SIZE CUDA_VISIBLE_DEVICES "${!SLURM@}" "${!DDP_@}" "${!EMU_@}" "${!NCCL@}"
ddp=$top_builddir/ddp
fault=$top_builddir/t/lib/.libs/fault.so
export EMU_DEVICES=4 DDP_TIMEOUT=20

probe() { # RANKS DEVICE STEPS ARGUMENT...
    run "$ddp" run -n "$1" "$top_builddir/t/lib/gpuprobe" "$3" "--ddp-device=$2" --ddp-zero=0 "${@:4}"
}
# Rank by rank: what is computed from step $1 on.
lines() { grep -E '^(step|values)' <<<"$out" | awk -v from="$1" '$1 == "values" || $2 >= from' | sort; }
last() { grep ^values <<<"$out" | tail -1; }

# What is the same in every checkpoint of that step.
files() { (cd "$1" && cksum -- *.safetensors *.index.json); }

# --- there and back ---
both_ways() { # DESC RANKS ARGUMENT...
    local n=$2 from to
    probe "$n" cpu 8 "${@:3}"
    local whole end
    whole=$(grep ^step <<<"$out" | awk '$2 > 4' | sort) end=$(last)
    for from in cpu cuda; do
        rm -rf "$tmp/$from"
        probe "$n" $from 4 ckpt="$tmp/$from" --ddp-ckpt-every=4 wait=on "${@:3}"
        is "$1: saved on $from" "$rc $(ls "$tmp/$from") $(grep -c '^status 1 0 4' <<<"$out")" "0 step-00000004 $n" ||
            diag "$err"
    done
    is "$1: the same files" "$(files "$tmp/cuda/step-00000004")" "$(files "$tmp/cpu/step-00000004")"
    like "$1: the manifest says what computed" "$(cat "$tmp/cuda/step-00000004/manifest.json")" \
        '"kernels": "CUDA sm_90 \(NVIDIA H200\)"'
    for from in cpu cuda; do
        for to in cpu cuda; do
            [ $from$to = cpucpu ] && continue
            rm -rf "$tmp/$from-$to"
            cp -r "$tmp/$from" "$tmp/$from-$to"
            probe "$n" $to 8 ckpt="$tmp/$from-$to" "${@:3}" --ddp-ckpt-every=0
            is "$1: from $from to $to" "$rc $(grep -c '^resumed 4' <<<"$out")" "0 $n" || diag "$err"
            is "$1: ... the same bits" "$(grep ^step <<<"$out" | sort) $(last)" "$whole $end"
            [ $from = $to ] && ! grep -q ^warning <<<"$out" ||
                like "$1: ... and warned" "$out" \
                    'warning resumed with kernels "(AVX|NEON|baseline|CUDA)[^"]*", not "(AVX|NEON|baseline|CUDA)'
        done
    done
}
both_ways "one rank" 1 clip=1
export EMU_STREAMS=deferred
both_ways "work that is done late" 1
unset EMU_STREAMS

double=$top_builddir/t/lib/nccldouble/.libs
if [ -e "$double/libnccl.so.2" ]; then
    export LD_LIBRARY_PATH=$double${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} NCCLDOUBLE_DIR=$tmp/double
    export NCCLDOUBLE_IN_ORDER=1
    mkdir "$tmp/double"
    both_ways "two ranks" 2
    want=$(files "$tmp/cuda/step-00000004")
    both_ways "two ranks, rows behind parameters" 2 pad=on
    is "rows behind parameters: the files are as without them" "$(files "$tmp/cuda/step-00000004")" "$want"
    both_ways "two ranks, four shards" 2 shards=4
    both_ways "three ranks, gradients as bf16" 3 --ddp-compress=bf16
    probe 3 cuda 4 ckpt="$tmp/cuda" --ddp-ckpt-every=0
    want=$(last)
    for n in 1 2 4; do
        probe $n cuda 4 ckpt="$tmp/cuda" --ddp-ckpt-every=0
        is "three ranks' checkpoint on $n" "$rc $(last)" "0 $want" || diag "$err"
    done
    # Moments that are spread, of two GPUs: to other numbers of ranks, spread or not, and to the processor.
    both_ways "two ranks, zero=1" 2 --ddp-zero=1 --ddp-bucket-mb=0.01
    rm -rf "$tmp/spread"
    probe 1 cpu 8 shards=4
    want=$(grep ^step <<<"$out" | awk '$2 > 4') end=$(last)
    probe 2 cuda 4 shards=4 ckpt="$tmp/spread" --ddp-ckpt-every=4 wait=on --ddp-zero=1
    is "zero=1: saved" "$rc $(grep -c '^status 1 0 4' <<<"$out")" "0 2" || diag "$err"
    for to in "1 cuda 0" "1 cuda 1" "2 cuda 0" "4 cuda 1" "2 cpu 1"; do
        read -r n device zero <<<"$to"
        rm -rf "$tmp/to"
        cp -r "$tmp/spread" "$tmp/to"
        probe "$n" "$device" 8 shards=4 ckpt="$tmp/to" --ddp-ckpt-every=0 --ddp-zero="$zero"
        is "zero=1: on $n $device, zero=$zero: the same bits" "$rc $(grep ^step <<<"$out" | sort -u) $(last)" \
            "0 $want $end" || diag "$err"
    done
    rm -rf "$tmp/to"
    probe 2 cpu 4 shards=4 ckpt="$tmp/to" --ddp-ckpt-every=4 wait=on
    is "zero=1: the same files" "$(files "$tmp/spread/step-00000004")" "$(files "$tmp/to/step-00000004")"
    probe 4 cuda 8 shards=4 ckpt="$tmp/to" --ddp-ckpt-every=0 --ddp-zero=1
    is "from zero=0 to zero=1: the same bits" "$rc $(grep ^step <<<"$out" | sort -u) $(last)" "0 $want $end" ||
        diag "$err"
    # A rank whose GPU has no more pinned memory, when the folder is opened: nobody waits for it.
    fails_on_1() { # SCRIPT ERE
        # shellcheck disable=SC2016
        run "$ddp" run -n 2 bash -c 'script=$1; shift; [ "$RANK" != 1 ] || export "EMU_FAIL=$script"; exec "$@"' - \
            "$1" \
            "$top_builddir/t/lib/gpuprobe" 6 --ddp-device=cuda ckpt="$tmp/none" --ddp-ckpt-every=2 wait=on
        is "$1 on rank 1: exit code" "$rc" 1
        like "... and said" "$err" "$2"
    }
    for n in 8 9; do
        fails_on_1 cudaHostAlloc:$n:2 \
            'gpuprobe: rank 1: .*cudaHostAlloc of 4194304 bytes for reading checkpoints back: out of memory'
    done
else
    diag "several ranks: this build lacks nccl.h (libnccl-dev)"
fi

# --- values alone ---
probe 1 cpu 4 ckpt="$tmp/v" --ddp-ckpt-every=4 wait=on
want=$(last)
probe 1 cuda 0 load="$tmp/v/step-00000004"
is "values alone, from a checkpoint" "$rc $(last)" "0 $want" || diag "$err"
python3 - "$tmp/v/step-00000004" "$tmp/bf16.safetensors" <<'PY'
import glob, json, struct, sys
head, data = {}, b""
for path in sorted(glob.glob(sys.argv[1] + "/model*.safetensors")):
    file = open(path, "rb").read()
    n = struct.unpack("<Q", file[:8])[0]
    for name, t in json.loads(file[8:8 + n]).items():
        if name == "__metadata__":
            continue
        first, end = t["data_offsets"]
        raw = b"".join(file[8 + n + i + 2:8 + n + i + 4] for i in range(first, end, 4))
        head[name] = {"dtype": "BF16", "shape": t["shape"], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
text = json.dumps(head).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + data)
PY
probe 1 cpu 0 load="$tmp/bf16.safetensors"
cut=$(last)
probe 1 cuda 0 load="$tmp/bf16.safetensors"
is "... from bfloat16" "$rc $(last)" "0 $cut" || diag "$err"
ok "... which cuts them" [ "$cut" != "$want" ]
cp -r "$tmp/v/step-00000004" "$tmp/damaged"
printf x | dd of="$(ls "$tmp"/damaged/model-*.safetensors)" bs=1 seek=9000 conv=notrunc status=none
probe 1 cuda 0 load="$tmp/damaged"
is "... from a damaged one: refused" "$rc" 1
like "... and said" "$err" 'model-.*\.safetensors is damaged'

# --- a folder that is full, files that are torn ---
probe 1 cpu 9
end=$(last)
run env FAULT_DIR="$tmp/full" FAULT_CALL="pwrite .saving" FAULT_AT=2 FAULT_DO=ENOSPC FAULT_TIMES=1 RANK= \
    LD_PRELOAD="$fault" \
    "$ddp" run -n 1 "$top_builddir/t/lib/gpuprobe" 9 --ddp-device=cuda ckpt="$tmp/full" --ddp-ckpt-every=3 wait=on
is "a full disk: goes on" "$rc $(last) $(grep ^status <<<"$out")" "0 $end status 2 1 9" || diag "$out$err"
like "... and says why" "$out" 'warning the checkpoint of step 3 failed: .*No space left on device'
n=0
for at in 3 8 13 18 23 28 33; do # of the second save's calls
    rm -rf "$tmp/torn"
    run env FAULT_DIR="$tmp/torn" FAULT_FROM=-step-00000006 FAULT_AT=$at LD_PRELOAD="$fault" \
        "$ddp" run -n 1 "$top_builddir/t/lib/gpuprobe" 9 --ddp-device=cuda ckpt="$tmp/torn" --ddp-ckpt-every=3 wait=on
    n=$((n + (rc == 137)))
    probe 1 cuda 9 ckpt="$tmp/torn" --ddp-ckpt-every=0
    like "killed at call $at of a save: goes on" "$rc $out" '^0 .*resumed [36]'
    is "... to the same end" "$(last)" "$end"
done
ok "saves were torn ($n)" [ $n -ge 4 ]
rm -rf "$tmp/torn"
probe 1 cuda 7 ckpt="$tmp/torn" --ddp-ckpt-every=3 wait=on
printf x | dd of="$(ls "$tmp"/torn/step-00000006/optimizer-*.safetensors)" bs=1 seek=9000 conv=notrunc status=none
probe 1 cuda 9 ckpt="$tmp/torn" --ddp-ckpt-every=0
is "a file that is damaged: the one before is used" "$rc $(grep ^resumed <<<"$out") $(last)" "0 resumed 3 $end" ||
    diag "$err"
like "... and said" "$out" 'warning .*step-00000006/optimizer-.* is damaged'

# --- GPUs that fail ---
# Copies that fail and leave the GPU alive: in a save that is its failure, and training goes on.
n_saves=0
for at in $(seq 28 2 60); do
    rm -rf "$tmp/fail"
    EMU_FAIL=cudaMemcpyAsync:$at:1 probe 1 cuda 9 ckpt="$tmp/fail" --ddp-ckpt-every=3 wait=on
    [ "$rc" = 0 ] || continue
    [[ $out =~ warning.the.checkpoint.of.step.[369].failed:.*cudaMemcpyAsync.of.[0-9]+.bytes.from.the.device ]] &&
        [ "$(last)" = "$end" ] && grep -q '^status 2 1' <<<"$out" && n_saves=$((n_saves + 1))
done
ok "a copy that fails: that save fails, training goes on ($n_saves times)" [ $n_saves -ge 3 ]
# A GPU that is lost at any call: an error, and what is in the folder is whole.
n_lost=0 n_bad=0
for at in $(seq 60 41 1000); do
    rm -rf "$tmp/lost"
    EMU_FAIL="*:$at:719" probe 1 cuda 9 ckpt="$tmp/lost" --ddp-ckpt-every=3
    [ "$rc" = 1 ] && n_lost=$((n_lost + 1))
    [ "$rc" = 0 ] || [[ $err =~ gpuprobe:.(rank.0:.GPU.0|.*GPU.0|a.gradient.cannot|the.stream.failed|no.values) ]] ||
        { n_bad=$((n_bad + 1)); diag "call $at: $rc $err"; }
    probe 1 cpu 9 ckpt="$tmp/lost" --ddp-ckpt-every=0
    [ "$rc $(last)" = "0 $end" ] || { n_bad=$((n_bad + 1)); diag "after a loss at call $at: $rc $err"; }
done
is "a GPU that is lost: said, and gone on from on the processor" $n_bad 0
ok "... many times ($n_lost)" [ $n_lost -ge 10 ]
run env EMU_FAIL=cudaMemcpyAsync:12:719 "$ddp" run -n 1 "$top_builddir/t/lib/gpuprobe" 9 --ddp-device=cuda ckpt="$tmp/v"
is "a GPU that is lost while a checkpoint is read: an error" "$rc $(ls "$tmp/v")" "1 step-00000004"
like "... which does not blame the checkpoint" "$err" \
    'gpuprobe: rank 0: .*GPU 0 \(NVIDIA H200, 0000:18:00.0\): cudaMemcpyAsync of [0-9]+ bytes to the device'

# --- a stop inside a step ---
probe 1 cpu 3 accum=4
end=$(last)
probe 1 cpu 3 accum=4 stop=1 ckpt="$tmp/cut" --ddp-stop-within=0
is "a step that is cut on the processor" "$rc" 75
probe 1 cuda 3 accum=4 ckpt="$tmp/cut" --ddp-ckpt-every=0
is "... begins anew on a GPU" "$rc $(grep ^resumed <<<"$out") $(last)" "0 resumed 0 $end" || diag "$err"
like "... and that is said" "$out" 'warning .*step 1 was begun on 1 rank, on processors: it begins anew'
probe 1 cuda 3 accum=4 stop=1 ckpt="$tmp/uncut" --ddp-stop-within=0
is "on a GPU the step is finished first" "$rc $(ls "$tmp/uncut")" "75 step-00000001"
probe 1 cpu 3 accum=4 ckpt="$tmp/uncut" --ddp-ckpt-every=0
is "... and gone on from" "$rc $(last)" "0 $end"
done_testing

#!/bin/bash
# The example program: a whole training loop through ddp.h, on one, two and four ranks.
. "$(dirname "$0")/lib/tap.sh"
text=/usr/share/common-licenses/GPL-3
linear=$top_builddir/contrib/examples/linear

final() {
    "$top_builddir/ddp" run -n "$1" "${@:2}" "$linear" "$text" | awk '$1 == "step" { loss = $4 } END { print loss }'
}

cd "$tmp" || exit 1
for n in 1 2 4; do
    run "$top_builddir/ddp" run -n $n "$linear" "$text"
    is "$n ranks train" "$rc" 0
    is "$n ranks: rank 0 alone prints" "$(grep -c '^step' <<<"$out")" 5
    ok "$n ranks: the loss is below that of the mean (0.0389)" \
        awk -v x="$(awk '/^step 500/ { print $4 }' <<<"$out")" 'BEGIN { exit !(x > 0 && x < 0.03) }'
done
is "the same again gives the same digits" "$(final 4)" "$(final 4)"
is "2 + 2 virtual nodes give the digits of one node" "$(final 4 --layout 2,2)" "$(final 4)"

ckpt=(env DDP_CKPT_EVERY=100 DDP_KEEP=9 "$linear" "$text" --ckpt "$tmp/ckpt")
run "$top_builddir/ddp" run -n 2 "${ckpt[@]}"
is "with checkpoints: runs" "$rc" 0 || diag "$err"
want=$(tail -n 5 <<<"$out")
find "$tmp/ckpt" -mindepth 1 -maxdepth 1 ! -name step-00000100 -exec rm -r {} +
run "$top_builddir/ddp" run -n 2 "${ckpt[@]}"
is "goes on after step 100 with the same digits" "$rc $out" "0 $want"

run env DDP_CKPT_EVERY=0 "$top_builddir/ddp" run -n 2 "$linear" "$text" --ckpt "$tmp/last"
is "the last step is saved" "$rc $(ls "$tmp/last")" "0 step-00000500"
run env DDP_CKPT_EVERY=0 "$top_builddir/ddp" run -n 2 "$linear" "$text" --ckpt "$tmp/last"
like "... which is not done again" "$rc:$out$err" '^0:all windows: loss 0\.[0-9]{6}$'
want=$out
for n in 1 3; do
    run env DDP_CKPT_EVERY=0 "$top_builddir/ddp" run -n $n "$linear" "$text" --ckpt "$tmp/last"
    is "the same parameters on $n ranks: each window counts once" "$rc:$out$err" "0:$want"
done

fault=$top_builddir/t/lib/.libs/fault.so
stopped=(SLURM_JOB_ID=1 SLURM_JOB_END_TIME=1) # the job's time is over before the first step
run env "${stopped[@]}" "$top_builddir/ddp" run -n 2 "$linear" "$text" --ckpt "$tmp/stop"
is "asked to stop: saves, and says so by its exit code" "$rc $(ls "$tmp/stop")" "75 step-00000001"
broken=(LD_PRELOAD="$fault" FAULT_DIR="$tmp/full" FAULT_FROM=.saving- FAULT_RANK=1 FAULT_AT=1 FAULT_DO=ENOSPC
    FAULT_TIMES=0)
run env "${broken[@]}" "${stopped[@]}" "$top_builddir/ddp" run -n 2 "$linear" "$text" --ckpt "$tmp/full"
is "asked to stop, and the disk is full: exit code" "$rc $(ls "$tmp/full")" "1 "
is "... rank 0 alone says why" "$(grep -c "step 1 failed: rank 1: .*No space left on device" <<<"$err")" 1 ||
    diag "$err"
at_end() {
    run env DDP_CKPT_EVERY=0 "${broken[@]}" "$@" "$top_builddir/ddp" run -n 2 "$linear" "$text" --ckpt "$tmp/full"
}
at_end DDP_TIMEOUT=2
like "at the end, and the disk is full" "$rc $err" '^1 .*step 500 failed: rank 1: .*No space left on device'
for required in off on; do
    rm -r "$tmp/full"
    at_end FAULT_TIMES=2 DDP_CKPT_REQUIRED=$required
    is "... and then is not: waits, and says so once; required: $required" \
        "$rc $(ls "$tmp/full") $(grep -c 'no space is left in .*tried again for 5 min' <<<"$err")" \
        "0 step-00000500 1" || diag "$err"
done

run env DDP_CKPT_EVERY=100 DDP_KEEP=9 "$top_builddir/ddp" run -n 2 "$linear" "$top_srcdir/LICENSE" --ckpt "$tmp/golden"
ok "the bits of every processor (contrib/arm64 compares them too)" env -C "$tmp/golden/step-00000100" \
    sha256sum -c --quiet "$top_srcdir/t/data/linear.sha256"

run "$top_builddir/ddp" run -n 2 "$linear" /nowhere
is "no data: exit code" "$rc" 1
like "no data: says what it wants" "$err" "usage: linear FILE \[--ckpt DIR\]"
run env DDP_TIMEOUT=x "$top_builddir/ddp" run -n 1 "$linear" "$text"
like "a bad setting is named with what is allowed" "$err" \
    "DDP_TIMEOUT: timeout=x is not allowed: use timeout=0.1..86400"
run "$linear" --ddp-timeout=0 "$text"
like "a bad option is named" "$err" "timeout=0 is not allowed"
run "$linear" --ddp-colour=red "$text"
like "an unknown option is named" "$err" "unknown option --ddp-colour=red"
run bash -c 'ulimit -s 64; exec "$@"' - "$linear" "$text"
is "a small stack is named" "$rc:$err" "1:the stack has 64 KiB (ulimit -s), and libddp needs 256"
done_testing

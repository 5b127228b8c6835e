#!/bin/bash
# Checkpoints in flight: one that is due meanwhile is postponed; ranks without data go along; ddp_finalize ends the
# last.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/ckptprobe.sh"
last() { # DIR: its newest checkpoint's step
    basename "$(ls -d "$1"/step-* | tail -1)" | sed 's/step-0*//'
}

for layout in 1 2 1,1; do
    ranks $layout none resume=none steps=40
    want=$(bits)
    ranks $layout "$tmp/often-$layout" steps=40 --ddp-ckpt-every=1
    is "$layout: one in flight after the other, the same bits" "$rc $(bits)" "0 $want" || diag "$err"
    read -r _ committed failed at <<<"$(grep ^status <<<"$out")"
    read -r _ postponed <<<"$(grep ^postponed <<<"$out")"
    diag "$layout: 40 steps, $committed checkpoints, $postponed postponed"
    ok "$layout: ... some are committed" [ "$committed" -ge 1 ]
    ok "$layout: ... some are postponed" [ "$postponed" -ge 1 ]
    is "$layout: ... none fails" "$failed" 0
    is "$layout: ... the newest two stay" "$(ls "$tmp/often-$layout" | wc -l) $(last "$tmp/often-$layout")" \
        "$((committed < 2 ? committed : 2)) $at"
    ranks $layout "$tmp/often-$layout" steps=40
    is "$layout: ... and can be gone on from" "$rc $(bits)" "0 $(tail -n +$((at + 1)) <<<"$want")" || diag "$err"

    ranks $layout "$tmp/settle-$layout" steps=40 last=on settle=on
    is "$layout: ddp_finalize ends the last one" "$rc $(last "$tmp/settle-$layout")" "0 40" || diag "$err"
    is "$layout: ... leaving nothing" "$(ls -A "$tmp/settle-$layout")" step-00000040
done
# One that is asked for while another is in flight, and no step after it.
for end in "settle=on" "settle=off"; do
    for layout in 2 1,1; do
        PROBE_SLOW_COPY=1 ranks $layout "$tmp/asked-$layout-$end" steps=9 last=on $end --ddp-ckpt-every=8 \
            --ddp-record="$tmp/record-$layout-$end"
        is "$layout, $end: the last step's is taken behind the one in flight" \
            "$rc $(last "$tmp/asked-$layout-$end") $(grep ^postponed <<<"$out")" "0 9 postponed 1" || diag "$out$err"
        is "... and each has its line in the record" "$(sed -n 's/.*"checkpoint", .*"step": \([0-9]*\), .*/\1/p' \
            "$tmp/record-$layout-$end" | xargs)" "8 9"
    done
done
for layout in 2 1,1; do
    PROBE_SLOW_COPY=1 ranks $layout "$tmp/two-$layout" steps=9 last=on best=on --ddp-ckpt-every=8
    is "$layout: another folder's is taken behind the one in flight, and then the first one's again" \
        "$rc $(cd "$tmp" && echo "two-$layout"*/*)" \
        "0 two-$layout.best/step-00000009 two-$layout/step-00000008 two-$layout/step-00000009" || diag "$out$err"
done
# The optimizer waits for the copy, also one that takes longer than a step.
sums() { (cd "$1" && find . -type f ! -name manifest.json | sort | xargs sha256sum); }
for zero in 0 1; do
    ranks 2 "$tmp/fast-$zero" steps=4 --ddp-ckpt-every=2 wait=on --ddp-zero=$zero
    PROBE_SLOW_COPY=1 ranks 2 "$tmp/slow-$zero" steps=8 --ddp-ckpt-every=2 --ddp-keep=9 --ddp-zero=$zero
    rm -rf "$tmp/fast-$zero/step-00000004" "$tmp"/slow-$zero/step-0000000[3-9]
    is "zero=$zero: a slow copy: trains" "$rc" 0 || diag "$err"
    is "zero=$zero: ... is of one step" "$(sums "$tmp/slow-$zero")" "$(sums "$tmp/fast-$zero")"
done

for layout in 2 1,2; do
    ranks $layout "$tmp/join-$layout" steps=20 join=5 --ddp-ckpt-every=4
    is "$layout: ranks without data go along" "$rc $(grep status <<<"$out")" "0 status 1 0 4" || diag "$out$err"
    is "$layout: ... and nobody asks for another" "$(grep ^postponed <<<"$out")" "postponed 1"
done

for layout in 2 1,1; do
    PROBE_SLOW_COPY=1 ranks $layout "$tmp/leave-$layout" steps=20 leave=4 --ddp-ckpt-every=4
    is "$layout: a rank that leaves within a step, a checkpoint in flight: the other ends" "$rc" 1
    like "$layout: ... and says why" "$err" 'rank 0: .*rank 1 .*left'
    is "$layout: ... and nobody crashes" "$(grep -c signal <<<"$err")" 0 || diag "$err"
done

ranks 1 none resume=none
want=$(bits)
ranks 1 "$tmp/abort" steps=100000 abort=on --ddp-ckpt-every=4
is "a job that ends while its checkpoint is committed" "$rc $(grep -c signal <<<"$err")" "1 0" || diag "$err"
ranks 1 "$tmp/abort"
is "... leaves it whole, or none" "$rc $(bits | tail -1)" "0 $(tail -1 <<<"$want")" || diag "$err"

ranks 2 "$tmp/calls" resume=none calls=on
is "calls that do not fit are refused" "$rc $(grep -cx ok <<<"$out")" "0 2" || diag "$out$err"
done_testing

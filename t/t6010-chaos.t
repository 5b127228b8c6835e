#!/bin/bash
# Training that is killed twenty times in a row, at random moments and between two system calls of a commit, and goes on
# each time, ends with the bits of a run that nobody disturbed: on four ranks, and with 1, 2 and 4 ranks in turn under
# --shards, where each sample of an epoch is used exactly once. t9601 does it for longer, and on a real Slurm.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
unset RANK WORLD_SIZE "${!SLURM@}" "${!DDP_@}"
export OMP_NUM_THREADS=1
run_deadline=300
text=/usr/share/common-licenses/GPL-3
fault=$top_builddir/t/lib/.libs/fault.so
small=(--data $text --steps 200 --context 32 --layers 2 --width 96 --heads 4 --batch 4 --seed 11 --log-every 1
    --val-every 40 --val-windows 4 --ckpt-every 10)

chaos() { # NAME CHAOS-OPTION... -- COMMAND...
    local name=$1
    shift
    mkdir "$tmp/$name"
    run "$top_srcdir/t/lib/chaos" --dir "$tmp/$name" --fault "$fault" --steps 200 "$@"
    diag "$out"
    [ -z "$err" ] || diag "$err"
}
count() { sed -n "s/^result.* $1=\([0-9]*\).*/\1/p" <<<"$out"; }
at_least() { [ "${1:-0}" -ge "$2" ]; }

chaos four -- "$top_builddir/ddp" run -n %n "$top_builddir/train" "${small[@]}"
is "four ranks: the end has the undisturbed run's bits" "$rc" 0
for quota in "kills 20" "between 15" "before 5" "inside 5" "after 5" "stop 1"; do
    # shellcheck disable=SC2086
    ok "... $quota or more" at_least "$(count ${quota% *})" "${quota#* }"
done

chaos sizes --ranks 4,1,2 --kills 8 --each 2 --between 5 --samples -- \
    "$top_builddir/ddp" run -n %n "$top_builddir/t/unit/train-probe" "${small[@]}" --shards 4
is "1, 2 and 4 ranks in turn: the end has the undisturbed run's bits" "$rc" 0
like "... and every sample of an epoch was used once" "$out" 'samples: [1-9][0-9]* whole epochs'
done_testing

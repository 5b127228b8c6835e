#!/bin/bash
# The program against the second reading of the rule (t/data/topology/rule.py), on random masks and lists of GPUs for
# each recorded machine. DDP_SEED repeats a run.
source "$(dirname "$0")/lib/tap.sh"
command -v python3 >/dev/null || skip_all "python3 is not here"
: "${DDP_SEED:=$RANDOM}"
run_deadline=170
mkdir -p "$tmp/t/data"
cp -r "$top_srcdir/t/data/topology" "$tmp/t/data/"
chmod -R u+w "$tmp/t"

for round in 1 2 3; do
    seed=$((DDP_SEED + round))
    run python3 "$tmp/t/data/topology/place-by-rule" --random "$seed" 100
    is "seed $seed: cases for every machine" "$rc:$err" "0:"
    run env top_srcdir="$tmp" "$top_builddir/t/unit/topology/placement_golden.t"
    is "seed $seed: 16 machines, with and without devices, and 1600 cases agree" \
        "$rc:$(grep -c '^ok' <<<"$out"):$(grep -c '^not ok' <<<"$out")" "0:1632:0"
    differences=$(sed -n 's/^# //p' <<<"$out" | head -20)
    [ -z "$differences" ] || diag "$differences"
done
done_testing

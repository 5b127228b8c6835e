#!/bin/bash
# Ranks are killed within steps and training goes on from the last checkpoint, on other numbers of ranks: every sample
# still comes exactly once an epoch, counted by what committed steps took.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
probe=$top_builddir/t/lib/loopprobe
unset RANK WORLD_SIZE "${!SLURM@}" "${!DDP_@}"
samples=101

# part RANKS STEPS OPTION...: one run from the checkpoint on; its lines into $tmp/lines, those of steps that the
# checkpoint does not know dropped before.
part() {
    local n=$1 steps=$2 from
    shift 2
    run "$top_builddir/ddp" run -n "$n" env PROBE_CKPT="$tmp/ckpt" "$probe" $samples "${shape[@]}" "$steps" 0 \
        --ddp-ckpt-every=2 "$@"
    from=$(awk '$1 == "resumed" { print $2 }' <<<"$out")
    awk -v from="${from:-0}" '$3 <= from' "$tmp/lines" >"$tmp/kept"
    awk '$1 == "sample"' <<<"$out" >>"$tmp/kept"
    mv "$tmp/kept" "$tmp/lines"
    froms+=("${from:-none}")
}
# No sample has come twice more often than another, and all of them together as often as there are lines.
counts() { awk '{ print $2 }' "$tmp/lines" | sort -n | uniq -c | awk '{ print $1 }' | sort -n | uniq -c; }
exactly_once() {
    local lines whole more want
    lines=$(wc -l <"$tmp/lines") whole=$((lines / samples)) more=$((lines % samples))
    want=$(printf '%d %d\n' $((samples - more)) $whole $more $((whole + 1)) | awk '$1 > 0')
    diff <(counts | awk '{ print $1, $2 }') <(echo "$want") && [ $whole -ge 3 ]
}
killed() { # DESC RANKS...: killed on each of these numbers of ranks in turn, then to the end on the last one
    local desc=$1 n n_killed=0 n_parts=$(($# - 1))
    shift
    rm -rf "$tmp/ckpt"
    : >"$tmp/lines"
    froms=()
    for n; do
        PROBE_DIE="$((RANDOM % n)) $((1 + RANDOM % 8))" part "$n" 1000000
        [ "$rc" -eq 0 ] || n_killed=$((n_killed + 1))
    done
    is "$desc: killed each time" $n_killed $n_parts || diag "$err"
    part "$n" $((froms[-1] + 40))
    is "$desc: goes on to the end" "$rc" 0 || diag "$err"
    diag "resumed from steps ${froms[*]}"
    is "$desc: each time from a later step" "$(printf '%s\n' "${froms[@]}" | sort -nu | tr '\n' ' ')" "${froms[*]} "
    ok "$desc: every sample once an epoch" exactly_once || diag "$(counts)"
}

shape=(4 1 0)
killed "batch 4" 4 2 3 1 8 4 5 2
shape=(3 2 0)
killed "batch 3, 2 micro-steps" 2 4 1 3 4 2 1 4
shape=(3 1 8)
killed "batch 3, 8 shards" 2 4 8 1 4 2 1 4
sort "$tmp/lines" >"$tmp/with-kills"
steps=$(awk '$3 > n { n = $3 } END { print n }' "$tmp/lines")
run "$probe" $samples "${shape[@]}" "$steps" 0
ok "... and in each step the samples of a run that was never killed" \
    diff "$tmp/with-kills" <(awk '$1 == "sample"' <<<"$out" | sort)
done_testing

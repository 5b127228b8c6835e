#!/bin/bash
# Where a step's time goes, against what is known from outside: a wire of a known rate, runs on one rank, a slow rank.
# Two nodes are two ranks that talk over a loopback of their own. 5 minutes, on a machine that does nothing else.
. "$(dirname "$0")/lib/tap.sh"
[ "$(id -u)" -eq 0 ] || skip_all "needs root, for a network namespace"
unshare -n sh -c 'ip link set lo up && tc qdisc add dev lo root tbf rate 1gbit burst 256kb latency 2s' 2>/dev/null ||
    skip_all "no tc with tbf: contrib/deps installs it"
text=/usr/share/common-licenses
probe=$top_builddir/t/lib/apiprobe
export OMP_NUM_THREADS=1 run_deadline=200
cd "$tmp" || exit 1

# wire RATE RECORD OPTION...: two ranks of ./train over a wire of so many Mbit/s
wire() {
    local rate=$1 record=$2
    shift 2
    run unshare -n sh -c 'ip link set lo up
        tc qdisc add dev lo root tbf rate '"$rate"'mbit burst 256kb latency 2s
        exec "$@"' sh "$top_builddir/ddp" run -n 2 --layout 1,1 "$top_builddir/train" --data $text --model tiny \
        --val-windows 4 --log-every 0 --ddp-record="$record" "$@"
    [ "$rc" -eq 0 ] || diag "$err"
}
# of RECORD: ms a step: wall less checkpoints and other, exposed + hidden; the efficiency; but for the first step.
told() {
    python3 - "$1" <<'EOF'
import json, sys
lines = [x for x in map(json.loads, open(sys.argv[1])) if x["event"] == "interval"][1:]
n = sum(x["steps"] for x in lines)
had = [x["wall_s"] - x["parts"]["checkpoint"] - x["parts"]["other"] for x in lines]
known = [(x["efficiency"], h) for x, h in zip(lines, had) if x["efficiency"] is not None]
print(f'{1e3 * sum(had) / n:.2f} {1e3 * sum(x["parts"]["exposed"] + (x["hidden_s"] or 0) for x in lines) / n:.2f}',
      f'{sum(e * h for e, h in known) / sum(h for _, h in known):.4f}')
EOF
}
# near DESC GOT WANT PERCENT
near() {
    ok "$1: $2, $3 is known" awk -v a="$2" -v b="$3" -v p="$4" 'BEGIN { d = a / b - 1; exit !(d * d <= p * p / 1e4) }'
}

# Both ranks send the gradients once: 2 x 834304 x 4 bytes over the one loopback, and some headers.
for rate in 500 250; do
    wire $rate wire$rate --steps 120
    read -r _ communication _ <<<"$(told wire$rate)"
    near "exposed and hidden communication at $rate Mbit/s, ms" "$communication" \
        "$(awk -v r=$rate 'BEGIN { print 2 * 834304 * 4 * 8 / (r * 1e3) }')" 10
done

# Efficiency. Two runs on one rank at once have what two ranks have of the machine. What is told is compared with the
# run on one rank of the same half minute, since the machine's speed drifts.
alone() { # NAME
    "$top_builddir/ddp" run -n 1 "$top_builddir/train" --data $text --model tiny --val-windows 4 --log-every 0 \
        --steps 150 --ddp-record="$1" >/dev/null 2>&1
}
pairs=() share=()
for i in 1 2 3 4 5; do
    alone "a$i" &
    other=$!
    alone "b$i"
    wait $other
    read -r one _ _ <<<"$(told "a$i")"
    wire 1000 "two$i" --steps 150
    read -r step _ efficiency <<<"$(told "two$i")"
    share+=("$(awk -v e="$efficiency" -v one="$one" -v step="$step" 'BEGIN { print e / (one / step) }')")
    pairs+=("$one of $step ms, $efficiency is told;")
done
alone single
read -r single _ _ <<<"$(told single)"
near "efficiency over a wire of 1000 Mbit/s, over that of a run on one rank" \
    "$(printf '%s\n' "${share[@]}" | sort -g | sed -n 3p)" 1 5
diag "one rank, another beside it, of two ranks: ${pairs[*]} one alone: $single ms"

named=0 wrong=0
for i in {1..20}; do
    run "$top_builddir/ddp" run -n 3 "$probe" slow 15 --ddp-record="slow$i"
    named=$((named + $(grep -c '"event": "slow".*"rank": 1,' "slow$i")))
    run "$top_builddir/ddp" run -n 3 "$probe" slow 0 --ddp-record="clean$i"
    wrong=$((wrong + $(grep -c '"event": "slow"' "clean$i")))
done
is "a rank that takes 35 ms where others take 20 is named, and none where none does" "$named of 20, $wrong of 20" \
    "20 of 20, 0 of 20"
done_testing

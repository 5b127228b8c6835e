#!/bin/bash
# A run names the node whose link is slow, and none where none is: 20 times each. Four nodes of one rank. 12 minutes.
# shellcheck disable=SC2154
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
n_runs=${LINK_RUNS:-20}
cluster_up 4 --netns
export OMP_NUM_THREADS=1

# named NAME ERE: in how many runs all that is said to be slow, a line for each, matches. What was measured is shown.
named() {
    local i hits=0
    for ((i = 0; i < n_runs; i++)); do
        cluster_run srun --ddp=on -N4 --ntasks-per-node=1 "$top_builddir/train" --model tiny --steps 60 --log-every 0 \
            --data /usr/share/common-licenses --val-windows 1 --ddp-record="$cluster_dir/home/record.$1.$i"
        [ "$rc" -eq 0 ] && [[ $(grep '"event": "slow"' "$cluster_dir/home/record.$1.$i") =~ $2 ]] && hits=$((hits + 1))
        grep -o '"exposed": [0-9.e-]*\|"send_bps": .*' "$cluster_dir/home/record.$1.$i" | tail -n 2 >&2
    done
    echo "$hits"
}
for rate in 200mbit 1gbit; do
    cluster_exec n3 tc qdisc add dev eth0 root tbf rate $rate burst 64kb latency 50ms
    is "runs in which a link of $rate is named" \
        "$(named $rate '^[^'$'\n'']*"node": "n3", "of": "link"[^'$'\n'']*$')" "$n_runs"
    cluster_exec n3 tc qdisc del dev eth0 root
done
is "runs in which none is named" "$(named clean '^$')" "$n_runs"
done_testing

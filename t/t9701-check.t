#!/bin/bash
# `ddp check` on four nodes, 20 times each: nothing is named where all is well, and a slow link, or a rank that is kept
# from its CPU, always is. Prints what was measured.
# shellcheck disable=SC2154,SC2016
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
ddp=$top_builddir/ddp
n_runs=${CHECK_RUNS:-20}
unset DDP_VERSION
[ "$(nproc)" -ge 2 ] && grep -Eq '^Cpus_allowed_list:.0[-,]1' /proc/self/status || skip_all "needs CPUs 0 and 1"
cluster_up 4 --netns --cpus "$((2 * $(nproc)))" --conf TaskPluginParam=Sockets
check() { cluster_run env -u SLURM_CPU_BIND srun --ddp=on -N4 --ntasks-per-node=2 "$@"; }

# times ERE COMMAND...: how often it says what matches. What it measured, and what does not match, is shown.
times() {
    local i hits=0 ere=$1
    shift
    for ((i = 0; i < n_runs; i++)); do
        check "$@"
        if [[ "$rc:$out" =~ $ere ]]; then hits=$((hits + 1)); else diag "$rc:$out$err" >>"$tmp/misses"; fi
        grep -E '^ddp check: .*|^.... +(cores|bandwidth|links)' <<<"$out" >>"$tmp/figures"
    done
    echo "$hits"
}
# took: seconds, the shortest and the longest; figures: the last one's lines
took() { sed -nE 's/.*nodes, ([0-9.]+) s$/\1/p' "$tmp/figures" | sort -n | sed -n '1p;$p' | xargs; }
report() {
    diag "$1: $(took) s"
    diag "$(grep -E 'links|cores' "$tmp/figures" | sort | uniq | tail -n "${2:-6}")"
    [ ! -e "$tmp/misses" ] || cat "$tmp/misses"
    rm -f "$tmp/figures" "$tmp/misses"
}

# where the machine has fewer than two cores for four ranks, but that
few='warn +cores +ranks on .* got less than half of a core: rank [0-9]+ 0\.([0-4]|50)'
times "^0:.*(, 0|$few.*, 1) to look at, 0 failed$" "$ddp" check >"$tmp/hits"
is "clean runs in which nothing is named" "$(<"$tmp/hits")" "$n_runs"
report "clean" 40
times '^1:.*cores .* on n3: rank 5 .*[, ]1 failed; .*--exclude=n3$' \
    sh -c '[ $SLURM_PROCID = 5 ] || exec "$0" check; exec nice -n 19 "$0" check' "$ddp" >"$tmp/hits"
is "runs in which a rank that is kept from its CPU is named" "$(<"$tmp/hits")" "$n_runs"
report "a nice rank"
for rate in 200mbit 1gbit; do
    cluster_exec n3 tc qdisc add dev eth0 root tbf rate $rate burst 64kb latency 50ms
    times '^1:.*FAIL +links +slow on n3: .*[, ]1 failed; .*--exclude=n3$' "$ddp" check >"$tmp/hits"
    is "runs in which a link of $rate is named" "$(<"$tmp/hits")" "$n_runs"
    report "a link of $rate"
    cluster_exec n3 tc qdisc del dev eth0 root
done
done_testing

#!/bin/bash
# A rank that dies under a real Slurm: the step ends at once, somebody says which rank it was, and the cluster is as
# before: no process, no drained node. Nodes have a network of their own, so that ranks talk over TCP.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/cluster.sh"
. "$(dirname "$0")/lib/training.sh"
cluster_up 4 --netns
text=/usr/share/common-licenses/GPL-3

nobody_trains() { [ -z "$(training "$tmp")" ]; }
all_idle() {
    cluster_run sinfo -h -N -o %T
    [ "$(sort -u <<<"$out")" = idle ]
}

# kill_one VICTIM SRUN-OPTION...: sets $rc, $said, $took_ms
kill_one() {
    local victim=$1 start pid
    shift
    rm -f "$tmp/out"
    DDP_TEST_MARK=$tmp timeout -k 5 120 "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" \
        srun --ddp=on "$@" "$top_builddir/train" --model tiny --data $text --steps 1000000 --log-every 1 \
        >"$tmp/out" 2>"$tmp/err" </dev/null &
    local job=$!
    until_true 60 grep -qs 'step 3/' "$tmp/out" || diag "training did not start: $(cat "$tmp/err")"
    start=$(date +%s%3N)
    pid=$(training "$tmp" "$victim")
    kill -9 "${pid:-$job}"
    rc=0
    wait $job || rc=$?
    took_ms=$(($(date +%s%3N) - start))
    said=$(cat "$tmp/err")
}

for case in "2 -N4 --ntasks-per-node=1" "0 -N4 --ntasks-per-node=1" "1 -N2 --ntasks-per-node=2"; do
    # shellcheck disable=SC2086
    kill_one $case
    ok "rank $case: the step fails (exit code $rc)" [ "$rc" -ne 0 ]
    # Slurm kills the others some 60 ms after the death: on a busy machine not all of them get to say it.
    is "rank $case: others say who died, and all name it" \
        "$(grep -oE 'train: rank [0-9]: rank [0-9] \([^)]*\) died' <<<"$said" | cut -d' ' -f5 | sort -u)" "${case%% *}"
    ok "rank $case: the step has ended within five seconds ($took_ms ms)" [ "$took_ms" -lt 5000 ]
    ok "rank $case: no process is left" until_true 10 nobody_trains
    ok "rank $case: no node is drained" until_true 30 all_idle
done
ok "nothing of ours is in /dev/shm" sh -c '! ls /dev/shm | grep -i ddp'
done_testing

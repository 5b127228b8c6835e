#!/bin/bash
# A rank that is killed: every other rank ends within a second and says which one died; nothing is left.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/training.sh"
text=/usr/share/common-licenses/GPL-3

# kill_one LAYOUT RANK: sets $rc, $err, $took_ms
kill_one() {
    local n=0 k mark="$tmp/$1-$2" pid start
    for k in ${1//,/ }; do n=$((n + k)); done
    rm -f "$tmp/out"
    DDP_TEST_MARK=$mark timeout -k 5 120 "$top_builddir/ddp" run -n $n --layout "$1" \
        "$top_builddir/train" --model tiny --data "$text" --steps 1000000 --log-every 1 \
        >"$tmp/out" 2>"$tmp/err" </dev/null &
    local launcher=$!
    until_true 60 grep -qs 'step 3/' "$tmp/out" || diag "training did not start: $(cat "$tmp/err")"
    pid=$(training "$mark" "$2")
    start=$(date +%s%3N)
    kill -9 "${pid:-$launcher}"
    rc=0
    wait $launcher || rc=$?
    took_ms=$(($(date +%s%3N) - start))
    err=$(cat "$tmp/err")
    left=$(training "$mark" | wc -l)
}

for layout in 4 2,2 2,1,1; do
    for victim in 0 1 3; do
        kill_one $layout $victim
        is "nodes of $layout, rank $victim killed: exit code" "$rc" 137
        is "nodes of $layout, rank $victim killed: the three others name it" \
            "$(grep -c "rank $victim ([^)]*) died" <<<"$err")" 3
        ok "nodes of $layout, rank $victim killed: all ended within five seconds ($took_ms ms)" [ "$took_ms" -lt 5000 ]
        is "nodes of $layout, rank $victim killed: nothing is left" "$left" 0
    done
done
ok "nothing of ours is in /dev/shm" sh -c '! ls /dev/shm | grep -i ddp'
done_testing

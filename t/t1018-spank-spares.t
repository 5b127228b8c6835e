#!/bin/bash
# Steps that outlive their nodes (--ddp=on,restarts=R,spares=K,min_nodes=M) under a real Slurm: a spare takes a lost
# node's place, rank 0's, too; without one the others go on; ./train ends with the result of an undisturbed run.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
cluster_need
ip netns list >"$tmp/netns.out" 2>&1 || skip_all "needs network namespaces (iproute2)"
chmod 755 "$tmp"
mkdir -m 777 "$tmp/out"

# Slurm takes a node for dead after a while of silence, and only then does srun not wait for its tasks any more.
cluster_up 6 --netns --conf SlurmdTimeout=5
export NAP=600.$$$RANDOM # what programs sleep, by which they are found
lines() { grep '^ddp: ' "$tmp/$1"; } # FILE
has() { # N: the run has a checkpoint of step N or later
    [ "$(ls "$tmp/out/ckpt" 2>/dev/null | sed -n 's/^step-0*//p' | sort -n | tail -n 1)0" -ge "${1}0" ]
}
begin() { # NAME NODES TASKS OPTIONS COMMAND...: a step in the background, whose output goes to NAME.out and NAME.err
    local name=$1 where=(-w "$2" --ntasks-per-node="$3") keys=$4
    shift 4
    timeout -k 5 120 "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" srun --ddp=on,"$keys" "${where[@]}" \
        "$@" >"$tmp/$name.out" 2>"$tmp/$name.err" &
}
said() { lines "$1.err" | grep -q "$2"; } # NAME TEXT
hash_of() { grep -oE 'hash.*' "$1" | tail -n 1; }
train=("$top_builddir/train" --data /usr/share/common-licenses --layers 1 --width 32 --heads 2 --context 32 --batch 2
    --steps 6000 --val-windows 4 --log-every 100 --print-hash --ckpt "$tmp/out/ckpt" --ckpt-every 50)

# ---- training: a spare takes the place of a node, then of rank 0's ----
cluster_run srun --ddp=on -w n1,n2 --ntasks-per-node=1 "${train[@]}"
want=$(grep -oE 'hash.*' <<<"$out" | tail -n 1)
rm -r "$tmp/out/ckpt"
mkdir "$tmp/bin" # which tasks ask Slurm to end the step, and with it themselves
cat >"$tmp/bin/scancel" <<SCANCEL
#!/bin/sh
echo "\${SLURM_PROCID-srun}" >>"$tmp/out/asked"
exec "$(command -v scancel)" "\$@"
SCANCEL
chmod -R 755 "$tmp/bin"
PATH="$tmp/bin:$PATH" begin train n1,n2,n3,n4 1 restarts=5,spares=2 --export=ALL,DDP_RECORD="$tmp/out/train.record" \
    "${train[@]}"
trained=$!
until_true 30 has 200
cluster_die n2
until_true 30 said train 'n3 takes'
until_true 30 has 1500
cluster_die n1
ok "./train goes on without two nodes, rank 0's among them" until_true 90 grep -q 'hash' "$tmp/train.out"
is "... to the result of an undisturbed run" "$(hash_of "$tmp/train.out")" "$want"
is "... from what was saved" "$(grep -c '^resumed from ' "$tmp/train.out")" 2
is "... who left and who came is said" "$(lines train.err | grep takes)" \
    "ddp: restart 1 of 5: n3 takes the place of n2: 2 nodes, 2 ranks
ddp: restart 2 of 5: n4 takes the place of n1: 2 nodes, 2 ranks"
is "... and that they died, once" "$(lines train.err | grep -c '^ddp: node n[12] (rank [01]) has gone: ')" 2

# ---- a node on which a rank dies again and again ----
# shellcheck disable=SC2016
cluster_run srun --ddp=on,restarts=9,spares=1 -w n5,n6 --ntasks-per-node=1 \
    --export=ALL,DDP_RECORD="$tmp/out/record" bash -c '[ $SLURMD_NODENAME != n5 ] || exit 4'
is "it gives way to a spare: exit code" "$rc" 0
is "... and lines" "$(grep '^ddp: ' "$tmp/run.err" | grep -v goodput | sed 's/after [0-9]* s/after T s/')" \
    "$(printf 'ddp: rank 0 (n5) exited with code 4 after T s: restart %d of 9\n' 1 2 3)
ddp: restart 3 of 9: n6 takes the place of n5: 1 node, 1 rank"
is "... its record counts ranks without the spare's" "$(grep -o '"ranks": [0-9]*' "$tmp/out/record" | xargs)" \
    "ranks: 1 ranks: 1 ranks: 1 ranks: 1"
run "$top_builddir/ddp" report "$tmp/out/record"
is "... and is read, with more nodes than ranks" "$rc" 0 || diag "$err"

# ---- refused, and a warning ----
cluster_run srun --ddp=on,restarts=1,spares=1 -w n5,n6 -n3 touch "$tmp/out/ran"
like "uneven tasks, refused by all" "$rc$(find "$tmp/out" -name ran) $err" '^1 .*--distribution=block'
is "... in one line" "$(grep -c 'spares and min_nodes need' <<<"$err")" 1 || diag "$err"
cluster_run srun --ddp=on,restarts=1,spares=2 -w n5,n6 --ntasks-per-node=2 true
is "no node for the programs: one line" "$rc $(lines run.err)" \
    "1 ddp: n5: spares=2 of 2 nodes would leave none for the programs: start the step on more nodes"
printf '%s\n' n4 n6 n5 >"$tmp/hosts"
SLURM_HOSTFILE=$tmp/hosts cluster_run srun --ddp=on,restarts=1,spares=1 -m arbitrary -n3 touch "$tmp/out/ran"
like "... and nodes in another order than their ranks" "$rc$(find "$tmp/out" -name ran) $err" \
    '^1 .*--distribution=block'
MASTER_ADDR=n5 cluster_run srun --ddp=on,restarts=1,min_nodes=1 -w n5,n6 --ntasks-per-node=1 true
like "a warning: MASTER_ADDR" "$rc $(lines run.err)" '^0 ddp: warning: MASTER_ADDR is set, and stays as it is '

# ---- any program, while srun waits for those two nodes ----
# shellcheck disable=SC2016
show='[ $SLURMD_NODENAME != n4 ] || trap "" TERM # so that SIGKILL ends it
    pgrep -fx "sleep $NAP$((DDP_RESTART - 1))" >>"$0/before"
    echo $DDP_RESTART $SLURMD_NODENAME $RANK $WORLD_SIZE $NODE_RANK $GROUP_RANK $LOCAL_RANK $MASTER_ADDR \
    >"$0/$SLURM_PROCID.$DDP_RESTART"; exec sleep $NAP$DDP_RESTART'
runs() { [ "$(cat "$tmp"/out/*."$1" 2>/dev/null | wc -l)" -eq "$2" ]; } # GENERATION PROGRAMS
shown() { sort -k3n "$tmp"/out/*."$1" | cut -d" " -f2-; }
naps() { pgrep -fx "sleep $NAP[0-9]" | grep -cxFf <(cluster_pids "$1"); }
none() { [ "$(naps "$1")" -eq 0 ]; }
begin nap n3,n4,n5,n6 2 restarts=5,spares=1,min_nodes=2 --export=ALL,DDP_RECORD="$tmp/out/nap.record" \
    bash -c "$show" "$tmp/out"
disown # srun does not end by itself
until_true 30 runs 0 6
is "the spare waits" "$(shown 0 | cut -d" " -f1-3 | xargs) $(naps n6)" "n3 0 6 n3 1 6 n4 2 6 n4 3 6 n5 4 6 n5 5 6 0"
cluster_exec n4 ip link set eth0 down
until_true 30 runs 1 6
is "a node is silent: the spare has its ranks" "$(shown 1)" "n3 0 6 0 0 0 n3
n3 1 6 0 0 1 n3
n6 2 6 1 1 0 n3
n6 3 6 1 1 1 n3
n5 4 6 2 2 0 n3
n5 5 6 2 2 1 n3"
until_true 10 said nap 'n6 takes'
like "... and it is named" "$(lines nap.err)" '^ddp: node n4 \(rank 2\) has been silent for 3 s to node n.: .* 1 of 5
ddp: restart 1 of 5: n6 takes the place of n4: 3 nodes, 6 ranks$'
is "... where it still ran, its programs ended first" "$(naps n4) $(cat "$tmp/out/before")" "0 "
cluster_die n3
until_true 30 runs 2 4
is "rank 0's node is lost and no spare is left: the others move up" "$(shown 2)" "n6 0 4 0 0 0 n6
n6 1 4 0 0 1 n6
n5 2 4 1 1 0 n6
n5 3 4 1 1 1 n6"
ok "... which is said" until_true 10 said nap 'restart 2 of 5: it goes on without n3: 2 nodes, 4 ranks'
cluster_die n6
ok "too few are left: the programs end" until_true 30 none n5
until_true 10 said nap 'no restart'
like "... for which there is a reason" "$(lines nap.err | tail -n 2)" '^ddp: node n6 \(rank [01]\) has gone: [^:]*
ddp: no restart from n5: it reaches 1 of 2 nodes only, and the others may be running$'
is "... and each loss is said once" "$(lines nap.err | grep -cE '^ddp: node n[0-9]+ ')" 3
is "... in the record, too, once" "$(grep -c '"event": "failure"' "$tmp/out/nap.record")" 3
is "no program ever ran beside those before" "$(cat "$tmp/out/before")" ""
wait $trained
is "where programs have ended well on the nodes that are left, so has the step" $? 0 || diag "$(cat "$tmp/train.err")"
is "... whose record is whole, and no task has asked Slurm to end it" \
    "$(grep -c '"event": "end".*"by": "guard"' "$tmp/out/train.record") $(cat "$tmp/out/asked" 2>"$tmp/cat")" "1 "

for wrong in 'spares=1' 'restarts=1,spares=1' 'restarts=1,min_nodes=2'; do
    cluster_run srun --ddp=on,"$wrong" -w n5 -n1 true
    like "refused: $wrong" "$rc $err" '^[1-9][0-9]* .*(add restarts=N|would leave none|has 1 nodes only)'
done
done_testing

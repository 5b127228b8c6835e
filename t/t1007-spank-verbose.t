#!/bin/bash
# A verbose step prints one table per class of nodes before its programs start, and no failure of that costs more.
source "$(dirname "$0")/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
# The plugin's ports, so that a rule can shut a node out from them, and not from srun's own or the daemons', which are
# below 20000.
first=$((20000 + RANDOM % 12000))
echo "{ \"srun_port_min\": $first, \"srun_port_max\": $((first + 99)) }" >"$tmp/site.json"
chmod 644 "$tmp/site.json"
# Only the backfill scheduler starts heterogeneous jobs; by default it looks twice a minute.
# --no-affinity: which CPUs a job gets depends on what the one before still holds, and with them the table.
cluster_up 4 --cpus 4 --no-affinity --netns --site "$tmp/site.json" --conf SchedulerParameters=bf_interval=1
silent='have not told|has not told'

heads() { grep -oE '^ddp: [^ ]*[0-9]\]?:' | sort -u | xargs; } # whose tables these are, in order of name
both() { # srun's words and its tasks' in the order in which they came: $out
    cluster_run sh -c '"$@" 2>&1' sh "$@"
    out=$(steady <<<"$out")
}

both srun --ddp=on,verbose -N4 -n4 sh -c 'echo "rank $SLURM_PROCID speaks"'
is "four nodes: one table" "$(heads <<<"$out")" "ddp: n[1-4]:"
is "... once" "$(grep -c '^ddp: n' <<<"$out")" 1
is "... rc" "$rc" 0
like "... before any rank speaks" "$out" '^ddp: n\[1-4\]:.*rank . speaks.*rank . speaks.*rank . speaks.*rank . speaks$'
both srun --ddp=on,verbose -N4 --ntasks-per-node=4 sh -c 'echo "rank $SLURM_PROCID speaks"'
like "four ranks on each: none speaks before" "$(head -n 1 <<<"$out") $(grep -c speaks <<<"$out") $(
    sed -n '/speaks/,$p' <<<"$out" | grep -vc speaks)" '^ddp: n\[1-4\]:.* 16 0$'
cluster_run srun --ddp=on,verbose -N3 -n4 -m block true
is "a node with more ranks: two tables" "$(grep -oE '^ddp: n[^ ]*:' <<<"$err" | xargs)" "ddp: n[2-3]: ddp: n1:"
# Without PMIx: one in forty such steps of Slurm 22.05 does not end with it, with and without the plugin.
cluster_run srun --ddp=on,verbose,mpi=none -w n4 -n1 true : -w n1,n2 -n3 -m block true
is "heterogeneous: one fold" "$(grep -oE '^ddp: n[^ ]*:' <<<"$err" | xargs)" "ddp: n[2,4]: ddp: n1:"
cluster_run srun --export=NONE --ddp=on,verbose -N4 -n4 /bin/true
is "--export=NONE: one table" "$(heads <<<"$err")" "ddp: n[1-4]:"
cluster_run srun --ddp=on -N2 -n2 /bin/sh -c 'echo ${SLURM_DDP_GATHER-none}'
is "without verbose: none" "$err" ""
is "... and no port" "$(sort -u <<<"$out")" none
cluster_run srun --ddp=on,verbose -n1 /bin/sh -c \
    'srun --overlap --ddp=on -n1 /bin/sh -c "echo \${SLURM_DDP_GATHER-none}"'
is "an inner srun does not have the outer one's" "$out" none

# In a batch script: one after another, and at once.
cat >"$tmp/batch" <<JOB
#!/bin/sh
#SBATCH -N4 -n4 --ddp=on,verbose
export SLURM_CPU_BIND=none
srun -N4 -n4 true 2>\$1.1
srun -N2 -n2 -w n2,n3 true 2>\$1.2
srun --overlap -N4 -n4 true 2>\$1.3 &
srun --overlap -N3 -n3 -w n1,n2,n4 true 2>\$1.4
wait
JOB
cluster_run sbatch --wait -o "$cluster_dir/home/out" "$tmp/batch" "$cluster_dir/home/err"
is "sbatch: rc" "$rc" 0
is "... an inner srun" "$(heads <"$cluster_dir/home/err.1")" "ddp: n[1-4]:"
is "... the next" "$(heads <"$cluster_dir/home/err.2")" "ddp: n[2-3]:"
is "... two at once: one" "$(heads <"$cluster_dir/home/err.3")" "ddp: n[1-4]:"
is "... and the other" "$(heads <"$cluster_dir/home/err.4")" "ddp: n[1-2,4]:"

# A node from which srun cannot be reached.
cluster_exec n3 ip rule add ipproto 6 dport "$first-$((first + 99))" prohibit
cluster_run srun --ddp=on,verbose -N4 -n4 true
is "a node that is shut out: rc" "$rc" 0
is "... prints its own table" "$(grep -vE "$silent" <<<"$err" | heads)" "ddp: n3: ddp: n[1-2,4]:"
is "... is missed" "$(grep -E "$silent" <<<"$err" | heads)" "ddp: n3:"
ok "... and the node's log says why" grep -q "srun cannot be reached at" "$cluster_dir/log/slurmd.n3"
cluster_run srun --ddp=on,verbose -w n3 -n1 true
is "... alone" "$rc $(heads <<<"$err")" "0 ddp: n3:"

# Interrupted while three nodes wait for the fourth.
"$top_srcdir/contrib/cluster" run --dir "$cluster_dir" srun --ddp=on,verbose -N4 -n4 sleep 1000 2>"$tmp/int.err" &
srun=$!
until_true 30 grep -q '^ddp: n3' "$tmp/int.err"
# srun asks for the second within a second of the first, which a busy machine may miss: so again and again. It then
# waits for the step's end, of which n3 cannot tell it.
interrupted() {
    kill -INT $srun
    [ ! -e "/proc/$srun/exe" ]
}
ok "Ctrl-C twice ends srun" until_true 90 interrupted
kill -KILL $srun 2>"$tmp/kill.err" || :
rc=0
wait $srun || rc=$?
ok "... as a failure" test "$rc" -ne 0
cluster_exec n3 ip rule del ipproto 6 dport "$first-$((first + 99))" prohibit

cluster_run srun --ddp=on,verbose -N4 -n4 true
is "all is well again" "$(heads <<<"$err")" "ddp: n[1-4]:"
cluster_run sinfo -h -N -t drain,down,fail -o "%N %T"
is "no node is the worse for it" "$rc$out" 0
done_testing

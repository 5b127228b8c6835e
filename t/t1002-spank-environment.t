#!/bin/bash
# The variables of each task, in every kind of step.
source "$(dirname "$0")/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
# Only the backfill scheduler starts heterogeneous jobs; by default it looks twice a minute.
cluster_up 4 --cpus 4 --conf SchedulerParameters=bf_interval=1

# One line per task: its variables beside what Slurm says.
cat >"$tmp/show" <<'SHOW'
#!/bin/sh
echo "$RANK/$WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE node $NODE_RANK,$GROUP_RANK on $SLURMD_NODENAME" \
    "master $MASTER_ADDR"
SHOW
cat >"$tmp/port" <<'PORT'
#!/bin/sh
echo "$MASTER_ADDR:$MASTER_PORT"
PORT
chmod 755 "$tmp/show" "$tmp/port"
lines() { sort -n <<<"$out"; }

cluster_run srun --ddp=on -N4 -n4 "$tmp/show"
is "4 nodes x 1" "$(lines)" "0/4 local 0/1 node 0,0 on n1 master n1
1/4 local 0/1 node 1,1 on n2 master n1
2/4 local 0/1 node 2,2 on n3 master n1
3/4 local 0/1 node 3,3 on n4 master n1"
is "... with no word to the user" "$err" ""
cluster_run srun --ddp=on -N2 -n4 --ntasks-per-node=2 -w n2,n3 "$tmp/show"
is "2 nodes x 2, not the first ones" "$(lines)" "0/4 local 0/2 node 0,0 on n2 master n2
1/4 local 1/2 node 0,0 on n2 master n2
2/4 local 0/2 node 1,1 on n3 master n2
3/4 local 1/2 node 1,1 on n3 master n2"
cluster_run srun --ddp=on -N2 -n3 -m block "$tmp/show"
is "uneven" "$(lines)" "0/3 local 0/2 node 0,0 on n1 master n1
1/3 local 1/2 node 0,0 on n1 master n1
2/3 local 0/1 node 1,1 on n2 master n1"
cluster_run srun --ddp=on -N2 -n4 -m cyclic --ntasks-per-node=2 "$tmp/show"
is "cyclic" "$(lines)" "0/4 local 0/2 node 0,0 on n1 master n1
1/4 local 0/2 node 1,1 on n2 master n1
2/4 local 1/2 node 0,0 on n1 master n1
3/4 local 1/2 node 1,1 on n2 master n1"
cluster_run salloc -N2 -n2 srun -E -N1 -n1 --ddp=on "$tmp/show"
is "smaller than its job, whose variables srun preserves" "$out" "0/1 local 0/1 node 0,0 on n1 master n1"
cluster_run srun --ddp=on -N1 -n6 -O "$tmp/show"
is "overcommit" "$(lines | head -n 1) $(lines | wc -l)" "0/6 local 0/6 node 0,0 on n1 master n1 6"

# Heterogeneous: the first component's node leads although its name comes last. Without PMIx: one in forty
# such steps of Slurm 22.05 does not end with it, with and without the plugin.
cluster_run srun --ddp=on,mpi=none -w n4 -n1 "$tmp/show" : -w n1,n2 -n3 -m block "$tmp/show"
is "heterogeneous" "$(lines)" "0/4 local 0/1 node 0,0 on n4 master n4
1/4 local 0/2 node 1,1 on n1 master n4
2/4 local 1/2 node 1,1 on n1 master n4
3/4 local 0/1 node 2,2 on n2 master n4"
cluster_run srun --ddp=on,mpi=none -w n4 -n1 "$tmp/port" : -w n1,n2 -n3 "$tmp/port"
is "... with one meeting point" "$(sort -u <<<"$out" | wc -l)" 1
cat >"$tmp/het" <<JOB
#!/bin/sh
#SBATCH -w n4 -n1 --ddp=on,mpi=none
#SBATCH hetjob
#SBATCH -w n1,n2 -n3 --ddp=on,mpi=none
export SLURM_CPU_BIND=none
srun --het-group=0,1 $tmp/show | sort -n
srun --het-group=1 $tmp/show | sort -n
JOB
cluster_run sbatch --wait -o "$cluster_dir/home/het.out" "$tmp/het"
is "heterogeneous job" "$(steady "$cluster_dir/home/het.out")" "0/4 local 0/1 node 0,0 on n4 master n4
1/4 local 0/2 node 1,1 on n1 master n4
2/4 local 1/2 node 1,1 on n1 master n4
3/4 local 0/1 node 2,2 on n2 master n4
0/3 local 0/2 node 0,0 on n1 master n1
1/3 local 1/2 node 0,0 on n1 master n1
2/3 local 0/1 node 1,1 on n2 master n1"

# Inner sruns: of a batch script, at once, and of a task of ours, whose variables are not the user's.
cat >"$tmp/inner" <<JOB
#!/bin/sh
#SBATCH -N2 -n2 --ddp=on
# Slurm drops it in a batch job; and a mask that a task is given need not fit the node of its own srun.
export SLURM_CPU_BIND=none
srun $tmp/show | sort -n
srun -N1 -n1 -w n2 $tmp/show
srun -N1 -n1 -w n2 --ddp=on /bin/sh -c '$tmp/show; SLURM_CPU_BIND=none srun --overlap -N1 -n1 -w n1 --ddp=on $tmp/show'
srun -N2 -n2 $tmp/port | sort -u
srun -N2 -n2 $tmp/port | sort -u
JOB
cluster_run sbatch --wait -o "$cluster_dir/home/inner.out" "$tmp/inner"
is "inner sruns" "$(steady "$cluster_dir/home/inner.out" | head -n 5)" "0/2 local 0/1 node 0,0 on n1 master n1
1/2 local 0/1 node 1,1 on n2 master n1
0/1 local 0/1 node 0,0 on n2 master n2
0/1 local 0/1 node 0,0 on n2 master n2
0/1 local 0/1 node 0,0 on n1 master n1"
is "... each step with a port of its own" "$(steady "$cluster_dir/home/inner.out" | sed 1,5d | sort -u | wc -l)" 2
cat >"$tmp/nested" <<'NEST'
#!/bin/sh
show='echo $1 rank=${RANK-none} mpi=${SLURM_MPI_TYPE-none} kill=${SLURM_KILL_BAD_EXIT-none} own=${OWN-none}\
    option=${DDP_OPTION-none} pmi=${PMIX_NAMESPACE-none},${PMI_RANK-none}'
srun --overlap -n1 sh -c "$show" x plain
srun --overlap -n1 --ddp=off sh -c "$show" x off
srun --overlap -n1 --ddp=on,mpi=none sh -c "$show" x none
srun --overlap -n1 --export=NONE /bin/sh -c "$show" x bare
NEST
chmod 755 "$tmp/nested"
OWN=1 cluster_run srun --ddp=on -n1 "$tmp/nested"
want="plain rank=none mpi=none kill=none own=1 option=none pmi=none,none
off rank=none mpi=none kill=none own=1 option=none pmi=none,none
none rank=0 mpi=none kill=1 own=1 option=on,mpi=none pmi=none,none
bare rank=none mpi=none kill=none own=none option=none pmi=none,none"
is "a task's own sruns start from the user's environment" "$out" "$want"
OWN=1 cluster_run srun --ddp=on,mpi=pmi2 -n1 "$tmp/nested"
is "... also below PMI" "$out" "$want"
printf '#!/bin/sh\necho "rank=${RANK-none} mpi=${SLURM_MPI_TYPE-none} kill=${SLURM_KILL_BAD_EXIT-none}"\n' >"$tmp/orted"
chmod 755 "$tmp/orted"
cluster_run sbatch --wait -n1 --ddp=on -o "$cluster_dir/home/mpirun" --wrap "srun -n1 $tmp/orted -mca ess slurm"
is "a daemon that mpirun starts is left alone" "$(steady "$cluster_dir/home/mpirun")" "rank=none mpi=none kill=none"
cluster_run sbatch --wait --array=1-2 -n1 --ddp=on -o "$cluster_dir/home/array.%a" --wrap "srun $tmp/port"
is "array tasks meet apart" "$(steady "$cluster_dir"/home/array.[12] | sort -u | wc -l)" 2

# The user's own.
RANK=5 cluster_run srun --ddp=on -N2 -n2 /bin/sh -c 'echo $RANK $WORLD_SIZE'
is "the user's RANK stays" "$(sort -u <<<"$out")" "5 2"
is "... with one warning" "$err" \
    "ddp: warning: your RANK=5 stays, but the tasks of this step need 2 different ones: unset RANK"
MASTER_ADDR=n1 MASTER_PORT=29876 OMP_NUM_THREADS=1 WORLD_SIZE=2 \
    cluster_run srun --ddp=on -N2 -n2 /bin/sh -c 'echo $MASTER_ADDR:$MASTER_PORT $OMP_NUM_THREADS $WORLD_SIZE'
is "values that agree stay" "$(sort -u <<<"$out")" "n1:29876 1 2"
is "... without a word" "$err" ""

# Ports.
cluster_run srun --ddp=on,resv_ports -N2 -n2 /bin/sh -c 'echo $((MASTER_PORT - ${SLURM_STEP_RESV_PORTS%%[-,]*}))'
is "resv_ports: the first that Slurm reserved" "$(sort -u <<<"$out")" 0
cluster_run srun --ddp=on --resv-ports=2 -N2 -n2 /bin/sh -c 'echo $((MASTER_PORT - ${SLURM_STEP_RESV_PORTS%%[-,]*}))'
is "--resv-ports: the same" "$(sort -u <<<"$out")" 0
SLURM_RESV_PORTS=0 cluster_run srun --ddp=on --resv-ports=2 -N2 -n2 /bin/sh -c \
    'echo $((MASTER_PORT - ${SLURM_STEP_RESV_PORTS%%[-,]*}))'
is "... whatever the environment says" "$(sort -u <<<"$out")" 0
both='srun --ddp=on -n1 sh -c "echo \$(((MASTER_PORT + 10000 - SLURM_DDP_DRAW * 16 % 10000) % 10000))"'
SLURM_RESTART_COUNT=1 cluster_run salloc -n1 sh -c "$both; unset SLURM_RESTART_COUNT; $both"
read -rd '' restarted next <<<"$out" || true
is "a restarted step moves by half the range, beside what srun draws" "$(((restarted + 1 - next + 10000) % 10000))" 5001
read -r low high </proc/sys/net/ipv4/ip_local_port_range
cluster_run srun --ddp=on -n1 /bin/sh -c 'echo $MASTER_PORT'
ok "else from 20000 to 29999" test "$out" -ge 20000 -a "$out" -le 29999
if [ "$low" -gt 29999 ] || [ "$high" -lt 20000 ]; then
    is "... and no warning where that is outside the ephemeral range" "$err" ""
else
    like "... with a warning where that is inside the ephemeral range" "$err" port_min
fi

# Rank 0 elsewhere than on the first node.
printf 'n2\nn1\n' >"$cluster_dir/home/hosts"
chmod 644 "$cluster_dir/home/hosts"
SLURM_HOSTFILE=$cluster_dir/home/hosts cluster_run srun --ddp=on -m arbitrary -n2 "$tmp/show"
is "rank 0 not on the first node: its node is the first" "$rc $(lines)" "0 0/2 local 0/1 node 0,0 on n2 master n2
1/2 local 0/1 node 1,1 on n1 master n2"
printf 'n3\nn1\nn3\nn2\n' >"$cluster_dir/home/hosts"
cat >"$tmp/inner.sh" <<SCRIPT
srun --ddp=on -m arbitrary -n4 "$tmp/show"
unset SLURM_HOSTFILE
srun --ddp=on -N2 -n2 -w n1,n2 "$tmp/show"
SCRIPT
SLURM_HOSTFILE=$cluster_dir/home/hosts cluster_run srun --ddp=on -m arbitrary -n4 "$tmp/show"
is "... of three, with two ranks on it" "$rc $(lines)" "0 0/4 local 0/2 node 0,0 on n3 master n3
1/4 local 0/1 node 1,1 on n1 master n3
2/4 local 1/2 node 0,0 on n3 master n3
3/4 local 0/1 node 2,2 on n2 master n3"
SLURM_HOSTFILE=$cluster_dir/home/hosts cluster_run salloc -N3 -n4 -w n1,n2,n3 bash "$tmp/inner.sh"
like "... in a job, whose next step begins elsewhere" "$rc $out" "^0 .*0/4 local 0/2 node 0,0 on n3 master n3.*\
0/2 local 0/1 node 0,0 on n1 master n1"
SLURM_HOSTFILE=$cluster_dir/home/hosts cluster_run srun --ddp=verbose -m arbitrary -n4 true
like "... and verbose shows it" "$err" $'ddp: n3:\n.*\n +note: the step.s rank 0 is on this node, '
SLURM_DDP_FIRST_NODE=n2 cluster_run srun --ddp=on -w n1,n2 -n2 "$tmp/show"
is "... and nobody but srun says where rank 0 is" "$rc $(lines)" "0 0/2 local 0/1 node 0,0 on n1 master n1
1/2 local 0/1 node 1,1 on n2 master n1"
cluster_run srun --ddp=on -m plane=2 -N2 -n6 "$tmp/show"
is "plane" "$rc $(lines | sed -n '1p;3p;5p')" "0 0/6 local 0/4 node 0,0 on n1 master n1
2/6 local 0/2 node 1,1 on n2 master n1
4/6 local 2/4 node 0,0 on n1 master n1"

cluster_run srun --ddp=verbose -N2 -n2 true
like "verbose shows every node's ranks" "$err" $'ddp: n\\[1-2\\]:\n *rank .*CPUs .*\n *0 '
cluster_run sinfo -h -N -t drain,down,fail -o "%N %T"
is "no node is the worse for it" "$out" ""
done_testing

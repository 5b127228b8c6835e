#!/bin/bash
# bind=auto on real CPUs: equal, separate shares of what Slurm gave; another's decision stays.
source "$(dirname "$0")/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
# Without autobinding, which differs between versions, Slurm binds to sockets: two tasks share what the step has. The
# node says that it has more CPUs than a step takes, which are then 0 and 1, and these the machine has.
[ "$(nproc)" -ge 2 ] && grep -Eq '^Cpus_allowed_list:.0[-,]1' /proc/self/status || skip_all "needs CPUs 0 and 1"
# slurmstepd locks all memory that it maps, of which a user may lock little: the ranks meet in it all the same. Not
# where Slurm's own steps hang by that, as those of 26.05 do.
locked=(--conf LaunchParameters=slurmstepd_memlock_all)
if [[ $(slurmctld -V) = *' 26.'* ]]; then locked=(); else ulimit -l 1024; fi
cluster_up 1 --cpus "$((2 * $(nproc)))" --conf TaskPluginParam=Sockets "${locked[@]}"
want=2
if grep -Eq '^0[-,]1$' /sys/devices/system/cpu/cpu0/topology/thread_siblings_list; then want=1; fi # one core's threads

mask='grep Cpus_allowed_list /proc/self/status | tr -d "[:blank:]"'
bound() { cluster_run env -u SLURM_CPU_BIND srun -n2 "$@" /bin/sh -c "$mask"; }
n_masks() { sort -u <<<"$out" | wc -l; }

bound
is "without --ddp two tasks share a mask" "$(sort -u <<<"$out")" "Cpus_allowed_list:0-1"
bound --ddp=on,verbose
is "--ddp=on gives each its own" "$(n_masks)" "$want"
like "... within what they had" "$(sort -u <<<"$out" | tr '\n' ' ')" \
    '^Cpus_allowed_list:0(-1)? (Cpus_allowed_list:1 )?$'
like "... and verbose says why" "$err" "an equal share of the cores|more ranks than cores"
cluster_run env -u SLURM_CPU_BIND srun --ddp=on -n2 /bin/sh -c 'echo $OMP_NUM_THREADS'
is "... which OpenMP is told" "$(sort -u <<<"$out")" 1
bound --ddp=on,bind=none
is "bind=none leaves the mask" "$(sort -u <<<"$out")" "Cpus_allowed_list:0-1"
DDP_BIND=none bound --ddp=on
is "DDP_BIND=none as well" "$(sort -u <<<"$out")" "Cpus_allowed_list:0-1"
bound --ddp=on,verbose --cpu-bind=none
is "--cpu-bind=none stays" "$(n_masks)" 1
like "... and verbose says so" "$err" "--cpu-bind was given"
bound --ddp=on --cpu-bind=mask_cpu:0x3
is "--cpu-bind=mask_cpu stays" "$(sort -u <<<"$out")" "Cpus_allowed_list:0-1"
bound --ddp=on --cpu-bind=map_cpu:1,0
is "--cpu-bind=map_cpu stays" "$(sort <<<"$out" | tr '\n' ' ')" "Cpus_allowed_list:0 Cpus_allowed_list:1 "
bound --ddp=on,verbose --cpu-bind=verbose
is "--cpu-bind=verbose is no binding" "$(n_masks)" "$want"
cluster_run env -u SLURM_CPU_BIND srun --ddp=on -n2 -c2 --cpu-bind=mask_cpu:0x3 /bin/sh -c 'echo $OMP_NUM_THREADS'
is "ranks on the same CPUs share them out among their threads, whatever -c says" "$(sort -u <<<"$out")" 1

# Slurm tells a task its mask as if it were the user's --cpu-bind. Newer ones take its -c for each inner task, too.
within() {
    local inner="unset SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK; $1 srun --overlap -n2 --ddp=on,verbose sh -c '$mask'"
    cluster_run env -u SLURM_CPU_BIND srun -n1 -c2 sh -c "$inner"
}
within ""
is "a task's own srun gives each its own" "$(n_masks)" "$want"
unlike "... without --cpu-bind" "$err" "--cpu-bind was given"
within "SLURM_CPU_BIND=mask_cpu:0x3"
is "... and what the user exports there stays" "$(n_masks)" 1

cluster_run env -u SLURM_CPU_BIND srun --ddp=on -n7 -O /bin/sh -c 'echo $OMP_NUM_THREADS'
is "more ranks than cores: one thread each" "$(sort -u <<<"$out")" 1
is "... all start" "$(wc -l <<<"$out")" 7
cluster_run env -u SLURM_CPU_BIND srun --ddp=on -n1 -c2 /bin/sh -c "$mask; echo \$OMP_NUM_THREADS"
is "one rank keeps all that it has" "$(tr '\n' ' ' <<<"$out")" "Cpus_allowed_list:0-1 2 "
done_testing

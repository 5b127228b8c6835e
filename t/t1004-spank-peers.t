#!/bin/bash
# A program that reads only RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT meets all its peers, on hosts apart.
source "$(dirname "$0")/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
# Only the backfill scheduler starts heterogeneous jobs; by default it looks twice a minute.
cluster_up 4 --cpus 4 --netns --conf SchedulerParameters=bf_interval=1
peers=$top_builddir/t/lib/peers

met() { # N: what N ranks say that met
    local i
    for ((i = 0; i < $1; i++)); do echo "rank $i met $1"; done
}
for shape in "1 1" "4 4" "2 4" "3 5" "4 16"; do
    read -r nodes n <<<"$shape"
    cluster_run srun --ddp=on -N"$nodes" -n"$n" "$peers"
    is "$nodes nodes, $n ranks" "$(sort -n -k2 <<<"$out")" "$(met "$n")"
    is "... rc, no word" "$rc$err" 0
done
# Without PMIx: one in forty such steps of Slurm 22.05 does not end with it, with and without the plugin.
cluster_run srun --ddp=on,mpi=none -w n3 -n1 "$peers" : -w n1,n2 -n3 "$peers"
is "heterogeneous" "$(sort -n -k2 <<<"$out")" "$(met 4)"
cat >"$tmp/two" <<JOB
#!/bin/sh
#SBATCH -N2 -n4 --ddp=on
export SLURM_CPU_BIND=none
srun --overlap -n4 $peers | sort >\$1.a &
srun --overlap -n4 $peers | sort >\$1.b
wait
JOB
cluster_run sbatch --wait -o "$cluster_dir/home/out" "$tmp/two" "$cluster_dir/home/two"
is "two steps of a job at the same time: one" "$(cat "$cluster_dir/home/two.a")" "$(met 4)"
is "... and the other" "$(cat "$cluster_dir/home/two.b")" "$(met 4)"
done_testing

#!/bin/bash
# The table at the head of doc/user.md, the rows whose programs Debian has: PyTorch's DDP, one task a rank or mp.spawn
# in one task a node; MPI, under srun and by mpirun in a batch script. Two nodes with two ranks each, one job each
# time. (torchrun: t1015; the other rows: t9603.)
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/cluster.sh"
python=/usr/bin/python3
"$python" -c 'import torch' 2>/dev/null || skip_all "no PyTorch: Debian's package python3-torch"
command -v mpicc mpirun >/dev/null || skip_all "no MPI: Debian's packages openmpi-bin and libopenmpi-dev"
cluster_up 2 --cpus 4 --netns
# USE_LIBUV: Debian's PyTorch since 2.6 is built without.
export PYTHONDONTWRITEBYTECODE=1 USE_LIBUV=0 SLURM_CPU_BIND=none run_deadline=100
program=("$python" "$top_srcdir/t/lib/frameworks.py")
all_four=$(printf 'rank %d of 4 weight 1.5\n' 0 1 2 3)

cluster_run srun --ddp=on -N2 --ntasks-per-node=2 "${program[@]}" ddp
is "PyTorch's DDP: the mean gradient of all ranks" "$rc $(sort <<<"$out")" "0 $all_four" || diag "$err"
cluster_run srun --ddp=on -N2 --ntasks-per-node=1 "${program[@]}" spawn
is "mp.spawn in one task a node: likewise" "$rc $(sort <<<"$out")" "0 $all_four" || diag "$err"

cat >"$tmp/sum.c" <<'SUM'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d weight %g\n", rank, size, (double)sum / size);
    return MPI_Finalize();
}
SUM
mpicc -o "$tmp/sum" "$tmp/sum.c"
# A network namespace for each node: between them TCP, not the shared memory of the one kernel that UCX would find.
export OMPI_MCA_pml=ob1
if [[ $(cluster_mpi) = pmix* ]]; then
    cluster_run srun --ddp=on -N2 --ntasks-per-node=2 "$tmp/sum"
    is "MPI under srun: one world" "$rc $(sort <<<"$out")" "0 $all_four" || diag "$err"
else
    echo "ok $((tap_n += 1)) - MPI under srun: one world # SKIP this Slurm has no PMIx"
fi
cat >"$tmp/job" <<JOB
#!/bin/sh
#SBATCH --ddp=on -N2 --ntasks-per-node=2
mpirun $tmp/sum
JOB
cluster_run sbatch --wait -o "$cluster_dir/home/log" "$tmp/job"
is "mpirun in a batch script with --ddp=on: likewise" "$rc $(steady "$cluster_dir/home/log" | sort)" "0 $all_four" ||
    diag "$err"
done_testing

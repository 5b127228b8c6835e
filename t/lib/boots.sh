# boots.sh - what every boot under srun must do, whatever carries rank 0's card. After cluster.sh; $probe is bootprobe.
#
#   boots MPI        with srun --mpi=MPI, on a cluster of three nodes or more

boots() {
    cluster_run srun -K "--mpi=$1" -N2 -n4 --ntasks-per-node=2 "$probe"
    is "two nodes with two ranks each" "$rc $(sort <<<"$out")" "0 rank 0 of 4: node 0 of 2, local 0 of 2, host n1
rank 1 of 4: node 0 of 2, local 1 of 2, host n1
rank 2 of 4: node 1 of 2, local 0 of 2, host n2
rank 3 of 4: node 1 of 2, local 1 of 2, host n2"
    cluster_run srun -K "--mpi=$1" -N3 -n7 --distribution=cyclic "$probe"
    is "seven ranks, uneven and interleaved" "$rc $(wc -l <<<"$out") $err" "0 7 "
    like "... rank 1 is the first of the second node" "$out" "rank 1 of 7: node 1 of 3, local 0 of"
    cluster_run srun -K "--mpi=$1" -N1 -n3 "$probe"
    is "three ranks on one node" "$rc $(grep -c "node 0 of 1, local [012] of 3, host n1" <<<"$out")" "0 3"
    cluster_run srun -K "--mpi=$1" -N2 -n4 "$probe" --stall 1 --timeout 1
    like "the deadline of a fence holds" "$rc $err" "^[1-9].*deadline passed while waiting for rank 1"
    cluster_run srun -K "--mpi=$1" -N2 -n4 "$probe" --die 1 --timeout 20
    ok "a rank that dies ends the step" test "$rc" -ne 0 -a "$rc" -ne 124
}

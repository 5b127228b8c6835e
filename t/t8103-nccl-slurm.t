#!/bin/bash
# The NCCL communicator under a real srun: ids, real ones too, travel over a host communicator that PMIx wired up; a
# rank that dies.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/cluster.sh"
. "$(dirname "$0")/lib/nccl.sh"
unset DDP_BOOT DDP_BOOT_ADDR DDP_NODE
DDP_BOOT=pmix "$ncclprobe" >"$tmp/have.out" 2>&1
grep -q "lacks PMIx" "$tmp/have.out" && skip_all "this build lacks PMIx"
cluster_up 3

with_double() { # for the ranks alone: srun itself has no business with it
    cluster_run srun "$@"
    log=$(cat "$NCCLDOUBLE_LOG" 2>/dev/null)
    diag "$out"$'\n'"$err"
}
with_double -K --mpi=pmix -N2 -n4 --ntasks-per-node=2 "$ncclprobe"
is "two nodes with two ranks each: all operations" "$rc $(oks) $(grep -c 'init of 4' <<<"$log")" "0 4 4"
is "... one of them makes the id" "$(grep -c ' id$' <<<"$log")" 1
rm -f "$NCCLDOUBLE_LOG"
with_double -K --mpi=pmix -N3 -n7 --distribution=cyclic "$ncclprobe" --again
is "seven ranks, uneven and interleaved, and again" "$rc $(oks) $(grep -c 'init of 7' <<<"$log")" "0 7 14"

# Slurm ends the others some 60 ms after the death: not all of them may get to say it.
script "group progress 1"
with_double --mpi=pmix -N2 -n4 --ntasks-per-node=2 "$ncclprobe" --die-in-op 1
ok "a rank that dies: the step fails (exit code $rc)" [ "$rc" -ne 0 ]
is "... those that say why name it" "$(grep -oE 'told within .*' <<<"$out" | grep -vcE 's: rank 1 \(n[1-3]\) died')" 0
ok "... nobody is left" until_true 10 nobody_probes
script "init hang"
with_double -K --mpi=pmix -N2 -n4 --ntasks-per-node=2 "$ncclprobe" --timeout 1
is "a wire-up that never ends, on two nodes" "$rc $(told 'all ranks wait in the wire-up of NCCL, and nothing moves')" \
    "0 4"

# libnccl itself makes the ids, which needs no GPU. What comes after the ids does.
unset NCCLDOUBLE_LOG LD_LIBRARY_PATH
ids() { grep -oE 'ids [0-9a-f]{8}' <<<"$out" | sort | uniq -c | sed 's/^ *//'; }
run "$ncclprobe" --ids
if [[ $out != *ids* ]]; then
    ok "ids of a real libnccl # SKIP no NCCL: libnccl.so.2 cannot be opened" true
else
    cluster_run srun -K --mpi=pmix -N2 -n4 --ntasks-per-node=2 "$ncclprobe" --ids
    one=$(ids)
    like "the id of a real libnccl is with all ranks" "$rc $one" '^0 4 ids [0-9a-f]{8}$'
    cluster_run srun -K --mpi=pmix -N2 -n4 --ntasks-per-node=2 "$ncclprobe" --ids
    like "... another one the next time" "$rc $(ids)" '^0 4 ids [0-9a-f]{8}$'
    unlike "... really" "$(ids)" "$one"
    cluster_run srun -K --mpi=pmix -N2 -n4 --ntasks-per-node=2 "$ncclprobe" --ids --again
    like "... and two, of two communicators" "$rc $(ids)" '^0 4 ids [0-9a-f]{8}$'
fi
done_testing

#!/bin/bash
# The boot under a real srun: values and nodes through PMIx, ends, deadlines, refusals.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
source "$top_srcdir/t/lib/boots.sh"
probe=$top_builddir/t/lib/bootprobe
unset DDP_BOOT DDP_BOOT_ADDR DDP_NODE
DDP_BOOT=pmix "$probe" >"$tmp/have.out" 2>&1
grep -q "lacks PMIx" "$tmp/have.out" && skip_all "this build lacks PMIx"

cluster_up 3
[[ $(cluster_mpi) = pmix* ]] || skip_all "this Slurm has no PMIx"
boots pmix
DDP_INTERFACE=lo cluster_run srun -K --mpi=pmix -N2 -n4 "$probe"
is "an interface is named (the nodes of this cluster share a host)" \
    "$rc $(grep -c "of 4: node [01] of 2, " <<<"$out")" "0 4"
# Programs one after the other in the same tasks. Rank 0 starts each last: the others are told of the one before.
cat >"$tmp/again.sh" <<'SCRIPT'
for i in 1 2 3 4; do
    >"$2/$i.$PMIX_RANK"
    until [ "$PMIX_RANK" != 0 ] || [ "$(ls "$2" | grep -c "^$i")" = 4 ]; do read -rt 0.02 <> <(:); done
    "$1" --timeout 20 || exit
done
SCRIPT
mkdir -m 777 "$tmp/again"
cluster_run srun -K --mpi=pmix -N2 -n4 bash "$tmp/again.sh" "$probe" "$tmp/again"
is "four programs, one after the other" "$rc $(grep -c "of 4: node [01] of 2, " <<<"$out") $err" "0 16 "
cluster_run srun -K --mpi=none -N2 -n2 "$probe"
like "srun without PMIx is refused, with the cure" "$rc $err" "^[1-9][0-9]* .*SLURM_STEP_NUM_TASKS=2.*srun --ddp=on"
cluster_run srun -K --mpi=pmix -N1 -n2 env SLURM_STEP_NUM_TASKS=4 "$probe"
like "PMIx that counts other ranks than Slurm is refused" "$rc $err" \
    "^[1-9].*PMIx counts 2 ranks, but SLURM_STEP_NUM_TASKS=4: "
cluster_run salloc -n2 srun -E --mpi=pmix -n1 "$probe"
like "... but the job's tasks are not the step's" "$rc $out" "^0 rank 0 of 1: "

# The real library, whose daemon is stopped (as by a debugger, or where memory is short).
cat >"$tmp/stopped.sh" <<'SCRIPT'
echo $PPID >$1/stepd.new && mv $1/stepd.new $1/stepd
until [ -e $1/go ]; do read -rt 0.02 <> <(:); done
"$2" --timeout 0.5 >$1/stopped.out 2>$1/stopped.err
echo $? >$1/stopped.new && mv $1/stopped.new $1/stopped.rc
SCRIPT
mkdir -m 777 "$tmp/stopped"
cluster_run srun -K --mpi=pmix -N1 -n1 bash "$tmp/stopped.sh" "$tmp/stopped" "$probe" &
srun=$!
until_true 30 test -s "$tmp/stopped/stepd"
kill -STOP "$(<"$tmp/stopped/stepd")"
>"$tmp/stopped/go"
until_true 30 test -s "$tmp/stopped/stopped.rc"
kill -CONT "$(<"$tmp/stopped/stepd")"
wait $srun
like "a daemon that does not answer is named" \
    "$(<"$tmp/stopped/stopped.rc") $(wc -l <"$tmp/stopped/stopped.err") $(<"$tmp/stopped/stopped.err")" \
    "^1 1 bootprobe: PMIx_Init does not return within the deadline: .*slurmstepd"

# What a node without the library says.
cat >"$tmp/without.sh" <<'SCRIPT'
for dir in /usr/lib/*/pmix2; do mount -t tmpfs none "$dir"; done
exec "$1"
SCRIPT
run env DDP_BOOT=pmix unshare -m bash "$tmp/without.sh" "$probe"
like "a missing library is one line that names the package" "$rc $(wc -l <<<"$err") $err" \
    "^1 1 .*libpmix.so.2 .*libpmix2, or say --ddp=on,mpi=pmi2 \\(libpmix.so.2: cannot open shared object file"
cat >"$tmp/broken.sh" <<'SCRIPT'
for library in /usr/lib/*/pmix2/lib/libpmix.so.2; do mount --bind "$0" "$library"; done
exec "$1"
SCRIPT
run env DDP_BOOT=pmix unshare -m bash "$tmp/broken.sh" "$probe"
like "... one that cannot be loaded says why, too" "$rc $(wc -l <<<"$err") $err" \
    "^1 1 .*libpmix2, or say --ddp=on,mpi=pmi2 \\(.*libpmix.so.2: (invalid ELF header|file too short)"
done_testing

#!/bin/bash
# The boot under a real srun without PMIx: Slurm's own mpi/pmi2, which is in every build of it.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
source "$top_srcdir/t/lib/boots.sh"
probe=$top_builddir/t/lib/bootprobe
unset DDP_BOOT DDP_BOOT_ADDR DDP_NODE DDP_INTERFACE

cluster_up 4
boots pmi2
cluster_run srun -K --mpi=pmi2 --resv-ports=0 -N4 -n128 -O "$probe"
is "128 ranks on four nodes" "$rc $(sort -u <<<"$out" | wc -l) $err" "0 128 "

cat >"$tmp/late.sh" <<'SCRIPT'
if [ "$PMI_RANK" = 0 ]; then
    "$1" --timeout 1 >"$2/out" 2>&1
    echo "$? $(<"$2/out")" >"$2/new" && mv "$2/new" "$2/rank0"
fi
until [ -e "$2/rank0" ]; do read -rt 0.02 <> <(:); done
exit 0
SCRIPT
mkdir -m 777 "$tmp/late"
cluster_run srun --mpi=pmi2 -N2 -n2 bash "$tmp/late.sh" "$probe" "$tmp/late"
is "a rank that never asks is waited for until the deadline, no longer" "$rc $(<"$tmp/late/rank0")" \
    "0 1 bootprobe: boot: barrier_in: the launcher (PMI): no answer before the deadline"
# shellcheck disable=SC2016
cluster_run srun -K --mpi=pmi2 -N1 -n1 bash -c '"$1" && "$1"' - "$probe"
like "a second program in the same task is refused, with the cure" "$rc $out $err" \
    "^1 rank 0 of 1.*bootprobe: PMI serves one program of libddp a task .use --ddp=on,mpi=pmix "
# shellcheck disable=SC2016
cluster_run srun -K --mpi=pmi2 -N1 -n1 bash -c 'eval "exec $PMI_FD<&-"; exec "$1"' - "$probe"
like "a descriptor that was closed on the way is named" "$rc $err" \
    "^1 .*bootprobe: PMI_FD=[0-9]+ is no open socket: .*pmix"

# ---- which of both --ddp=on takes ----

[ -f "$top_builddir/.libs/ddp.so" ] || done_testing
# Others on the machine can read what ranks publish, and write it: it is worth nothing without the step's secret.
# shellcheck disable=SC2016
cluster_run srun --ddp=on,mpi=pmi2 -N2 -n2 bash -c 'echo "secret $SLURM_DDP_SECRET"; exec "$1"' - "$probe"
is "a step has a secret, one for all ranks" \
    "$rc $(grep -c "of 2: node [01] of 2, " <<<"$out") $(grep -E '^secret [0-9a-f]{64}$' <<<"$out" | sort -u | wc -l)" \
    "0 2 1"
before=$(grep ^secret <<<"$out")
# shellcheck disable=SC2016
cluster_run srun --ddp=on,mpi=pmi2 -N2 -n2 bash -c '[ "$RANK" = 0 ] || unset SLURM_DDP_SECRET
    [ "$RANK" = 1 ] || echo "secret $SLURM_DDP_SECRET"; exec "$1" --timeout 20' - "$probe"
like "... without which a rank believes nothing" "$rc $err" \
    "^[1-9].*what rank 0 has published was not made with this step's SLURM_DDP_SECRET: "
unlike "... and another one each time" "$before" "$(grep ^secret <<<"$out")"
# shellcheck disable=SC2016
shown='echo "${PMIX_NAMESPACE:+pmix}${PMI_FD:+pmi2} ${SLURM_STEP_RESV_PORTS:-no ports}"'
cluster_run srun --ddp=on,mpi=pmi2 -N1 -n1 bash -c "$shown"
is "mpi=pmi2" "$rc $out" "0 pmi2 no ports"
cluster_run srun --ddp=on,mpi=pmi2,resv_ports -N1 -n1 bash -c "$shown"
like "... with ports of Slurm's where they are asked for" "$rc $out" "^0 pmi2 [0-9]"
cluster_run srun --ddp=on,mpi=pmi2 --mpi=none -N1 -n1 bash -c "$shown"
is "srun's own --mpi goes before it" "$rc $out" "0  no ports"
cluster_run srun --ddp=on,mpi=pmi2 --mpi=none -N1 -n2 "$probe"
without="SLURM_STEP_NUM_TASKS=2, but this process was started without PMIx or PMI"
like "... and a program that needs either refuses, with the cure" "$rc $(sort -u <<<"$err")" \
    "^1 .*$without.*: leave out mpi=none .* and --mpi=none"
cluster_run srun --ddp=on,mpi=none -N1 -n2 "$probe"
like "mpi=none likewise" "$rc $(sort -u <<<"$err")" "^1 .*$without.*: leave out mpi=none .*DDP_MPI.* site file"
cluster_run srun --mpi=none -N1 -n2 "$probe"
like "without --ddp another cure is named" "$rc $(sort -u <<<"$err")" "^1 .*$without.*: start it with .*srun --ddp=on"
cluster_run srun --mpi=none -N1 -n1 sbatch --wait -n2 -o "$cluster_dir/home/batch.out" --wrap "$probe"
like "... in a batch job, too, which was submitted in a step of one task" "$(<"$cluster_dir/home/batch.out")" \
    "^bootprobe: SLURM_NTASKS=2, but .*srun --ddp=on"
cat >"$tmp/without.sh" <<'SCRIPT'
# without.sh DIR PLUGIN COMMAND...: a Slurm that was built without that plugin, for this command.
plugins=$(dirname "$(find /usr/lib -name mpi_pmi2.so | head -n 1)")
mkdir "$1" && cp "$plugins"/*.so "$1" && rm "$1/$2"*
mount --bind "$1" "$plugins"
shift 2
exec "$@"
SCRIPT
in_cluster=("$top_srcdir/contrib/cluster" run --dir "$cluster_dir")
run_steady unshare -m bash "$tmp/without.sh" "$tmp/plugins" mpi_pmix "${in_cluster[@]}" \
    srun --ddp=on -N1 -n1 bash -c "$shown"
is "where Slurm has no PMIx, mpi=auto takes pmi2" "$rc $out" "0 pmi2 no ports"
cat >"$tmp/broken.sh" <<'SCRIPT'
# A host without PMIx's library, for this command.
for library in $(find /usr/lib -name 'libpmix.so*'); do mount --bind /dev/null "$library"; done
exec "$@"
SCRIPT
mpi=$(cluster_mpi)
if [ "${mpi% *}" = pmix ]; then
    broken=(unshare -m bash "$tmp/broken.sh" "${in_cluster[@]}")
    run_steady "${broken[@]}" srun --ddp=on -N1 -n1 bash -c "$shown"
    is "... as where its PMIx does not find PMIx's library" "$rc $out" "0 pmi2 no ports"
    like "... which one line says, with the cure" "$(grep -c '^ddp: ' <<<"$err") $err" \
        "^1 .*ddp: warning: Slurm's PMIx plugin does not load on this host, .*: the step starts over PMI, .*mpi=pmi2"
    run_steady "${broken[@]}" srun --ddp=on --mpi=none -N1 -n1 bash -c "$shown"
    is "... and none where the user has chosen" "$rc$err" 0
    run_steady env SLURM_MPI_TYPE=pmi2 "${broken[@]}" srun --ddp=on -N1 -n1 bash -c "$shown"
    is "... by a variable, too" "$rc $out$err" "0 pmi2 no ports"
    run_steady unshare -m bash "$tmp/without.sh" "$tmp/pmix" mpi_pmi2 bash "$tmp/broken.sh" "${in_cluster[@]}" \
        srun --ddp=on -N1 -n2 "$probe"
    like "... where Slurm has no PMI either, the step starts without, and a program that needs one refuses" "$rc $err" \
        "^1 .*ddp: warning: Slurm's PMIx .*: the step starts without it, .*started without PMIx or PMI"
fi
cluster_run srun --ddp=on -N1 -n1 bash -c "$shown"
like "... and PMIx where it has" "$rc $out" "^0 ${mpi% *}"
done_testing

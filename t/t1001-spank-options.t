#!/bin/bash
# --ddp in srun, sbatch and salloc: who turns it on, who wins, and what a bad one says.
source "$(dirname "$0")/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
cluster_up 2 --cpus 4

port='echo port=$MASTER_PORT'
# refused DESC WHAT: the last command failed, said WHAT in one line of ours, and no node is the worse for it.
refused() {
    ok "$1: fails" test "$rc" -ne 0
    like "$1: says why" "$err" "$2"
    is "$1: in one line" "$(grep -c 'ddp: ' <<<"$err")" 1
    unlike "$1: is not a deadline" "$rc" '^124$'
    cluster_run sinfo -h -N -t drain,down,fail -o "%N %T"
    is "$1: nodes stay" "$out" ""
}

cluster_run srun --help
like "help: --ddp" "$out" '--ddp=on\|off\|KEY=VALUE'
like "... by whom MASTER_PORT is chosen, and by what ranks meet" "$(tr -s " \n" " " <<<"$out")" \
    "through PMIx or PMI,.* port=1024..65535 .MASTER_PORT; unset: srun draws one for every step."
for key in bind=auto mpi=auto omp= port= requeue= resv_ports= timeout= interface= verbose=; do
    like "help: $key" "$(tr -s ' \n' ' ' <<<"$out")" "$key"
done

# On and off.
cluster_run srun -n1 /bin/sh -c 'echo rank=${RANK-none}'
is "without --ddp nothing is set" "$out" rank=none
cluster_run srun --ddp=on -n1 /bin/sh -c 'echo rank=${RANK-none}'
is "--ddp=on" "$out" rank=0
cluster_run srun --ddp=off -n1 /bin/sh -c 'echo rank=${RANK-none}'
is "--ddp=off" "$out" rank=none
cluster_run srun --ddp=bind=none -n1 /bin/sh -c 'echo rank=${RANK-none}'
is "a key alone means on" "$out" rank=0
SLURM_DDP=on cluster_run srun -n1 /bin/sh -c 'echo rank=${RANK-none}'
is "SLURM_DDP=on" "$out" rank=0
SLURM_DDP=on cluster_run srun --ddp=off -n1 /bin/sh -c 'echo rank=${RANK-none}'
is "--ddp=off beats SLURM_DDP=on" "$out" rank=none

# Command line before environment.
DDP_PORT=21111 cluster_run srun --ddp=on -n1 /bin/sh -c "$port"
is "DDP_PORT" "$out" port=21111
DDP_PORT=21111 cluster_run srun --ddp=on,port=21112 -n1 /bin/sh -c "$port"
is "the command line beats DDP_PORT" "$out" port=21112

DDP_PROT=21111 DDP_BIND=none cluster_run srun --ddp=on -N2 /bin/sh -c 'echo rank=$RANK'
warned='ddp: warning: the variable DDP_PROT is no key of --ddp, and nobody reads it, did you mean DDP_PORT?'
is "a variable that is a key but for a slip: a warning, once" "$rc:$(sort <<<"$out" | xargs):$(ddp_lines <<<"$err")" \
    "0:rank=0 rank=1:$warned"

# MPI and kill-on-bad-exit come by themselves, and only where they are wanted.
read -r mpi rank < <(cluster_mpi)
pmix='echo mpi=${'$rank'-none} kill=${SLURM_KILL_BAD_EXIT-none}'
cluster_run srun --ddp=on -n1 /bin/sh -c "$pmix"
is "$mpi comes by itself" "$out" "mpi=0 kill=1"
cluster_run srun --ddp=on,mpi=none -n1 /bin/sh -c "$pmix"
is "mpi=none" "$out" "mpi=none kill=1"
cluster_run srun --ddp=on --mpi=none -n1 /bin/sh -c "$pmix"
is "--mpi=none" "$out" "mpi=none kill=1"
# An srun that sees Slurm's folder without the plugins for PMIx.
slurm_lib=$(ldd "$(command -v srun)" | sed -n 's/.*=> \(.*\)\/libslurmfull.so .*/\1/p')
cp -r "$slurm_lib" "$tmp/no-pmix" && rm -f "$tmp"/no-pmix/mpi_pmix*
cat >"$tmp/view" <<VIEW
mount --bind "$tmp/no-pmix" "$slurm_lib"
exec "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" "\$@"
VIEW
run unshare -m bash "$tmp/view" srun --ddp=on -n1 /bin/sh -c 'echo pmix=${PMIX_RANK-none}'
is "no PMIx where Slurm has no plugin for it" "$out" "pmix=none"
SLURM_KILL_BAD_EXIT=0 cluster_run srun --ddp=on -n1 /bin/sh -c "$pmix"
is "the user's SLURM_KILL_BAD_EXIT stays" "$out" "mpi=0 kill=0"
SLURM_KILL_BAD_EXIT=1 cluster_run srun -K0 --ddp=on -n1 /bin/sh -c "$pmix"
is "... but for the command line's -K0" "$out" "mpi=0 kill=0"
SLURM_KILL_BAD_EXIT=0 cluster_run srun -K --ddp=on -n1 /bin/sh -c "$pmix"
is "... or -K" "$out" "mpi=0 kill=1"
cluster_run srun --kill=0 --ddp=on -n1 /bin/sh -c "$pmix; srun --overlap -n1 sh -c '$pmix'"
is "... which is that step's alone" "$out" "mpi=0 kill=0
mpi=none kill=none"
cluster_run srun --ddp=off -n1 /bin/sh -c "$pmix"
is "--ddp=off changes nothing" "$out" "mpi=none kill=none"
cluster_run srun -n1 /bin/sh -c "$pmix" --ddp=on
is "--ddp=on of the program is the program's" "$out" "mpi=none kill=none"
cluster_run srun --ddp=on,mpi=none -n2 /bin/sh -c '[ $RANK = 1 ] && exit 7; sleep 1000'
ok "a failing rank ends the step" test "$rc" -ne 0 -a "$rc" -ne 124

# sbatch and salloc reach their inner sruns.
sed "s/MPI_RANK/$rank/" >"$tmp/job" <<'JOB'
#!/bin/sh
#SBATCH --ddp=on,port=31222 -n2
export SLURM_CPU_BIND=none
echo batch rank=${RANK-none}
srun -n1 -N1 /bin/sh -c 'echo inner port=$MASTER_PORT mpi=${MPI_RANK-none}'
srun -n1 -N1 --ddp=on /bin/sh -c '[ $MASTER_PORT != 31222 ] && echo own flag wins'
srun -n1 -N1 --ddp=off /bin/sh -c 'echo off rank=${RANK-none}'
srun -n1 -N1 --export=NONE /bin/sh -c 'echo bare rank=${RANK-none} port=$MASTER_PORT'
export SLURM_DDP=off
srun -n1 -N1 /bin/sh -c 'echo flag beats variable rank=${RANK-none}'
JOB
want='batch rank=none
inner port=31222 mpi=0
own flag wins
off rank=none
bare rank=0 port=31222
flag beats variable rank=0'
cluster_run sbatch --wait -o "$cluster_dir/home/job.out" "$tmp/job"
is "#SBATCH --ddp=on and inner sruns" "$(steady "$cluster_dir/home/job.out")" "$want"
cluster_run sbatch --wait --export=NONE -o "$cluster_dir/home/job.out" "$tmp/job"
is "... under --export=NONE" "$(steady "$cluster_dir/home/job.out" | sed '/PATH/d')" "$want"
cluster_run salloc --ddp=on,port=23333 -n1 srun /bin/sh -c "$port"
is "salloc --ddp=on" "$out" port=23333

# Bad ones.
cluster_run srun --ddp=bnd=none -n2 -N2 true
refused "srun, unknown key" 'unknown key "bnd", did you mean bind\?'
cluster_run srun --ddp=port=80 -n1 true
refused "srun, out of range" 'port=80 is not allowed: use port=1024\.\.65535'
cluster_run srun --ddp= -n1 true
refused "srun, empty" 'empty item'
cluster_run srun --ddp="$(printf 'on%5000s')" -n1 true
refused "srun, too long" 'longer than 4096 bytes'
DDP_BIND=x cluster_run srun --ddp=on -n1 true
refused "srun, bad variable" 'DDP_BIND: bind=x is not allowed: use bind=auto\|none'
SLURM_DDP=maybe cluster_run srun -n1 true
refused "srun, bad SLURM_DDP" 'SLURM_DDP: unknown key "maybe"'
for bad in --ddp=bnd ""; do
    SLURM_EXIT_ERROR=77 SLURM_DDP=maybe cluster_run srun $bad -n1 true
    is "... with the code that the user wants of Slurm's errors ($bad)" "$rc" 77
done
cluster_run srun --ddp=bnd -n1 true : --ddp=on -n1 true
refused "srun, the first of two components" 'unknown key "bnd"'
cluster_run sbatch --ddp=bnd=none --wrap true
refused "sbatch" 'unknown key "bnd"'
cluster_run salloc --ddp=bnd=none -n1 true
refused "salloc" 'unknown key "bnd"'
SLURM_DDP=maybe cluster_run sbatch --wrap true
refused "sbatch, bad SLURM_DDP" 'SLURM_DDP: unknown key "maybe"'
# A plugin that is "optional" in plugstack.conf refuses as firmly.
sed -i 's/^required/optional/' "$cluster_dir/conf/plugstack.conf"
SLURM_DDP=maybe cluster_run srun -n1 /bin/sh -c 'echo ran'
is "optional: nothing ran" "$out" ""
unlike "optional: nothing waited" "$err" "queued|allocated|error: "
refused "optional: srun, bad SLURM_DDP" 'SLURM_DDP: unknown key "maybe"'
SLURM_DDP=maybe cluster_run sbatch --wrap true
is "optional: nothing was submitted" "$out" ""
refused "optional: sbatch, bad SLURM_DDP" 'SLURM_DDP: unknown key "maybe"'
cluster_run srun --ddp=bnd -n1 true
refused "optional: srun" 'unknown key "bnd"'
done_testing

#!/bin/bash
# A PyTorch loop with slurm_ddp's lines, killed twenty times: on four ranks it ends with the bits of a run that nobody
# disturbed; on 1 to 4 ranks in turn each sample is used once an epoch. On a real Slurm, too, where a job that was
# stopped is requeued and goes on. DDP_TEST_PYTHON names a Python with another PyTorch than Debian's.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/python.sh"
. "$top_srcdir/t/lib/cluster.sh"
need_packages numpy torch
unset RANK WORLD_SIZE "${!SLURM@}" "${!DDP_@}"
export PYTHONPATH=$top_srcdir/contrib/python PYTHONDONTWRITEBYTECODE=1 DDP_LIBRARY=$top_builddir/.libs/libddp.so.0
export OMP_NUM_THREADS=1 SLURM_CPU_BIND=none
run_deadline=900
head -c 24001 /usr/share/common-licenses/GPL-3 >"$tmp/text" # 750 samples
probe=("$python" "$top_srcdir/t/lib/gptprobe.py" --data "$tmp/text" --steps 150 --ckpt-every 5 --layers 1 --workers 1)

chaos() { # NAME CHAOS-OPTION... -- COMMAND...
    local name=$1
    shift
    mkdir -m 777 "$tmp/$name"
    run "$top_srcdir/t/lib/chaos" --dir "$tmp/$name" --fault "$top_builddir/t/lib/.libs/fault.so" --steps 150 \
        --between 15 --samples "$@"
    diag "$out"
    [ -z "$err" ] || diag "$err"
}

chaos four -- "$top_builddir/ddp" run -n %n "${probe[@]}"
is "four ranks: the end has the undisturbed run's bits" "$rc" 0
like "... after at least 20 kills" "$out" 'result kills=[2-9][0-9] '
like "... each sample once an epoch" "$out" 'samples: [1-9][0-9]* whole epochs'
chaos sizes --ranks 4,1,3,2 --each 3 --apart -- "$top_builddir/ddp" run -n %n "${probe[@]}" --accumulate 2 --steps 150
is "1 to 4 ranks in turn: each sample once an epoch" "$rc" 0
like "... after at least 20 kills" "$out" 'result kills=[2-9][0-9] '

cluster_up 2 --cpus 4
slurm=("$top_srcdir/contrib/cluster" run --dir "$cluster_dir" srun -N2 -n %n --ddp=on)
export SLURM_CONF=$cluster_dir/conf/slurm.conf
# A step that was killed with its srun is ended, and its nodes are free again.
cat >"$tmp/after" <<'AFTER'
scancel --quiet --signal=KILL --full --user=nobody
scancel --quiet --user=nobody
for i in $(seq 300); do [ -n "$(squeue -h)" ] || exit 0; sleep 0.1; done
AFTER
chaos slurm --after "sh $tmp/after" -- "${slurm[@]}" "${probe[@]}"
is "on a real Slurm: the end has the undisturbed run's bits" "$rc" 0
like "... after at least 20 kills" "$out" 'result kills=[2-9][0-9] '
want=$(sed -n "s/^alone:.*'params hash \([0-9a-f]*\)'.*/\1/p" <<<"$out")

home=$cluster_dir/home
cp "$tmp/text" "$home/text"
cat >"$home/job" <<JOB
#!/bin/sh
#SBATCH --ddp=on,requeue=auto --requeue --open-mode=append -N2 --ntasks-per-node=2
exec srun ${probe[*]} --data $home/text --ckpt $home/ckpt --pace 0.05 --print-hash
JOB
cluster_run sbatch --parsable -o "$home/log" "$home/job"
job=$out
ok "a batch job trains" until_true 60 grep -qs '^step 20 ' "$home/log"
cluster_run scancel --signal=USR1 "$job"
requeued="stopped by SIGUSR1, with a checkpoint of step [0-9]*: job $job is requeued"
ok "... is stopped, saved and requeued" until_true 60 grep -q "$requeued" "$home/log"
ok "... and goes on by itself" until_true 240 grep -q '^resumed from' "$home/log"
ok "... to its end" until_true 120 grep -q '^params hash' "$home/log"
is "... which is that of the undisturbed run" "$(sed -n 's/^params hash //p' "$home/log")" "$want"
done_testing

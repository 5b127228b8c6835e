#!/bin/bash
# Long chaos: as t6010, with more kills; one kill before each system call of a save, on rank 0 and on another; and on a
# real Slurm, where whole nodes crash too.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/cluster.sh"
unset RANK WORLD_SIZE "${!SLURM@}" "${!DDP_@}"
export OMP_NUM_THREADS=1
run_deadline=900
text=/usr/share/common-licenses/GPL-3
fault=$top_builddir/t/lib/.libs/fault.so
small=(--data $text --context 32 --layers 2 --width 96 --heads 4 --batch 4 --seed 11 --log-every 1 --val-every 40
    --val-windows 4 --ckpt-every 10)

chaos() { # NAME STEPS CHAOS-OPTION... -- COMMAND...
    local name=$1 steps=$2
    shift 2
    mkdir -m 777 "$tmp/$name"
    run "$top_srcdir/t/lib/chaos" --dir "$tmp/$name" --fault "$fault" --steps "$steps" "$@" --steps "$steps"
    diag "$out"
    [ -z "$err" ] || diag "$err"
}

for i in 1 2 3 4 5; do
    chaos "four-$i" 200 -- "$top_builddir/ddp" run -n %n "$top_builddir/train" "${small[@]}"
    is "four ranks, $i: the end has the undisturbed run's bits" "$rc" 0
    like "... after at least 20 kills" "$out" 'result kills=[2-9][0-9] '
    chaos "sizes-$i" 200 --ranks 4,1,2 --samples -- \
        "$top_builddir/ddp" run -n %n "$top_builddir/t/unit/train-probe" "${small[@]}" --shards 4
    is "1, 2 and 4 ranks in turn, $i: the end has the undisturbed run's bits" "$rc" 0
    like "... and every sample of an epoch was used once" "$out" 'samples: [1-9][0-9]* whole epochs'
done
# Stops that do not wait for the end of a step: sums of its micro-steps, or shards, are saved and taken up again.
export DDP_STOP_WITHIN=0
chaos accum 300 --each 9 --samples -- \
    "$top_builddir/ddp" run -n %n "$top_builddir/t/unit/train-probe" "${small[@]}" --batch 1 --accum 5
is "stopped inside steps of five micro-steps: the undisturbed run's bits" "$rc" 0
chaos shards 300 --each 9 --ranks 2,1,4 --samples -- \
    "$top_builddir/ddp" run -n %n "$top_builddir/t/unit/train-probe" "${small[@]}" --batch 2 --shards 16
is "stopped inside steps of many shards, then on other numbers of ranks: the undisturbed run's bits" "$rc" 0
unset DDP_STOP_WITHIN
chaos nodes 200 -- "$top_builddir/ddp" run -n %n --layout 2,1,1 "$top_builddir/train" "${small[@]}" --ddp-zero=1
is "three nodes, the optimizer's state spread over them: the undisturbed run's bits" "$rc" 0

small+=(--ckpt-every 4)
chaos sweep 600 --sweep -- "$top_builddir/ddp" run -n %n "$top_builddir/train" "${small[@]}"
is "killed before each system call of a save: the undisturbed run's bits" "$rc" 0
like "... rank 0 has some fifty, another some fifteen" "$out" 'result kills=[5-9][0-9] '
small+=(--ckpt-every 10)

cluster_up 4 --netns
slurm=("$top_srcdir/contrib/cluster" run --dir "$cluster_dir" srun -N %n --ntasks-per-node=1 --ddp=on)
export SLURM_CONF=$cluster_dir/conf/slurm.conf
# A step that was killed with its srun is ended, and its nodes are free again.
cat >"$tmp/after" <<'AFTER'
scancel --quiet --signal=KILL --full --user=nobody
scancel --quiet --user=nobody
for i in $(seq 300); do [ -n "$(squeue -h)" ] || exit 0; sleep 0.1; done
AFTER
crash="$top_srcdir/contrib/cluster crash --dir $cluster_dir n\$((%k + 1))"
chaos slurm 200 --after "sh $tmp/after" --crash "$crash" -- \
    "${slurm[@]}" "$top_builddir/train" "${small[@]}"
is "on a real Slurm: the end has the undisturbed run's bits" "$rc" 0
for quota in "crash of rank" "SIGKILL of rank" "SIGKILL of all" "stop signal"; do
    like "... after a $quota" "$out" "$quota"
done
chaos slurm-sizes 200 --ranks 4,1,2 --each 2 --between 5 --kills 8 --after "sh $tmp/after" -- \
    "${slurm[@]}" "$top_builddir/train" "${small[@]}" --shards 4
is "on a real Slurm, on 1, 2 and 4 nodes in turn: the undisturbed run's bits" "$rc" 0
cluster_run sinfo -h -N -t drain,fail -o "%N %T"
is "no node was drained" "$out" ""
done_testing

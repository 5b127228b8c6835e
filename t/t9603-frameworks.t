#!/bin/bash
# The table at the head of doc/user.md, the rows whose programs Debian lacks, each as it is written there: two nodes,
# four ranks, and the weight that the mean gradient of all four gives. DDP_TEST_PYTHON names a Python that has them,
# which users of the cluster may run; what it lacks is skipped.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/cluster.sh"
python=${DDP_TEST_PYTHON:-/usr/bin/python3}
cluster_up 2 --cpus 4 --netns
export PYTHONDONTWRITEBYTECODE=1 SLURM_CPU_BIND=none DS_ACCELERATOR=cpu HF_HUB_OFFLINE=1
PATH=${python%/*}:$PATH
run_deadline=100
program=$top_srcdir/t/lib/frameworks.py
all_four=$(printf 'rank %d of 4 weight 1.5\n' 0 1 2 3)

# row DESC NAME RANKS-A-NODE COMMAND...: `srun --ddp=on COMMAND... NAME` is one job of four ranks.
row() {
    local desc=$1 name=$2 tasks=$3 version
    shift 3
    if ! version=$("$python" "$program" version "$name" 2>&1); then
        version=${version##*$'\n'}
        echo "ok $((tap_n += 1)) - $desc # SKIP no Python package ($version): DDP_TEST_PYTHON names another Python"
        return
    fi
    cluster_run srun --ddp=on -N2 --ntasks-per-node="$tasks" "$@" "$program" "$name"
    is "$desc ($version)" "$rc $(grep '^rank' <<<"$out" | sort)" "0 $all_four" || diag "$out$err"
}
row "PyTorch's DDP" ddp 2 "$python"
row "FSDP2" fsdp2 2 "$python"
row "torchrun" torchrun 1 torchrun --nproc-per-node=2
row "mp.spawn" spawn 1 "$python"
row "Accelerate" accelerate 2 "$python"
row "accelerate launch, one task a rank" accelerate 2 accelerate launch --cpu
# what it takes by itself where a node has two GPUs
row "accelerate launch, one task a node" accelerate 1 accelerate launch --multi_gpu --num_processes=2
row "Hugging Face's Trainer" hf 2 "$python"
row "Lightning" lightning 2 "$python"
# ---- by slurm_ddp's backend, as doc/user.md says ----
export PYTHONPATH=$top_srcdir/contrib/python DDP_LIBRARY=$top_builddir/.libs/libddp.so.0 PROBE_BACKEND=ddp
run_deadline=300 # which is compiled first
for name in accelerate hf lightning; do
    row "$name by backend ddp" $name 2 "$python"
done
unset PYTHONPATH DDP_LIBRARY PROBE_BACKEND
run_deadline=500 # it compiles a library of its own first
row "DeepSpeed" deepspeed 2 "$python"
row "JAX" jax 2 "$python"
done_testing

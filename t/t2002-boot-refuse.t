#!/bin/bash
# boot_open refuses rather than guesses: each refusal is one line that names the thing and the cure.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
probe=$top_builddir/t/lib/bootprobe
unset DDP_BOOT DDP_BOOT_ADDR DDP_BOOT_TOKEN DDP_RANK DDP_SIZE DDP_NODE PMIX_NAMESPACE PMIX_RANK SLURM_NTASKS \
    SLURM_STEP_NUM_TASKS PMI_FD PMI_RANK PMI_SIZE DDP_GUARD_DOOR

refused() { # DESC ERE VARIABLE=VALUE...
    local desc=$1 ere=$2
    shift 2
    run env "$@" "$probe"
    like "$desc" "$rc $(wc -l <<<"$err") $out$err" "^1 1 bootprobe: $ere"
}
run "$probe"
like "alone without anything: one rank" "$rc $out" "^0 rank 0 of 1: node 0 of 1, local 0 of 1, "
run env SLURM_NTASKS=1 SLURM_STEP_NUM_TASKS=1 "$probe"
is "one Slurm task is alone as well" "$rc" 0
refused "several Slurm tasks without PMIx" "SLURM_NTASKS=4.*srun --ddp=on.*srun --mpi=pmix" SLURM_NTASKS=4
refused "several tasks of the step" "SLURM_STEP_NUM_TASKS=2.*srun --ddp=on" SLURM_NTASKS=1 SLURM_STEP_NUM_TASKS=2
refused "several tasks of a job that was submitted in a step of one" "SLURM_NTASKS=4.*srun --ddp=on" SLURM_NTASKS=4 \
    SLURM_STEP_NUM_TASKS=1
refused "a task count that is no number" "SLURM_NTASKS=many.*srun --ddp=on" SLURM_NTASKS=many
refused "half of PMI is none" "SLURM_NTASKS=4" SLURM_NTASKS=4 PMI_RANK=0 PMI_SIZE=4
refused "half of PMIx is none" "SLURM_NTASKS=4" SLURM_NTASKS=4 PMIX_RANK=0
run env SLURM_NTASKS=4 DDP_BOOT=single "$probe"
like "who insists on a single process gets it" "$rc $out" "^0 rank 0 of 1: "
refused "an unknown backend" "DDP_BOOT=nonsense .*auto.guard.pmix.pmi.local.single" DDP_BOOT=nonsense
refused "guard without a door" "DDP_GUARD_DOOR is not set.*--ddp=on,guard" DDP_BOOT=guard
refused "a door that nobody opened" "the guard .*cannot be reached at @nobody" DDP_GUARD_DOOR=nobody-$$
refused "local without an address" "DDP_BOOT_ADDR.*ddp run" DDP_BOOT=local
refused "an address without a token" "DDP_BOOT_TOKEN.*ddp run" DDP_BOOT_ADDR=unix:@nobody
token=$(printf 'a%.0s' {1..64})
refused "an address where nobody listens" "boot server unix:@nobody-[0-9]+ cannot be reached.*ddp run" \
    DDP_BOOT_ADDR=unix:@nobody-$$ DDP_BOOT_TOKEN="$token" DDP_RANK=0 DDP_SIZE=2
refused "a rank beyond the size" "DDP_RANK=2 .*0..1" \
    DDP_BOOT_ADDR=unix:@nobody-$$ DDP_BOOT_TOKEN="$token" DDP_RANK=2 DDP_SIZE=2

if "$probe" --help 2>&1 | grep -q . && DDP_BOOT=pmix "$probe" 2>&1 | grep -q "lacks PMIx"; then
    refused "pmix in a build without it" "this build .*lacks PMIx.*libpmix-dev" DDP_BOOT=pmix
else
    refused "pmix outside of srun" "PMIx finds no server here.*srun --ddp=on" DDP_BOOT=pmix
    refused "PMIx variables of the step around this one" \
        "PMIX_NAMESPACE=slurm.pmix.7.0, but Slurm.s variables name job 7, step 1: .*srun --ddp=on" \
        PMIX_NAMESPACE=slurm.pmix.7.0 PMIX_RANK=0 SLURM_JOB_ID=7 SLURM_STEP_ID=1
    refused "PMIx variables without a server" "PMIx finds no server here.*srun --ddp=on" PMIX_NAMESPACE=x PMIX_RANK=0
    refused "another launcher's, in a step of Slurm" "PMIx finds no server here.*srun --ddp=on" \
        PMIX_NAMESPACE=prterun-n1-4@1 PMIX_RANK=0 SLURM_JOB_ID=7 SLURM_STEP_ID=1
fi
done_testing

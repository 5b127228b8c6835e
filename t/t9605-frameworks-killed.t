#!/bin/bash
# Hugging Face's Trainer, Lightning and Accelerate with slurm_ddp's lines, on a real Slurm: killed and stopped twenty
# times, they end with the bits of a run that nobody disturbed. DDP_TEST_PYTHON names a Python that has them; what it
# lacks is skipped.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/python.sh"
. "$top_srcdir/t/lib/cluster.sh"
need_packages numpy torch
unset RANK WORLD_SIZE "${!SLURM@}" "${!DDP_@}"
export PYTHONPATH=$top_srcdir/contrib/python PYTHONDONTWRITEBYTECODE=1 DDP_LIBRARY=$top_builddir/.libs/libddp.so.0
export OMP_NUM_THREADS=1 SLURM_CPU_BIND=none DDP_CKPT_EVERY=3 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
run_deadline=120
cluster_up 2 --cpus 4
RANDOM=${DDP_TEST_SEED:-$$}
diag "DDP_TEST_SEED=${DDP_TEST_SEED:-$$}"

# life FRAMEWORK FOLDER [SIGNAL STEPS]: a run, a rank of which gets that signal after so many steps
life() {
    [ $# -lt 4 ] || export PROBE_SIGNAL=$3:$((RANDOM % 4)):$4:$((RANDOM % 100))
    cluster_run srun --ddp=on -N2 --ntasks-per-node=2 "$python" "$top_srcdir/t/lib/frameworkprobe.py" "$1" \
        "$cluster_dir/home/$2"
    unset PROBE_SIGNAL
}
went_on() { sed -n 's/^went on at step //p' <<<"$out"; }
hash_of() { grep '^params hash' <<<"$out"; }

# framework DESC NAME PACKAGES
framework() {
    local want at=0 bad=0 k
    if ! "$python" -c "import $3" 2>"$tmp/import.err"; then
        echo "ok $((tap_n += 1)) - $1 # SKIP no Python package ($(tail -n 1 "$tmp/import.err")):" \
            "DDP_TEST_PYTHON names another Python"
        return
    fi
    life "$2" "$2-alone"
    want=$(hash_of)
    like "$1" "$rc:$want" '^0:params hash [0-9a-f]{16}$' || diag "$err"
    for k in {1..20}; do
        case $((k % 4)) in
        0) life "$2" "$2" 10 $((1 + RANDOM % 6)); [ "$rc" = 75 ] ;;
        *) life "$2" "$2" 9 $((1 + RANDOM % 6)); [ "$rc" != 0 ] && [ "$rc" != 75 ] ;;
        esac && [ -n "$(went_on)" ] && [ "$(went_on)" -ge "$at" ] ||
            { bad=$((bad + 1)) && diag "life $k: rc $rc, at $at: $out$err"; }
        at=$(went_on)
        diag "life $k: rc $rc, went on at ${at:=0}"
    done
    is "... killed and stopped 20 times, each time it goes on" $bad 0
    life "$2" "$2"
    like "... not from the start" "$(went_on)" '^[1-9]'
    is "... and ends with the bits of the undisturbed run" "$rc:$(hash_of)" "0:$want" || diag "$err"
}
framework "Hugging Face's Trainer" hf "accelerate, transformers"
framework Lightning lightning lightning
framework Accelerate accelerate accelerate
done_testing

#!/bin/bash
# What comes at the end of a step, of an epoch and of training, by Hugging Face's Trainer and Lightning with slurm_ddp's
# lines: evaluation, and a schedule that goes by it. Stopped within an epoch or at its end, they end with the bits of a
# run that nobody disturbed; and started again after the end they make no step. DDP_TEST_PYTHON as in t9605.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/python.sh"
need_packages numpy torch
unset RANK WORLD_SIZE "${!SLURM@}" "${!DDP_@}"
export PYTHONPATH=$top_srcdir/contrib/python PYTHONDONTWRITEBYTECODE=1 DDP_LIBRARY=$top_builddir/.libs/libddp.so.0
export OMP_NUM_THREADS=1 DDP_CKPT_EVERY=0 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
run_deadline=200

ranks=2
life() { # FRAMEWORK FOLDER [STEP]
    run "$top_builddir/ddp" run -n "$ranks" "$python" "$top_srcdir/t/lib/frameworkstop.py" "$1" "$tmp/$2" "${@:3}"
    said=$rc:$(grep -E '^(steps|slurm_ddp: )' <<<"$out"$'\n'"$err")
}

# framework DESC NAME PACKAGES
framework() {
    local hash at
    if ! "$python" -c "import $3" 2>"$tmp/import.err"; then
        echo "ok $((tap_n += 1)) - $1 # SKIP no Python package ($(tail -n 1 "$tmp/import.err")):" \
            "DDP_TEST_PYTHON names another Python"
        return
    fi
    life "$2" "$2"
    hash=${said##* }
    like "$1" "$said" '^0:steps 12 hash [0-9a-f]{16}$' || diag "$out$err"
    life "$2" "$2"
    is "... started again after the end it makes no step" "$said" "0:steps 0 hash $hash" || diag "$out$err"
    for at in 3 4; do
        life "$2" "$2-$at" "$at"
        is "... asked to stop at step $at of epochs of 4 it saves" "$rc" 75 || diag "$out$err"
        cp -r "$tmp/$2-$at" "$tmp/$2-$at-fewer"
        life "$2" "$2-$at"
        is "... and ends with the bits of the undisturbed run" "$said" "0:steps $((12 - at)) hash $hash" ||
            diag "$out$err"
        ranks=1 life "$2" "$2-$at-fewer"
        is "... and makes all steps on fewer ranks, too, with longer epochs" "${said% hash *}" "0:steps $((12 - at))" ||
            diag "$out$err"
    done
}

# refused DESC NAME ARGUMENT WANT: an argument or data that it cannot go on with
refused() {
    PROBE_REFUSED=$3 life "$2" "$2-refused"
    like "$1" "$rc:$err" "^1:.*$4"
}
framework Lightning lightning lightning
framework "... its epochs half of the Sampler's, a rate that goes by steps" pieces lightning
if "$python" -c "import lightning" 2>"$tmp/import.err"; then
    refused "Epochs of no whole steps are refused" pieces limit 'epochs of 3 batches, no whole steps of 2'
    refused "... and steps of other numbers of batches" lightning accumulate 'accumulate_grad_batches=1, as the Sampler'
    refused "... and a checkpoint of Lightning's own, from which it has gone on" lightning own \
        'Lightning has gone on by itself, at step 3, from ckpt_path or a hpc_ckpt_'
fi
framework "Hugging Face's Trainer" hf "accelerate, transformers"
if "$python" -c "import accelerate, transformers" 2>"$tmp/import.err"; then
    refused "Another order of samples is refused" hf order 'hf.Trainer: the order group_by_length is not supported'
    refused "... load_best_model_at_end" hf best 'hf.Trainer: load_best_model_at_end=True is not supported'
    refused "... data without numbers" hf stream 'hf.Trainer: train_dataset is a Stream, without numbers'
fi
done_testing

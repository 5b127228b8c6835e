# shellcheck shell=bash disable=SC2154,SC2034
# nccltraces.sh - for shell tests that record NCCL's calls, or replay them (t/lib/nccltrace/trace.h): source it after
# tap.sh. Skips the test in a build without nccl.h. Traces replay because the scenes are small, fixed, and the same on a
# GPU and over the emulator: two ranks on one GPU train a model of one layer.
#
#   scenes                     their names; $emulated_scenes: those that need a script of the double's
#   scene_run NAME [VARIABLE=VALUE...]  runs it: sets $rc, $out, $err. $scene_library is the libnccl underneath,
#                              $scene_train the trainer, $scene_env what both ranks need
#   scene_script NAME          what the double is to do when it is recorded
#   real_library               the path of the libnccl that is installed here
#   scene_ends NAME DESC       asserts that the run ended as that scene must

trace_library=$top_builddir/t/lib/nccltrace/.libs
double=$top_builddir/t/lib/nccldouble/.libs
emulated_train=$top_builddir/t/lib/train-emu
emulated_env=(NCCLDOUBLE_DIR="$tmp" NCCLDOUBLE_IN_ORDER=1)
[ -e "$trace_library/libnccl.so.2" ] || skip_all "no NCCL: this build lacks nccl.h (libnccl-dev)"

scenes='train zero fixed killed'
emulated_scenes=broken

# The file that the loader takes for the name; nothing where there is none.
real_library() {
    LD_TRACE_LOADED_OBJECTS=1 LD_PRELOAD=libnccl.so.2 /bin/true 2>&1 | sed -n 's/^.*libnccl.so.2 => \(\/[^ ]*\).*/\1/p'
}

scene_run() {
    local name=$1 kill='' args=(--steps 2 --ddp-bucket-mb=0.1)
    shift
    case $name in
    train) args=(--steps 3 --ddp-bucket-mb=0.1) ;;
    zero) args+=(--ddp-zero=1) ;;
    fixed) args+=(--ddp-deterministic=on) ;;
    killed) kill='1 group_end 5' ;; # the second bucket of step 2
    esac
    [[ $* != *NCCLTRACE_REPLAY=* ]] || kill='' # the trace has it
    run env "${scene_env[@]}" LD_LIBRARY_PATH="$trace_library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        NCCLTRACE_LIBRARY="$scene_library" ${kill:+NCCLTRACE_KILL="$kill"} "$@" \
        "$top_builddir/ddp" run -n 2 "$scene_train" --data "$top_srcdir/LICENSE" --layers 1 --width 64 --heads 1 \
        --context 16 --batch 2 --val-windows 1 --warmup 0 --log-every 0 --dtype f32 --device cuda \
        --ddp-share-device=on "${args[@]}"
}

# A wire-up of some 0.3 s, work that is long in coming to its stream; an error of NCCL's before the death behind it is
# known, as a closed connection tells it; one with nobody's death.
scene_script() {
    case $1 in
    train) printf '%s\n' "init progress 3000" "group progress 300" ;;
    killed) echo "rank 0 group at 4 async 6 remote process exited or there was a network error" ;;
    broken) echo "rank 1 group at 5 async 3 what the double was told to say" ;;
    esac
}

scene_ends() {
    case $1 in
    killed)
        is "$2: exit code" "$rc" 137
        like "... the other rank says who died" "$err" 'rank 0: .*rank 1 (\([^)]*\) )?died'
        ;;
    broken)
        is "$2: exit code" "$rc" 1
        like "... both say what NCCL says" "$err" 'rank 0: .*internal error \(what the double was told to say\)'
        ;;
    *) is "$2: exit code" "$rc" 0 || diag "$err" ;;
    esac
}

# shellcheck shell=bash disable=SC2154
# nccl.sh - for shell tests of the NCCL communicator over its double (t/lib/nccldouble): source it after tap.sh. Skips
# the test in a build without nccl.h.
#
#   script [LINE...]             what the double answers from now on (double.h)
#   probe LAYOUT [OPTION...]     runs ncclprobe on those nodes: sets $rc, $out, $err, and $log, the calls that were made
#   oks, told TEXT               how many ranks printed that all was well, that they were told what matches TEXT
#   warned TEXT                  how many lines warn of what matches TEXT
#   nobody_probes                no rank of such a run is alive

double=$top_builddir/t/lib/nccldouble/.libs
ncclprobe=$top_builddir/t/lib/ncclprobe
[ -e "$double/libnccl.so.2" ] || skip_all "no NCCL: this build lacks nccl.h (libnccl-dev)"
mkdir -m 777 "$tmp/double"
export LD_LIBRARY_PATH=$double${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export NCCLDOUBLE_SCRIPT=$tmp/script NCCLDOUBLE_LOG=$tmp/double/log NCCLDOUBLE_DIR=$tmp/double
unset NCCL_DEBUG NCCL_DEBUG_FILE NCCL_HOSTID NCCL_COMM_BLOCKING

script() { printf '%s\n' "$@" >"$tmp/script"; }
probe() {
    local n=0 k layout=$1
    shift
    for k in ${layout//,/ }; do n=$((n + k)); done
    rm -f "$NCCLDOUBLE_LOG"
    run "$top_builddir/ddp" run -n $n --layout "$layout" "${wrapper[@]}" "$ncclprobe" "$@"
    log=$(cat "$NCCLDOUBLE_LOG" 2>/dev/null)
    diag "$out"$'\n'"$err" # where something is wrong, this tells what
}
wrapper=()
oks() { grep -c ': ok, NCCL' <<<"$out"; }
warned() { grep -cE ": warned: .*$1" <<<"$out"; }
told() { grep -cE ": told within [0-9.]+ s: .*$1" <<<"$out"; }
nobody_probes() {
    local f
    for f in $(grep -lzsxF "NCCLDOUBLE_DIR=$NCCLDOUBLE_DIR" /proc/[0-9]*/environ); do
        [ "$(cat "${f%/environ}/comm" 2>/dev/null)" != ncclprobe ] || return 1
    done
}
script

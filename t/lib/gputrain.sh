# shellcheck shell=bash disable=SC2034,SC2154
# gputrain.sh - for shell tests of training on a GPU: in make check over the emulator and the double of NCCL;
# DDP_TEST_GPU=1, as contrib/gpu-check sets it, means the GPU that is here. Sourced after tap.sh.
[ -n "${DDP_TEST_GPU:-}" ] || unset CUDA_VISIBLE_DEVICES
unset RANK WORLD_SIZE OMP_NUM_THREADS "${!SLURM@}" "${!DDP_D@}" "${!DDP_B@}" "${!EMU_@}"
ddp=$top_builddir/ddp
cpu=$top_builddir/train
if [ -n "${DDP_TEST_GPU:-}" ]; then
    gpu=$top_builddir/train
    size=(--layers 4 --width 256 --heads 4 --context 256 --batch 8) bucket=1
    nccl=(NCCL_NET=Socket NCCL_SOCKET_IFNAME==lo NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0 NCCL_MAX_CTAS=4)
    "$gpu" --data "$top_srcdir/LICENSE" --steps 0 --device cuda >"$tmp/gpu" 2>&1 ||
        skip_all "needs a GPU: $(tail -n 1 "$tmp/gpu")"
else
    gpu=$top_builddir/t/lib/train-emu
    size=(--layers 1 --width 64 --heads 1 --context 16 --batch 2) bucket=0.02
    double=$top_builddir/t/lib/nccldouble/.libs
    nccl=(LD_LIBRARY_PATH="$double" NCCLDOUBLE_DIR="$tmp" NCCLDOUBLE_IN_ORDER=1)
    [ -x "$gpu" ] || skip_all "no C++ compiler"
fi
small=(--data "$top_srcdir/LICENSE" "${size[@]}" --val-windows 1 --warmup 0 --log-every 0)

# trains DESC LOG COMMAND...
trains() {
    local desc=$1 log=$2
    shift 2
    run "$@" --log-json "$log"
    is "$desc" "$rc" 0 || diag "$err"
}
losses() { sed -n 's/.*"loss": \([0-9.e+-]*\),.*/\1/p' "$1"; }
# near DESC LOG LOG RELATIVE: as many losses, none further apart.
near() {
    is "$1" "$(paste <(losses "$2") <(losses "$3") | awk -v most="$4" '
        { d = $1 > $2 ? $1 - $2 : $2 - $1; if (NF != 2 || !(d <= most * $2)) bad = bad " " $1 "/" $2; n++ }
        END { print n + 0 bad }')" "$(losses "$3" | wc -l)"
}
hash() { sed -n 's/^params hash //p' <<<"$out"; }

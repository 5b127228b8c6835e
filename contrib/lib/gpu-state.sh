# shellcheck shell=bash
# gpu-state.sh - which state of the GPU's code a measurement belongs to.

# gpu_state TREE: one checksum of all that runs on a GPU or talks to one.
gpu_state() {
    (cd "$1" && find kernels/cuda kernels/model/cuda runtime/device runtime/nccl runtime/gpu runtime/train/gmodel* \
        -type f \( -name '*.cu' -o -name '*.[ch]' \) 2>/dev/null |
        LC_ALL=C sort | xargs -r sha256sum | sha256sum | cut -c1-16)
}

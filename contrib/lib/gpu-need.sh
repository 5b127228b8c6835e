# shellcheck shell=bash disable=SC2154
# gpu-need.sh - what contrib/gpu-check builds with, and a machine may lack or have in an odd place: the packages that
# contrib/bundle brings, and CUDA's parts that came with pip. Adds to what configure is told: $options, $cppflags and
# $ldflags. $out, $packages, $lend_all and stop() are the caller's.

options=() cppflags=() ldflags=()
python=${PEER_PYTHON:-python3}

add_library_path() { export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$1; }
has_header() { echo "#include <$1>" | gcc -E -x c "${@:2}" - >/dev/null 2>&1; }

# ---- packages ----

# lend HEADER PACKAGE... [-- VARIABLE CFLAGS LIBS]: unpacks the packages into $out/root unless the machine has the
# header. Configure is told by VARIABLE_CFLAGS and VARIABLE_LIBS what pkg-config does not know, or is not there to tell;
# an empty one tells nothing, hence the blank.
lend() {
    local header=$1 name names=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do names+=("$1") && shift; done
    if [ -z "$lend_all" ] && has_header "$header"; then
        [ $# -eq 0 ] || command -v pkg-config >/dev/null || options+=("$2_CFLAGS= " "$2_LIBS= ${4##* }")
        return
    fi
    [ -n "$packages" ] || stop packages "$header is missing here: --packages DIR, see contrib/bundle"
    for name in "${names[@]}"; do
        [ -r "$packages/$name.tar.gz" ] || stop packages "$packages has no $name.tar.gz"
        tar -xzf "$packages/$name.tar.gz" -C "$out/root"
    done
    [ $# -eq 0 ] || options+=("$2_CFLAGS=$3" "$2_LIBS=$4 ")
}
lend_what_is_missing() {
    local include=$out/root/usr/include lib=$out/root/usr/lib/x86_64-linux-gnu
    lend hwloc.h libhwloc-dev libhwloc15 libhwloc-plugins libpciaccess0 libudev1 -- HWLOC "-I$include" "-L$lib -lhwloc"
    lend jansson.h libjansson-dev libjansson4 -- JANSSON "-I$include -I$include/x86_64-linux-gnu" "-L$lib -ljansson"
    lend xxhash.h libxxhash-dev -- XXHASH "-I$include" ""
    lend cmocka.h libcmocka-dev libcmocka0 -- CMOCKA "-I$include" "-L$lib -lcmocka"
    lend cblas.h libopenblas-pthread-dev
    [ -d "$out/root/usr" ] || return 0
    ln -sfn openblas-pthread/cblas.h "$include/x86_64-linux-gnu/cblas.h" 2>/dev/null || :
    cppflags+=("-I$include/x86_64-linux-gnu/openblas-pthread")
    ldflags+=("-Wl,-rpath,$lib" "-Wl,-rpath-link,$lib:$out/root/lib/x86_64-linux-gnu")
    add_library_path "$lib:$out/root/lib/x86_64-linux-gnu"
}

# ---- CUDA ----

# Folders of pip's that have parts of CUDA: .../site-packages/nvidia/cu13, or nvidia/cublas, nvidia/nccl ...
pip_folders() {
    "$python" -c '
import os, nvidia
for root in nvidia.__path__:
    for name in sorted(os.listdir(root)):
        print(os.path.join(root, name))' 2>/dev/null || :
}
loads() { LD_TRACE_LOADED_OBJECTS=1 LD_PRELOAD=$1 /bin/true 2>&1 | grep "$1 => /" >/dev/null; }

# The compiler's own headers win, then the system's: pip's may be of another version.
find_cuda_parts() {
    local cuda header folder file folders
    cuda=$(dirname "$(dirname "$(command -v nvcc)")")
    mapfile -t folders < <(pip_folders)
    for header in cuda_runtime.h cublasLt.h nccl.h; do
        ! has_header $header "-I$cuda/include" || continue
        for folder in "${folders[@]}"; do
            [ -r "$folder/include/$header" ] || continue
            case $header in
            nccl.h) options+=("--with-nccl=$folder") ;;
            cuda_runtime.h) export NVCC_APPEND_FLAGS="-I$folder/include" ;;&
            *) cppflags+=("-idirafter $folder/include") && ldflags+=("-L$folder/lib") ;;
            esac
            break
        done
    done
    for file in libnccl.so.2 'libcublasLt.so.*'; do
        ! loads "$file" || continue
        for folder in "$cuda/lib64" "$cuda/targets/x86_64-linux/lib" "${folders[@]/%//lib}"; do
            compgen -G "$folder/$file" >/dev/null || continue
            add_library_path "$folder"
            break
        done
    done
}

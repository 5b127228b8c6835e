#!/bin/bash
# Who includes whom: the tree keeps the rules, and the checker sees each kind of violation.
source "$(dirname "$0")/lib/tap.sh"
layering=$top_srcdir/t/lib/layering

ok "the tree keeps its rules" "$layering" "$top_srcdir"

# A copy of the tree, with a header in every room to be included where it must not be.
copy() {
    local room
    rm -rf "$tmp/tree" && mkdir "$tmp/tree"
    for room in runtime runtime/train runtime/cli kernels pmix topology topology/show spank; do
        [ ! -d "$top_srcdir/$room" ] || cp -r "$top_srcdir/$room" "$tmp/tree/"
        mkdir -p "$tmp/tree/$room"
        chmod -R u+w "$tmp/tree/$room"
        echo >"$tmp/tree/$room/planted.h"
    done
}
# planted FILE LINE REPORT: a copy of the tree with LINE added to FILE is reported with a line that matches REPORT.
planted() {
    copy
    mkdir -p "$(dirname "$tmp/tree/$1")"
    printf '%s\n' "$2" >>"$tmp/tree/$1"
    run "$layering" "$tmp/tree"
    like "caught: $2 in $1" "$rc:$out" "^1:.*$3"
}
copy
ok "a copy of the tree keeps them too" "$layering" "$tmp/tree"
planted runtime/base/error.c '#include "kernels/planted.h"' "base/error.c:[0-9]+: runtime/base/ may not include kernels/"
planted runtime/base/error.h '#include "runtime/ddp.h"' "may not include runtime/"
planted kernels/new.c '#include "pmix/planted.h"' "kernels/ may not include pmix/"
planted kernels/new.cu '  #  include "runtime/planted.h"' "kernels/ may not include runtime/"
planted pmix/new.c '#include "topology/planted.h"' "pmix/ may not include topology/"
planted topology/planted.h '#include "kernels/planted.h"' "topology/ may not include kernels/"
planted topology/new.c '#include "topology/show/planted.h"' "topology/ may not include topology/show/"
planted spank/new.c '#include "pmix/planted.h"' "spank/ may not include pmix/"
planted runtime/new.c '#include "spank/planted.h"' "runtime/ may not include spank/"
planted runtime/comm/new.c '#include "runtime/planted.h"' "runtime/comm/ may not include runtime/"
planted runtime/ckpt/new.c '#include "runtime/planted.h"' "runtime/ckpt/ may not include runtime/"
planted runtime/data/new.c '#include "runtime/planted.h"' "runtime/data/ may not include runtime/"
planted runtime/device/new.c '#include "runtime/planted.h"' "runtime/device/ may not include runtime/"
planted runtime/sched/new.c '#include "runtime/planted.h"' "runtime/sched/ may not include runtime/"
planted runtime/new.c '#include "runtime/train/planted.h"' "runtime/ may not include runtime/train/"
planted runtime/new.c '#include "runtime/cli/planted.h"' "runtime/ may not include runtime/cli/"
planted runtime/train/new.c '#include "runtime/cli/planted.h"' "runtime/train/ may not include runtime/cli/"
planted runtime/cli/new.c '#include "spank/planted.h"' "runtime/cli/ may not include spank/"
planted kernels/cuda/cuda.h '#include "t/lib/cudaemu/cudaemu.h"' "not a path from the root"
planted kernels/cuda/cast.cu '#include "t/lib/cudaemu/cudaemu.h"' "not a path from the root"
planted kernels/cuda/cast.cu '#include <cuda_bf16.h>' "belongs to kernels/cuda/cuda.h"
planted runtime/ddp.h '#include "runtime/base/error.h"' "not installed"
planted runtime/new.c '#include "base/error.h"' "not a path from the root"
planted runtime/new.c '#include <runtime/planted.h>' "with quotes"
planted runtime/new.c '#include <pmix.h>' "pmix.h belongs to pmix/"
planted kernels/new.c '#include <hwloc/cudart.h>' "belongs to topology/"
planted pmix/new.c '#include <nccl.h>' "nccl.h belongs to runtime/comm/"
planted runtime/new.c '#include <nccl.h>' "nccl.h belongs to runtime/comm/, not to runtime/"
planted runtime/new.c '#include <xxhash.h>' "xxhash.h belongs to runtime/ckpt/"
planted runtime/new.c '#include <cuda_runtime_api.h>' "cuda_runtime_api.h belongs to runtime/device/"
planted runtime/new.c '#include <cblas.h>' "cblas.h belongs to kernels/"
planted runtime/train/new.c '#include "runtime/cli/planted.h"' "runtime/train/ may not include runtime/cli/"
planted runtime/new.c '#include <slurm/spank.h>' "slurm/spank.h belongs to spank/"
for header in pmix:pmix.h topology:hwloc.h runtime/comm:nccl.h kernels:cblas.h runtime/device:cuda_runtime_api.h runtime/ckpt:xxhash.h spank:slurm/spank.h; do
    copy
    for file in one.c two.c; do echo "#include <${header#*:}>" >"$tmp/tree/${header%:*}/$file"; done
    run "$layering" "$tmp/tree"
    like "caught: ${header#*:} in two files" "$rc:$out" "^1:.*${header##*[:/]} is included by more than one file"
done
for block in error dtype; do
    copy
    sed -i "/begin ddp_$block/a typedef int planted;" "$tmp/tree/runtime/base/$block.h"
    run "$layering" "$tmp/tree"
    like "caught: ddp_$block differs" "$rc:$out" "^1:.*$block.h: the lines between begin and end ddp_$block differ"
    sed -i "/begin ddp_$block/d" "$tmp/tree/runtime/ddp.h"
    run "$layering" "$tmp/tree"
    like "caught: ddp_$block is gone" "$rc:$out" "^1:.*has no lines"
done
mkdir "$tmp/empty"
run "$layering" "$tmp/empty"
is "an empty tree does not pass" "$rc" 1
done_testing

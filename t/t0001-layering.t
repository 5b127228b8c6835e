#!/bin/bash
# Who includes whom, and how long a line is: the tree keeps the rules, and the checkers see each kind of violation.
source "$(dirname "$0")/lib/tap.sh"
layering=$top_srcdir/t/lib/layering
declare -A may_include
while read -r room allowed; do may_include[$room]=" $allowed "; done < <(grep -v '^#' "$top_srcdir/t/lib/rooms")

ok "the tree keeps its rules" "$layering" "$top_srcdir"

# A copy of the tree, with a header in every room to be included where it must not be.
copy() {
    local room
    rm -rf "$tmp/tree" && mkdir "$tmp/tree"
    cp -r "$top_srcdir"/{runtime,kernels,pmix,topology,spank} "$tmp/tree/"
    chmod -R u+w "$tmp/tree"
    for room in "${!may_include[@]}"; do echo >"$tmp/tree/$room/planted.h"; done
}
copy
ok "a copy of the tree keeps them too" "$layering" "$tmp/tree"
# Each room with a file that includes a header of every other room, and ddp.h.
for room in "${!may_include[@]}"; do
    for other in "${!may_include[@]}"; do
        [ "$other" = "$room" ] || echo "#include \"$other/planted.h\"" >>"$tmp/tree/$room/new.c"
    done
    [ "$room" = runtime ] || echo '#include "runtime/ddp.h"' >>"$tmp/tree/$room/new.c"
done
run "$layering" "$tmp/tree"
is "includes between rooms are violations" "$rc" 1
for room in "${!may_include[@]}"; do
    wanted=
    for other in "${!may_include[@]}"; do
        [ "$other" = "$room" ] || [[ ${may_include[$room]} == *" $other "* && $other != runtime ]] ||
            wanted+="$room/ may not include $other/ ($other/planted.h)"$'\n'
    done
    [ "$room" = runtime ] || [[ ${may_include[$room]} == *" ddp.h "* ]] ||
        wanted+="$room/ may not include runtime/ (runtime/ddp.h)"$'\n'
    found=$(sed -n "s,^$room/new.c:[0-9]*: ,,p" <<<"$out" | sort)
    is "$room/ includes what it may, and no more" "$found" "$(sort <<<"${wanted%$'\n'}")"
done

# plant FILE LINE REPORT: LINE, added to FILE, is to be reported with a line that matches REPORT. All are planted in one
# copy of the tree, which is checked once.
plants=()
plant() {
    printf '%s\n' "$2" >>"$tmp/tree/$1"
    plants+=("$1:$(wc -l <"$tmp/tree/$1"):|$2|$3")
}
copy
plant kernels/new.cu '  #  include "runtime/planted.h"' "kernels/ may not include runtime/"
plant topology/planted.h '#include "kernels/planted.h"' "topology/ may not include kernels/"
plant kernels/cuda/cuda.h '#include "t/lib/cudaemu/cudaemu.h"' "not a path from the root"
plant kernels/cuda/cast.cu '#include "t/lib/cudaemu/cudaemu.h"' "not a path from the root"
plant kernels/cuda/cast.cu '#include <cuda_bf16.h>' "belongs to kernels/cuda/cuda.h"
plant runtime/ddp.h '#include "runtime/base/error.h"' "not installed"
plant runtime/new.c '#include "base/error.h"' "not a path from the root"
plant runtime/new.c '#include <runtime/planted.h>' "with quotes"
plant runtime/new.c '#include <pmix.h>' "pmix.h belongs to pmix/"
plant kernels/new.c '#include <hwloc/cudart.h>' "belongs to topology/"
plant pmix/new.c '#include <nccl.h>' "nccl.h belongs to runtime/nccl/"
plant runtime/new.c '#include <nccl.h>' "nccl.h belongs to runtime/nccl/, not to runtime/"
plant runtime/new.c '#include <xxhash.h>' "xxhash.h belongs to runtime/ckpt/"
plant runtime/new.c '#include <cuda_runtime_api.h>' "cuda_runtime_api.h belongs to runtime/device/"
plant runtime/new.c '#include <elfutils/libdwfl.h>' "libdwfl.h belongs to runtime/stack/"
plant runtime/new.c '#include <cblas.h>' "cblas.h belongs to kernels/model/"
plant runtime/new.c '#include <slurm/spank.h>' "slurm/spank.h belongs to spank/"
run "$layering" "$tmp/tree"
is "planted includes are violations" "$rc" 1
for planted in "${plants[@]}"; do
    IFS='|' read -r where line report <<<"$planted"
    like "caught: $line in ${where%%:*}" "$out" "(^|"$'\n'")$where [^"$'\n'"]*$report"
done

once=(pmix:pmix.h topology:hwloc.h runtime/nccl:nccl.h kernels/model:cblas.h runtime/device:cuda_runtime_api.h
    runtime/ckpt:xxhash.h runtime/stack:elfutils/libdwfl.h spank:slurm/spank.h spank:slurm/slurm.h)
copy
for header in "${once[@]}"; do
    for file in one.c two.c; do echo "#include <${header#*:}>" >>"$tmp/tree/${header%:*}/$file"; done
done
run "$layering" "$tmp/tree"
for header in "${once[@]}"; do
    like "caught: ${header#*:} in two files" "$rc:$out" "^1:.*${header##*[:/]} is included by more than one file"
done
copy
for block in error dtype; do
    sed -i "/begin ddp_$block/a typedef int planted;" "$tmp/tree/runtime/base/$block.h"
    run "$layering" "$tmp/tree"
    like "caught: ddp_$block differs" "$rc:$out" "^1:.*$block.h: the lines between begin and end ddp_$block differ"
    sed -i "/begin ddp_$block/d" "$tmp/tree/runtime/ddp.h"
    run "$layering" "$tmp/tree"
    like "caught: ddp_$block is gone" "$rc:$out" "^1:.*has no lines between begin and end ddp_$block"
done
mkdir "$tmp/empty"
run "$layering" "$tmp/empty"
is "an empty tree does not pass" "$rc" 1

# too_long TREE: every line of more than 120 columns in what people write there, as FILE:LINE:TEXT.
too_long() {
    (cd "$1" && find Makefile.am contrib kernels pmix runtime spank t topology \
        \( -path t/data -o -name .libs \) -prune -o -type f \
        -regex '.*\.\(c\|h\|cu\|cc\|sh\|t\|mk\|am\|py\)' -print0 | LC_ALL=C.UTF-8 xargs -0 grep -HnE '.{121}')
}
is "no line is longer than 120 columns" "$(too_long "$top_srcdir" | cut -c1-100)" ""
mkdir -p "$tmp/wide"/{contrib,kernels,pmix,runtime,spank,t/data,topology}
line=$(printf '%0119d' 0)
wide=(Makefile.am contrib/a.sh contrib/b.py kernels/a.cu pmix/a.h runtime/a.c spank/local.mk t/a.t topology/a.cc)
for file in "${wide[@]}"; do printf '%s\n' ok "${line}ab" "${line}a" "$line"$'\303\251' >"$tmp/wide/$file"; done
echo "${line}ab" | tee "$tmp/wide/t/data/a.py" >"$tmp/wide/runtime/a.json"
is "caught: a line of 121 columns, and none of 120" "$(too_long "$tmp/wide" | cut -d: -f1,2 | sort)" \
    "$(printf '%s:2\n' "${wide[@]}" | sort)"
done_testing

#!/bin/bash
# What a program relies on that was built with a released libddp: t/data/libddp.abi holds. Structs that may grow cross
# with their size: programs that know less, or more, than this libddp run, or are told.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
abi=$top_srcdir/t/lib/abi
header=$top_srcdir/runtime/ddp.h
libs=$top_builddir/.libs
export CC=${CC:-cc}
unset RANK WORLD_SIZE "${!SLURM@}" "${!DDP_@}" "${!PMIX@}"

run "$abi" list "$header" "$libs/libddp.so"
is "libddp.so exports what ddp.h declares" "$rc$err" 0
echo "$out" >"$tmp/now"
[ "$(uname -m)" != x86_64 ] ||
    ok "programs of the release run" "$abi" compare "$top_srcdir/t/data/libddp.abi" "$tmp/now"

# changed DESC SED-SCRIPT RC REPORT: the list after a change
changed() {
    sed "$2" "$tmp/now" >"$tmp/changed"
    run "$abi" compare "$tmp/now" "$tmp/changed"
    like "$1" "$rc:$out" "^$3:.*$4"
}
changed "caught: a function is gone" '/ddp_bcast/d' 1 "gone.*ddp_bcast"
changed "caught: a function takes something else" '/ddp_bcast/s/size_t/int/' 1 "gone.*ddp_bcast"
changed "caught: a function has another version" '/ddp_bcast/s/DDP_0.1/DDP_0.2/' 1 "gone.*ddp_bcast"
changed "caught: a constant is another one" 's/DDP_KEEP_F16 4/DDP_KEEP_F16 8/' 1 "gone.*DDP_KEEP_F16 4"
changed "caught: a field is gone" '/field ddp_step lr /d' 1 "gone.*ddp_step lr"
changed "caught: a field is elsewhere" '/field ddp_step lr /s/24/32/' 1 "gone.*ddp_step lr"
changed "caught: a field has another type" '/field ddp_step lr /s/double/uint64_t/' 1 "gone.*ddp_step lr"
changed "caught: a struct is smaller" 's/^struct ddp_step 56/struct ddp_step 48/' 1 "gone.*struct ddp_step"
changed "caught: a fixed struct is larger" 's/^struct ddp_world 24/struct ddp_world 32/' 1 "gone.*struct ddp_world"
changed "caught: a field where there was padding" \
    '/field ddp_batch sync /a field ddp_batch late 37 bool' 1 "padding: .* late"
changed "a field at the end is none" \
    's/^struct ddp_batch 40/struct ddp_batch 48/;/field ddp_batch sync /a field ddp_batch late 40 bool' 0 ""
changed "nor is a new function" '1i function int ddp_new(ddp_t *) DDP_0.2' 0 ""
sed 's/^int ddp_barrier(.*/int ddp_new(ddp_t *d);/' "$header" >"$tmp/ddp.h"
run "$abi" list "$tmp/ddp.h" "$libs/libddp.so"
like "caught: what is declared is not exported" "$rc:$err" "^1:abi: declared or exported, not both: .*ddp_new"
sed 's/^int ddp_barrier(.*/int ddp_barrier(ddp_t *d, struct ddp_step *s);/' "$header" >"$tmp/ddp.h"
run "$abi" list "$tmp/ddp.h" "$libs/libddp.so"
like "caught: a struct that may grow, without its size" "$rc:$err" "^1:.*ddp_step may grow, .* ddp_barrier"

# program NAME [OPTION...]: compiled against $tmp/NAME/ddp.h, and run
program() {
    run $CC "${@:2}" -I"$tmp/$1" -o "$tmp/$1/program" "$top_srcdir/t/lib/abiprogram.c" -L"$libs" -lddp
    [ "$rc" -eq 0 ] || diag "$err"
    run env LD_LIBRARY_PATH="$libs" "$tmp/$1/program"
}
mkdir "$tmp/same" "$tmp/shrink" "$tmp/grow"
cp "$header" "$tmp/same/"
"$abi" variant "$header" shrink >"$tmp/shrink/ddp.h"
"$abi" variant "$header" grow >"$tmp/grow/ddp.h"
want="0:step 3, w -3, lr 0.5, gradients of 64 bytes"
program same
is "a program of this libddp" "$rc:$out" "$want"
program shrink
is "one of an earlier one, whose structs had fields less" "$rc:$out" "$want"
program grow -DLATER=1
is "one of a later one, whose structs have a field more" "$rc:$out" "$want"
told="the program sets what libddp [0-9.]+ does not know: it needs the libddp that it was built with, or a later one"
program grow -DLATER=2
like "... which it sets for the optimizer" "$rc:$out" "^1:.*ddp_commit: $told"
program grow -DLATER=3
like "... and for a hook" "$rc:$out" "^1:.*ddp_hook: $told"
done_testing

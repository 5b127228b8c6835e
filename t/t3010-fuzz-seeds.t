#!/bin/bash
# The fuzz targets on their seeds; t9010-fuzz.t goes on from there.
source "$(dirname "$0")/lib/tap.sh"

for target in lists record head manifest runs; do
    seeds=("$top_srcdir/t/fuzz/corpus-$target"/*)
    run "$top_builddir/t/fuzz/$target" "${seeds[@]}"
    is "every seed for $target keeps the promises" "$rc:$out" "0:${#seeds[@]} inputs"
    ok "there are seeds for $target" test ${#seeds[@]} -ge 4
done
done_testing

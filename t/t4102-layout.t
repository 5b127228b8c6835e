#!/bin/bash
# Ranks that declare different models are told which parameter differs, and nobody hangs.
. "$(dirname "$0")/lib/tap.sh"
text=/usr/share/common-licenses/GPL-3
train="$top_builddir/train --steps 2 --data $text --model tiny"

run "$top_builddir/ddp" run -n 3 sh -c "exec $train --layers \$((4 + (RANK == 2)))"
is "a layer more on rank 2: exit code" "$rc" 1
like "both ranks and the parameter are named" "$err" 'parameter [0-9]+ is "[^"]*" on rank 0 and "[^"]*" on rank 2'
run "$top_builddir/ddp" run -n 2 sh -c "exec $train --width \$((128 + 64 * RANK))"
like "another width on rank 1: the first parameter that differs" "$err" \
    'parameter 0 is "wte[^"]* f32 \[256,128\] [^"]*" on rank 0 and "wte[^"]* f32 \[256,192\] [^"]*" on rank 1'
done_testing

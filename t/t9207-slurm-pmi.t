#!/bin/bash
# Steps without PMIx, many of them: 200 of eight ranks on four nodes.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
[ -f "$top_builddir/.libs/ddp.so" ] || skip_all "this build lacks the plugin"

cluster_up 4
failures=""
for ((i = 1; i <= 200; i++)); do
    cluster_run srun -K --ddp=on,mpi=pmi2 -N4 -n8 \
        "$top_builddir/train" --data /usr/share/common-licenses/GPL-3 --steps 1
    [[ $rc = 0 && $out == *"step 1/1 "* ]] || failures+="$i: $rc $err"$'\n'
done
is "200 of 200 steps train" "$failures" ""
done_testing

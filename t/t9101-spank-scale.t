#!/bin/bash
# The guards of a thousand nodes and more, whose tree has four levels, all hear of a death and start again, also where
# rank 0's node is lost. SCALE_NODES: so many nodes of one rank. In a network namespace, for its ports. As root.
# shellcheck disable=SC2034,SC2154
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
run_deadline=600

# scale NODES RANKS
scale() {
    run unshare --net bash -c 'ip link set lo up && echo 1024 19999 >/proc/sys/net/ipv4/ip_local_port_range &&
        exec "$@"' - "$top_builddir/t/lib/guardscale" "$1" "$2"
    is "$1 nodes, ranks on each: $2" "$rc" 0
    diag "$out$err"
}
scale "${SCALE_NODES:-1100}" 1
scale 200 8
done_testing

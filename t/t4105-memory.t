#!/bin/bash
# Tensors beyond the control group's limit are refused with numbers, instead of a kill by the kernel.
. "$(dirname "$0")/lib/tap.sh"
probe=$top_builddir/t/lib/apiprobe

if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    group=/sys/fs/cgroup/ddp-t4105.$$ limit=memory.max
else
    group=/sys/fs/cgroup/memory/ddp-t4105.$$ limit=memory.limit_in_bytes
fi
mkdir "$group" 2>/dev/null || skip_all "control groups cannot be made here"
at_exit "rmdir $group"
echo 200M >"$group/$limit" 2>/dev/null && sh -c "echo \$\$ >$group/cgroup.procs" 2>/dev/null ||
    skip_all "control groups cannot be limited here"

within() {
    run sh -c "echo \$\$ >$group/cgroup.procs && exec \"\$@\"" sh \
        "$top_builddir/ddp" run -n 2 "$probe" "$@" --ddp-zero=0
}
within memory $((5 << 20))
is "2 x 80 MiB fit into 200" "$rc $(grep -cx ok <<<"$out")" "0 2"
within memory $((8 << 20))
is "2 x 128 MiB do not: nobody is killed" "$rc $(grep -cx ok <<<"$out")" "0 2"
wanted="2 ranks on this node want 268435456 bytes of memory \(optimizer state: 67108864 each\)"
like "bytes wanted and allowed are named" "$out" \
    "$wanted, but their control group allows 209715200 and has [0-9]+ left"
done_testing

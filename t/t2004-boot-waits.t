#!/bin/bash
# Waits of others' making end at our deadline: the resolver's, libpmix's.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
probe=$top_builddir/t/lib/bootprobe
unset DDP_BOOT DDP_BOOT_ADDR DDP_BOOT_TOKEN DDP_RANK DDP_SIZE DDP_NODE PMIX_NAMESPACE PMIX_RANK SLURM_NTASKS \
    SLURM_STEP_NUM_TASKS

# In a network of its own, where nobody reads what is sent to the only name server.
cat >"$tmp/silent.sh" <<'SCRIPT'
PATH=$PATH:/usr/sbin:/sbin
ip link add hole0 type veth peer name hole1 && ip addr add 192.0.2.1/24 dev hole0 && ip link set hole0 up &&
    ip link set hole1 up && ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev hole0 &&
    mount --bind "$1/resolv.conf" /etc/resolv.conf && mount --bind "$1/nsswitch.conf" /etc/nsswitch.conf || exit 99
exec "${@:2}"
SCRIPT
printf 'nameserver 192.0.2.9\noptions timeout:30 attempts:5\n' >"$tmp/resolv.conf"
echo "hosts: files dns" >"$tmp/nsswitch.conf"
run unshare -m -n bash "$tmp/silent.sh" "$tmp" true
if [ "$rc" -eq 0 ]; then
    token=$(printf 'a%.0s' {1..64})
    run env DDP_BOOT_ADDR=tcp:n1.nowhere.test:4711 DDP_BOOT_TOKEN="$token" DDP_RANK=0 DDP_SIZE=2 \
        unshare -m -n bash "$tmp/silent.sh" "$tmp" "$probe" --timeout 0.5
    like "a resolver that is silent" "$rc $(wc -l <<<"$err") $err" \
        "^1 1 bootprobe: .*host n1.nowhere.test: the resolver does not answer.*/etc/resolv.conf"
else
    diag "no network namespace here: a silent resolver is not tested ($err)"
fi

# ---- libpmix: a double of it that serves one rank, and of which one call never returns ----
double=$top_builddir/t/lib/pmixdouble/.libs
run env DDP_BOOT=pmix LD_LIBRARY_PATH="$double" "$probe"
if [[ $err = *"lacks PMIx"* ]]; then
    diag "this build lacks PMIx: its waits are not tested"
    done_testing
fi
like "the double serves its rank" "$rc $out$err" "^0 rank 0 of 1: "
hang() { # CALL OPTION...
    run env DDP_BOOT=pmix LD_LIBRARY_PATH="$double" PMIX_DOUBLE_HANG="$1" "$probe" "${@:2}"
}
run env DDP_BOOT=pmix LD_LIBRARY_PATH="$double" PMIX_DOUBLE_LATE=1 "$probe"
like "a daemon that takes a while to tell of the program before" "$rc $out$err" "^0 rank 0 of 1: "
for call in PMIx_Init PMIx_Commit; do
    hang $call --timeout 0.3
    like "a $call that does not return" "$rc $(wc -l <<<"$err") $out$err" \
        "^1 1 bootprobe: $call does not return within the deadline: .*slurmstepd"
done
hang PMIx_Get_nb --timeout 0.3
like "a PMIx_Get_nb that nobody answers" "$rc $(wc -l <<<"$err") $out$err" "^1 1 bootprobe: PMIx does not tell"
hang PMIx_Finalize
like "a PMIx_Finalize that does not return" "$rc $(wc -l <<<"$err") $out$err" \
    "^1 1 rank 0 of 1: .*bootprobe: rank 0: PMIx_Finalize does not return within the deadline: .*slurmstepd"
done_testing

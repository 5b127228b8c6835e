#!/bin/bash
# Where a topology plugin orders tasks (Slurm 26.05; earlier ones let it choose nodes, and leave tasks in the nodes'
# order), rank 0 is on another node than the list's first: all tasks agree on its node, and training works.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"

cat >"$tmp/show" <<'SCRIPT'
#!/bin/sh
echo "$RANK $SLURMD_NODENAME $MASTER_ADDR $NODE_RANK $GROUP_RANK $LOCAL_RANK"
SCRIPT
chmod 755 "$tmp" "$tmp/show"
release=$(slurmctld -V | grep -oE '[0-9]+\.[0-9]+' | head -n 1)
orders_tasks=$(awk -v r="$release" 'BEGIN { if (r >= 26.05) print "yes" }')
orders() { # DESC PLUGIN LINE...: of topology.conf
    printf '%s\n' "${@:3}" >"$tmp/topology.conf"
    cluster_up 4 --conf "TopologyPlugin=topology/$2" --beside "$tmp/topology.conf"
    cluster_run srun --ddp=on -N4 -n8 --ntasks-per-node=2 "$tmp/show"
    sort -n <<<"$out" >"$tmp/seen"
    if [ "$orders_tasks" ]; then
        is "$1: the tasks' order is not the list's" "$(awk '{ print $2 }' "$tmp/seen" | uniq | xargs)" "n3 n4 n1 n2"
    fi
    is "$1: eight ranks" "$rc $(awk '{ print $1 }' "$tmp/seen" | xargs)" "0 0 1 2 3 4 5 6 7"
    is "... rank 0's node is MASTER_ADDR everywhere" "$(awk '{ print $3 }' "$tmp/seen" | sort -u)" \
        "$(awk 'NR == 1 { print $2 }' "$tmp/seen")"
    is "... and the first" "$(awk 'NR == 1 { print $4, $5 }' "$tmp/seen")" "0 0"
    is "... each node has a number" "$(awk '{ print $4 }' "$tmp/seen" | sort | uniq -c | xargs)" "2 0 2 1 2 2 2 3"
    cluster_run srun -K --ddp=on,guard -N4 -n8 "$top_builddir/train" --data /usr/share/common-licenses --steps 1
    like "... and they train, with guards" "$rc $out" "^0 .*step 1/1 "
    # shellcheck disable=SC2016
    cluster_run srun --ddp=on,guard -N4 -n8 --ntasks-per-node=2 sh -c '[ $RANK = 6 ] && exit 3; exec sleep 60'
    is "... which find each other" "$(grep -c '^ddp: rank 6 .* exited with code 3 ' <<<"$err")" 1
    cluster_run srun --ddp=on -N4 -n6 "$tmp/show" # two tasks on two nodes, one on the others
    sort -n <<<"$out" >"$tmp/seen"
    is "... an uneven step, too, agrees on rank 0's node" \
        "$rc $(awk '{ print $3 }' "$tmp/seen" | sort -u) $(awk 'NR == 1 { print $4, $5 }' "$tmp/seen")" \
        "0 $(awk 'NR == 1 { print $2 }' "$tmp/seen") 0 0"
    is "... each node has a number there, too" "$(awk '{ print $4 }' "$tmp/seen" | sort -u | xargs)" "0 1 2 3"
    cluster_down
}
orders tree tree "SwitchName=leaf1 Nodes=n[3-4]" "SwitchName=leaf2 Nodes=n[1-2]" "SwitchName=root Switches=leaf[1-2]"
has_plugin() { find /usr/lib* -name "topology_$1.so" 2>"$tmp/find.err" | grep -q .; }
if has_plugin block; then
    orders block block "BlockName=b1 Nodes=n[3-4]" "BlockName=b2 Nodes=n[1-2]" "BlockSizes=2"
else
    diag "this Slurm has no topology/block"
fi
done_testing

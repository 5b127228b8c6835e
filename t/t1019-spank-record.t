#!/bin/bash
# The record that guards write (ddp-record(5)) of a program that knows nothing of libddp, and of one that cannot say any
# more why it ended.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
chmod 755 "$tmp"
mkdir -m 777 "$tmp/out"
record=$tmp/out/record
check=(/usr/bin/python3 "$top_srcdir/t/lib/recordcheck" "$top_srcdir/doc/record.schema.json" "$record")
lines() { ddp_lines "$tmp/run.err"; }
members() { # NAME...: of each line that a guard wrote
    python3 -c 'import json, sys
for line in map(json.loads, open(sys.argv[1])):
    if line.get("by") == "guard":
        print(*(line[name] for name in sys.argv[2:] if name in line))' "$record" "$@"
}
events() { members event restart rank how | paste -sd,; }

cluster_up 2 --cpus 4
step() { cluster_run srun -N2 -n4 --ddp=on,"$@"; }

# ---- any program ----
# shellcheck disable=SC2016
cluster_run env DDP_RECORD=record srun --chdir="$tmp/out" -N2 -n4 --ddp=on,restarts=2 \
    bash -c '[ $RANK = 3 ] && [ $DDP_RESTART = 0 ] && exit 3; [ $DDP_RESTART = 1 ] || sleep 600' words
said=$(lines)
is "a shell's ranks are started again: runs" "$rc" 0 || diag "$err"
is "... and its record has both generations, the failure and the end" "$(events)" \
    "start 0,failure 0 3,start 1,end 1 done"
is "... the failure as it was said" "$(members text | grep .)" "$(sed -n 's/^ddp: \(rank 3 .*\)/\1/p' <<<"$said")"
is "... with the program, ranks and nodes" "$(members program ranks nodes | head -n 1)" "bash 4 ['n1', 'n2']"
run "${check[@]}"
is "... by the schema" "$rc $out" "0 start failure start end"
like "one line says what its time was worth" "$(grep -c goodput <<<"$said") $(grep goodput <<<"$said")" \
    '^1 ddp: goodput [0-9.]+% of .*: useful .*lost '
job=$(members job | head -n 1)
cluster_run scontrol -o show job "${job%.*}"
like "... and so does the job's comment" "$out" ' Comment=ddp: goodput [0-9.]+% of [^:]*: lost '
cluster_run "$top_builddir/ddp" report "$record"
like "ddp report shows it" "$out" "interruptions +1 restart"
unlike "... without steps, of which it has none" "$out" "step|  [0-9:.]+ +[0-9]+  [a-z]"
cluster_run "$top_builddir/ddp" report "$record" "$record"
unlike "... nor beside another" "$out" "step"

rm "$record"
cluster_run env DDP_RECORD="$record" srun -N2 -n4 --ddp=on,guard=on "$top_builddir/ddp" check
like "ddp check, before it, keeps none" "$(ls "$tmp/out"):$out" '^:.*(^|'$'\n'')ok '
# shellcheck disable=SC2016
cluster_run env DDP_RECORD="$record" srun -N2 --ntasks-per-node=2 --ddp=on,guard=on bash -c '[ $RANK = 3 ] &&
    kill -KILL $$; [ $RANK = 2 ] && trap "sleep 1; exit 1" TERM; while :; do sleep 1; done'
is "one that fails for good, and whose last rank ends late" "$(events)" "start 0,failure 0 3,end 0 failed"
like "... was worth nothing, said once" "$(lines | grep -c goodput) $(lines | grep goodput)" '^1 .*goodput 0.0% of'

# ---- one of libddp ----
rm "$record"
few=(--data /usr/share/common-licenses --layers 1 --width 32 --heads 2 --context 32 --val-windows 1)
step guard=on "$top_builddir/train" "${few[@]}" --steps 3 --ddp-record="$record"
is "a program that writes its own: its start and its end" "$rc $(events)" "0 start 0,end 0 done"
is "... says alone what its time was worth" "$(lines | grep -c goodput) $(grep -c ^goodput <<<"$out")" "0 1"
cluster_run "$top_builddir/ddp" report "$record"
like "... and is reported as one start" "$out" "interruptions +0 restarts"
rm "$record"
echo "0 3" >"$tmp/out/kills"
step restarts=1 "$top_srcdir/t/lib/victim" "$tmp/out/kills" "$tmp/out/steps" "$top_builddir/train" "${few[@]}" \
    --steps 200 --log-json "$tmp/out/steps" --ddp-record="$record"
is "its rank 0 is killed: what that could not write" "$rc $(events)" "0 start 0,failure 0 0,start 1,end 1 done"
run "${check[@]}"
like "... stands where it belongs" "$rc $out" '^0 start start train interval .*failure start start train .*end end$'

# ---- where it cannot be written ----
ln -sf nowhere "$tmp/out/link"
cluster_run env DDP_RECORD="$tmp/out/link" srun -N2 -n4 --ddp=on,guard=on true
like "a record that cannot be written is a warning" "$rc $(lines)" \
    "^0 ddp: warning: the guard: record .*/link: it is a symbolic link: name the file itself\$"
done_testing

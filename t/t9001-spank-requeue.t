#!/bin/bash
# A requeued batch job: same job, next restart count, another MASTER_PORT, no drained node. Slurm lets it wait two
# minutes.
source "$(dirname "$0")/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
cluster_up 2 --cpus 4
log=$cluster_dir/home/out

cat >"$tmp/job" <<'JOB'
#!/bin/sh
#SBATCH --ddp=on -N2 -n2 --requeue --open-mode=append
srun sh -c '[ $RANK = 1 ] || echo "restart ${SLURM_RESTART_COUNT:-0} $MASTER_PORT $SLURM_DDP_DRAW"'
[ -n "$SLURM_RESTART_COUNT" ] || sleep 600
echo end
JOB
wait_for_line() { # ERE SECONDS
    local deadline=$((SECONDS + $2))
    until grep -Eqs "$1" "$log"; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.5
    done
}
cluster_run sbatch --parsable -o "$log" "$tmp/job"
job=$out
ok "it runs" wait_for_line '^restart 0 ' 60
cluster_run scontrol requeue "$job"
is "it is requeued" "$rc$err" 0
ok "it runs again" wait_for_line '^end$' 300
without_draw() { sed -n "s/^restart $1 //p" "$log" | { read -r port draw && echo $((port - draw * 16 % 10000)); }; }
is "with a number of its own" "$(sed -n 's/^restart //p' "$log" | cut -d' ' -f3 | sort -u | wc -l)" 2
is "... and beside that with a port half the range away" \
    "$((($(without_draw 1) - $(without_draw 0) + 20000) % 10000))" 5001
cluster_run sinfo -h -N -t drain,down,fail -o "%N %T"
is "no node is the worse for it" "$out" ""
done_testing

#!/bin/bash
# MASTER_PORT: the same for all tasks of a step, another for every step, and nobody else can know it beforehand.
source "$(dirname "$0")/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
cluster_up 3 --cpus 4 --netns
peers=$top_builddir/t/lib/peers

cat >"$tmp/port" <<'PORT'
#!/bin/sh
echo "$SLURM_JOB_ID $SLURM_STEP_ID ${SLURM_DDP_DRAW-none} $MASTER_PORT"
PORT
chmod 755 "$tmp/port"

# The lines of steps: what is wrong with them. Their ports follow from srun's number.
wrong() { awk '{ if ($4 != 20000 + (17 * $1 + 16 * $3 + $2) % 10000) print "not by the formula:", $0 }' <<<"$1"; }
numbers() { awk '{ print $3 }' <<<"$1" | sort -u; }
ports() { awk '{ print $4 }' <<<"$1" | sort -u; }

cluster_run srun --ddp=on -N3 -n6 "$tmp/port"
is "all tasks have the same" "$(wc -l <<<"$out") $(sort -u <<<"$out" | wc -l)" "6 1"
is "... by a number that srun drew" "$(wrong "$out")" ""
first=$(numbers "$out")
cluster_run srun --ddp=on -N1 -n1 "$tmp/port"
is "... by another one for the next srun" "$( (numbers "$out" && echo "$first") | sort -u | grep -xEc '[0-9]+')" 2
cluster_run srun --ddp=on,verbose -N1 -n1 "$tmp/port"
is "a verbose step has one, too" "$(wrong "$out")" ""

# Without PMIx, and no more than four at once: slurmd 22.05.8 may die where many of its steps start together, also
# without the plugin.
cat >"$tmp/steps" <<JOB
#!/bin/sh
#SBATCH -N2 -n2 --ddp=on,mpi=none
export SLURM_CPU_BIND=none
for i in 1 2; do
    for k in 1 2 3 4; do srun --overlap -N2 -n2 $tmp/port & done
    wait
done
srun -N1 -n1 /bin/sh -c '$tmp/port; SLURM_CPU_BIND=none srun --overlap -N1 -n1 $tmp/port'
srun -N1 -n1 --export=NONE $tmp/port
SLURM_DDP_DRAW=5 srun -N1 -n1 $tmp/port
JOB
cluster_run sbatch --wait -o "$cluster_dir/home/steps.out" "$tmp/steps"
out=$(steady "$cluster_dir/home/steps.out")
is "steps of a job, most of them at the same time" "$(wc -l <<<"$out")" 20
is "... each with a number of its own, nested, without the environment, or with one there" \
    "$(numbers "$out" | grep -xEc '[0-9]+')" 12
is "... and a port of its own" "$(wrong "$out")$(ports "$out" | wc -l)" 12
cluster_run srun --ddp=on -n1 sh -c "srun --overlap --ddp=off -n1 $tmp/port"
like "a task's own srun without ddp does not inherit it" "$out" ' none $'
around='echo around ${SLURM_STEP_RESV_PORTS:+1}'
cluster_run srun --resv-ports=2 -N1 -n1 sh -c "$around; srun --overlap --ddp=on,mpi=pmi2 -N1 -n1 $tmp/port"
is "a task's own srun takes none of the ports that Slurm reserved for the step around it" \
    "$(grep -c '^around 1' <<<"$out") $(wrong "$(grep -v around <<<"$out")")" "1 "
cluster_run srun --resv-ports=2 -N1 -n1 sh -c "srun --overlap --ddp=on --resv-ports=0 -N1 -n1 $tmp/port"
is "... nor with --resv-ports=0" "$rc $(wrong "$out")" "0 "
cluster_run srun --ddp=on,mpi=none -w n3 -n1 "$tmp/port" : -w n1,n2 -n3 "$tmp/port"
is "a heterogeneous step has one" "$(wc -l <<<"$out") $(numbers "$out" | wc -l) $(ports "$out" | wc -l)" "4 1 1"

# Another user waits where a step of the next job would meet if its port followed from the job's number alone.
bound() { # PORT PID: it is taken on n1, or who wants it is gone
    cluster_exec n1 grep -qE "^ *[0-9]+: [0-9A-F]{8}:$(printf %04X "$1") .* 0A " /proc/net/tcp || ! kill -0 "$2"
}
squat_and_meet() {
    local job port pid=()
    : >"$tmp/squat.out"
    cluster_run srun -w n1 -n1 printenv SLURM_JOB_ID
    job=$((out + 1))
    for port in $((20000 + 16 * job % 10000)) $((20000 + 17 * job % 10000)); do
        RANK=0 WORLD_SIZE=2 MASTER_ADDR=n1 MASTER_PORT=$port "$top_srcdir/contrib/cluster" exec --dir "$cluster_dir" \
            n1 setpriv --reuid daemon --regid daemon --clear-groups "$peers" >>"$tmp/squat.out" 2>&1 &
        pid+=($!)
        until_true 20 bound "$port" $! || diag "nobody listens at $port"
    done
    is "another user listens at what would be the next job's port" "$(jobs -rp | wc -l)" 2
    cluster_run srun --ddp=on -w n1,n2 -n2 "$peers"
    met=$(sort <<<"$out")
    kill "${pid[@]}" 2>/dev/null
    wait "${pid[@]}" 2>/dev/null
}
# One step in 625 draws that very port; two in a row do not.
all=$'rank 0 met 2\nrank 1 met 2'
squat_and_meet
[ "$met" = "$all" ] || squat_and_meet
is "the step's ranks meet each other" "$met" "$all"
is "... and not him" "$(grep -c met "$tmp/squat.out")" 0

# Somebody listens there already.
port=31999
RANK=0 WORLD_SIZE=2 MASTER_ADDR=n1 MASTER_PORT=$port "$top_srcdir/contrib/cluster" exec --dir "$cluster_dir" n1 \
    "$peers" >"$tmp/taken.out" 2>&1 &
taken=$!
until_true 20 bound $port $taken || diag "nobody listens at $port"
cluster_run srun --ddp=on,port=$port -w n1,n2 -n2 true
is "a port that is taken on rank 0's node is told, once" "$rc $err" "0 ddp: warning: MASTER_PORT=$port is taken on n1, \
so that no program of this step can listen there: take another port="
cluster_run srun --ddp=on,port=$port -w n2,n3 -n2 true
is "... and on no other node" "$rc $err" "0 "
kill $taken
wait $taken 2>/dev/null
cluster_run srun --ddp=on,port=31998 -w n1,n2 -n2 "$peers"
is "ranks meet at a port of the user's choice" "$(sort <<<"$out")" "$all"
cluster_run srun --ddp=on,port=31998 -w n1,n2 -n2 true
is "... which those that have just left do not take" "$rc $err" "0 "
done_testing

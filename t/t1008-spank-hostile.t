#!/bin/bash
# What a user can do to a task before its program starts does not cost the node: under proctrack/linuxproc nothing ends
# such a task from outside, and Slurm drains a node whose step outlives its end.
source "$(dirname "$0")/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
site=$tmp/site.json
echo '{}' >"$site"
chmod 755 "$tmp"
cluster_up 3 --cpus 128 --site "$site" --conf UnkillableStepTimeout=10

node_is() { cluster_run sinfo -h -o %T && [ "$out" = "$1" ]; } # all of them

# Lists of components, as long as variables can be, in a step that has one component.
cat >"$tmp/hostile" <<'JOB'
#!/bin/bash
list="m[$(printf '1,%.0s' {1..60000})1]"
export SLURM_HET_SIZE=128 SLURM_HET_JOB_ID=1
for ((i = 0; i < 12; i++)); do export "SLURM_JOB_NODELIST_HET_GROUP_$i=$list"; done
timeout -s INT 20 srun "$@" -N1 -n1 /bin/echo hello
JOB
chmod 755 "$tmp/hostile"
cluster_run "$tmp/hostile"
want=$rc:$out:$err
like "such a step runs, or Slurm (26.05) refuses it" "$want" "^0:hello:$|--het-group expected to be used within"
cluster_run "$tmp/hostile" --ddp=on
is "lists of a user's own keep no task" "$rc:$out:$err" "$want"
cluster_run scancel --user nobody
ok "... and the node is idle" until_true 60 node_is idle

# Words of a user's own are words, not lines: neither in the user's terminal nor in the node's log.
forged=$'x\nslurmd: forged: line\e[2J\xc2\x9b\xff'
MASTER_ADDR=$forged cluster_run srun --ddp=on,verbose -n1 true
like "a variable is quoted" "$err" 'your MASTER_ADDR=x slurmd: forged: line\?\[2J\?\? stays'
cat "$cluster_dir"/log/* >"$tmp/logs"
lacks() { ! LC_ALL=C grep -q "$@"; }
ok "... and begins no line" lacks '^slurmd: forged' "$tmp/logs" "$tmp/run.err"
ok "... nor moves a cursor" lacks $'\e' "$tmp/logs" "$tmp/run.err"
DDP_BIND=$forged cluster_run srun --ddp=on -n1 true
ok "... in an error, too" lacks $'\e' "$tmp/run.err"
like "... which names it" "$err" 'bind=x slurmd: forged: line\?\[2J\?\? is not allowed'

# A record that never comes, and SIGALRM in the place of 5 s.
fifo=$cluster_dir/home/fifo
cluster_run mkfifo -m 644 "$fifo"
"$top_srcdir/contrib/cluster" run --dir "$cluster_dir" sh -c 'exec sleep 1000 <>"$1"' sh "$fifo" &
find_holder() { # sets $holder to the number of a process with that name that has the pipe open; quickly, since a task
    # that waits for the record gives up after some seconds, and its node has hundreds of descriptors a task
    local process name named=()
    for process in /proc/[0-9]*; do
        { read -r name <"$process/comm"; } 2>"$tmp/gone.err" && [ "$name" = "$1" ] && named+=("$process/fd")
    done
    [ ${#named[@]} -gt 0 ] || return 1
    holder=$(find "${named[@]}" -lname "$fifo" -printf '%h\n' -quit 2>"$tmp/gone.err" | cut -d/ -f3)
    [ "$holder" ]
}
until_true 30 find_holder sleep
cluster_run srun --ddp=on,topo="$fifo" -n1 true
is "a record that never comes ends the task: rc" "$rc" 1
like "... which says so" "$err" 'fifo: Connection timed out'
late() { # OPTION...: a step whose one task that waits for the record hears the signal
    "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" srun --ddp=on,topo="$fifo" "$@" true 2>"$tmp/late.err" &
    srun=$!
    ok "a task waits for it" until_true 30 find_holder slurmstepd
    kill -ALRM "$holder"
    rc=0
    wait $srun || rc=$?
}
late -n1
is "the watchdog ends it: rc" "$rc" 1
ok "... with a word to the user" grep -q '^ddp: n1: this task was not ready for its program after 5 s' "$tmp/late.err"
late -N1 -n50 -O
like "many tasks on one CPU, which start one after another, have longer" "$(cat "$tmp/late.err")" \
    'ddp: n1: this task was not ready for its program after 6 s'
ok "... and the node is idle" until_true 60 node_is idle

# Nobody comes whom the guards of another node wait for, and Slurm's signals do not reach them.
cluster_exec n2 sh -c 'echo "{}}" >"$1.bad" && mount --bind "$1.bad" "$1"' sh "$site"
fail() { # OTHER
    "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" srun --ddp=on,restarts=1 -N2 -w "$1,n2" true \
        >"$tmp/$1.out" 2>&1
}
fail n1 &
srun=$!
fail n3 || :
wait $srun || :
ok "a step of which a node fails is over" grep -q '^ddp: n2: .*not JSON' "$tmp/n1.out"
ok "... whichever it is" grep -q '^ddp: n2: .*not JSON' "$tmp/n3.out"
ok "... and costs the others nothing" until_true 60 node_is idle
done_testing

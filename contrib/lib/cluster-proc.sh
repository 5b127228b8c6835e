# shellcheck shell=bash disable=SC2034,SC2154
# cluster-proc.sh - which processes belong to the cluster in $dir with id $id, and how they end.

# All of them, whether Slurm, a job or `contrib/cluster run` started them: their mount namespace has DIR/hosts.ID over
# /etc/hosts. A mount namespace is inherited and cannot be left by accident, so this holds for what was left behind by a
# slurmd that was killed; and a process number that was used again is never taken for one of ours. Fields 4 and 5 of
# mountinfo say what is mounted ("//deleted" behind it once the file is removed) and where: at /etc/hosts itself, since
# all processes share a mount that a user makes at a folder of his, whatever its name.
marked_pids() {
    local file mark="^[^ ]+ [^ ]+ [^ ]+ [^ ]*/hosts\\.$id(//deleted)? /etc/hosts "
    { grep -lE "$mark" /proc/[0-9]*/mountinfo 2>/dev/null || true; } |
        while IFS=/ read -r _ _ file _; do [ "$file" = $$ ] || echo "$file"; done
}

end_marked() { signal_marked TERM 3 || signal_marked KILL 10; }

# signal_marked SIGNAL SECONDS: true when none is left.
signal_marked() {
    local deadline=$((SECONDS + $2)) pids sent=' ' pid
    while pids=$(marked_pids) && [ -n "$pids" ]; do
        [ $SECONDS -lt $deadline ] || return 1
        for pid in $pids; do
            [[ $sent != *" $pid "* ]] || continue
            kill -s "$1" "$pid" 2>/dev/null || true
            sent+="$pid "
        done
        sleep 0.03
    done
}

# A process is named by its number and its start time (field 22 of /proc/PID/stat; the second field may hold blanks).
start_time() {
    local stat fields
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    read -ra fields <<<"${stat##*) }"
    [ "${fields[0]}" != Z ] && echo "${fields[19]}"
}
pid_record() { # NAME PID
    local time
    time=$(start_time "$2") || time=gone
    echo "$2 $time" >"$dir/pid/$1"
}
pid_alive() { # NAME
    local pid time
    { read -r pid time <"$dir/pid/$1"; } 2>/dev/null && [ "$(start_time "$pid")" = "$time" ]
}

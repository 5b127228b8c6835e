# shellcheck shell=bash
# gpu-time.sh - the time of contrib/gpu-check, from its first second on: a budget for all, a limit for each program, and
# the end of what is at work when a signal comes. The script's $SECONDS count.

budget=0  # seconds; 0: none
reserve=0 # of them, for the record and the archive at the end
least=5   # a program that has less is not started
at_work=() # processes: the program that runs, and what runs beside it

set_budget() {
    budget=$1
    reserve=$((budget > 120 ? 15 : budget / 8))
}
budget_text() {
    if [ $((budget % 60)) -eq 0 ]; then echo "the $((budget / 60)) minutes are over"; else
        echo "the $budget s are over"
    fi
}

# limit_of SECONDS: what a program gets that may take so long; fails, with why, where it is too late for it.
limit_of() {
    local left=$((budget - reserve - SECONDS))
    if [ "$budget" -eq 0 ] || [ $left -ge "$1" ]; then
        echo "$1"
    elif [ $left -ge $least ]; then
        echo $left
    else
        echo "not run: $(budget_text)"
        return 1
    fi
}

# within SECONDS OUT ERR COMMAND...: its exit code; 124 or 137: it was ended, with all that it had started, as the time
# was over. OUT and ERR are added to, and may be the same file. We wait for it in the background, so that a signal is
# answered at once.
within() {
    local seconds=$1 to=$2 errors=$3 rc=0
    shift 3
    timeout -k 5 "$seconds" "$@" >>"$to" 2>>"$errors" </dev/null &
    at_work[0]=$!
    wait "${at_work[0]}" || rc=$?
    unset 'at_work[0]'
    return $rc
}
is_over() { [[ $1 = 124 || $1 = 137 ]]; }

# Ends all that is at work. timeout passes the signal on to its process group, and SIGKILL after 5 seconds.
end_work() {
    [ ${#at_work[@]} -gt 0 ] || return 0
    kill -TERM "${at_work[@]}" 2>/dev/null || :
    wait "${at_work[@]}" 2>/dev/null || :
}

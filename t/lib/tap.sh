# tap.sh - for shell tests: source it, make assertions, end with done_testing.
#
#   ok DESC COMMAND...      passes when COMMAND succeeds; it and the next three return 1 when they do not: || diag MORE
#   is DESC GOT WANT        passes when the texts are equal
#   like DESC TEXT ERE      passes when TEXT matches the extended regular expression
#   unlike DESC TEXT ERE
#   run COMMAND...          runs it with a deadline ($run_deadline seconds, 60 unless set) in a process group of its
#                           own, which is ended at the deadline; sets $rc, $out, $err (rc 124: the deadline passed;
#                           137: SIGKILL was needed)
#   until_true SECONDS COMMAND...  polls until COMMAND succeeds; 1 when the time is over
#   diag TEXT               a comment in the output
#   skip_all REASON         ends the script: nothing in it, or of what is left of it, can run here
#   done_testing            prints the plan
#
# $tmp is a folder for this script's files; it goes when the script ends. A script adds what else must end to at_exit:
#   at_exit 'contrib/cluster down ...'
# $top_srcdir and $top_builddir come from make check, or are guessed. Commands speak English, and numbers have points.

set -u
export LC_ALL=C.UTF-8
unset LANGUAGE
: "${top_srcdir:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
: "${top_builddir:=$PWD}"
tap_n=0
tap_bad=0
tap_exit_commands=()
tmp=$(mktemp -d "${TMPDIR:-/tmp}/ddp-t.XXXXXX")
chmod 755 "$tmp"
# Nothing ever comes from it. A process substitution for each wait would not do: bash keeps the status of every one by
# its pid, and a command that gets that pid later (32768 are soon through) seems to end with it.
mkfifo "$tmp/never" && exec {tap_never}<>"$tmp/never" && rm "$tmp/never"

at_exit() { tap_exit_commands+=("$1"); }
tap_leave() {
    local i
    for ((i = ${#tap_exit_commands[@]} - 1; i >= 0; i--)); do eval "${tap_exit_commands[i]}" >&2; done
    rm -rf "$tmp"
}
trap tap_leave EXIT
# What runs in the background holds the output open.
trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM

diag() { printf '%s\n' "$*" | sed 's/^/# /'; }
tap_result() { # STATUS DESC
    tap_n=$((tap_n + 1))
    if [ "$1" -eq 0 ]; then echo "ok $tap_n - $2"; else
        echo "not ok $tap_n - $2"
        tap_bad=$((tap_bad + 1))
        return 1
    fi
}
ok() {
    local desc=$1 status=0
    shift
    "$@" >"$tmp/ok.out" 2>&1 || status=1
    tap_result $status "$desc" || { diag "failed: $* :: $(head -c 2000 "$tmp/ok.out")" && return 1; }
}
is() {
    local status=0
    [ "$2" = "$3" ] || status=1
    tap_result $status "$1" || { diag "got:  $2"$'\n'"want: $3" && return 1; }
}
like() {
    local status=0
    [[ "$2" =~ $3 ]] || status=1
    tap_result $status "$1" || { diag "text: $2"$'\n'"lacks: $3" && return 1; }
}
unlike() {
    local status=0
    [[ "$2" =~ $3 ]] && status=1
    tap_result $status "$1" || { diag "text: $2"$'\n'"has: $3" && return 1; }
}
run() {
    rc=0
    timeout -k 5 "${run_deadline:-60}" "$@" >"$tmp/run.out" 2>"$tmp/run.err" </dev/null || rc=$?
    out=$(cat "$tmp/run.out")
    err=$(cat "$tmp/run.err")
}
# What takes longer than a moment is asked less often: others need the processor.
until_true() {
    local end=$((SECONDS + $1)) pause=0.02 tries=0
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        [ $((++tries)) -lt 25 ] || pause=0.1
        read -rt $pause -u $tap_never || :
    done
}
skip_all() {
    [ $tap_n -eq 0 ] || { tap_result 0 "the rest # SKIP $1" && done_testing; }
    echo "1..0 # SKIP $1"
    exit 0
}
# bash asks it, in a process of its own, where a script calls what does not exist: an assertion misspelt, perhaps.
command_not_found_handle() {
    echo "$1" >>"$tmp/not-there"
    echo "$1: command not found" >&2
    return 127
}
done_testing() {
    [ ! -e "$tmp/not-there" ] || tap_result 1 "all commands exist: not $(sort -u "$tmp/not-there" | xargs)" || :
    echo "1..$tap_n"
    [ "$tap_bad" -eq 0 ]
    exit
}

#!/bin/bash
# ddp run: what its ranks are told, how it ends, and that nothing is left.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
ddp=$top_builddir/ddp
probe=$top_builddir/t/lib/bootprobe
unset OMP_NUM_THREADS DDP_BOOT DDP_NODE

# wait_for COMMAND...: until it succeeds, at most 30 s
wait_for() {
    local end=$((SECONDS + 30))
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        read -r -t 0.02 <>"$tmp/never"
    done
    return 0
}
mkfifo "$tmp/never"
all_gone() {
    local pid
    for pid in $(cat "$tmp"/pid.*); do
        if kill -0 "$pid" 2>"$tmp/kill.err"; then return 1; fi
    done
}
has_files() { # N PATTERN: N files are there, none empty
    local n=0 f
    for f in $2; do [ -s "$f" ] && n=$((n + 1)); done
    [ "$n" -eq "$1" ]
}

# ---- the ranks ----
host=$(</proc/sys/kernel/hostname)
run "$ddp" run -n 3 "$probe"
is "three ranks wire up" "$rc $(sort <<<"$out")" "0 rank 0 of 3: node 0 of 1, local 0 of 3, host $host
rank 1 of 3: node 0 of 1, local 1 of 3, host $host
rank 2 of 3: node 0 of 1, local 2 of 3, host $host"
run "$ddp" run -n 16 "$probe"
is "sixteen ranks wire up" "$rc $(wc -l <<<"$out")" "0 16"

cat >"$tmp/env.sh" <<'SCRIPT'
echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK $GROUP_RANK $MASTER_ADDR" \
    "$DDP_RANK/$DDP_SIZE $DDP_NODE $1"
[ "$MASTER_PORT" -ge 1024 ] && [ "$OMP_NUM_THREADS" -ge 1 ] && [ ${#DDP_BOOT_TOKEN} -eq 64 ]
SCRIPT
run "$ddp" run --layout 2,1,1 sh "$tmp/env.sh" "a b"
is "the environment, over three virtual nodes" "$rc $(sort <<<"$out")" "0 0/4 0/2 0 0 127.0.0.1 0/4 0 a b
1/4 1/2 0 0 127.0.0.1 1/4 0 a b
2/4 0/1 1 1 127.0.0.1 2/4 1 a b
3/4 0/1 2 2 127.0.0.1 3/4 2 a b"
run "$ddp" run --layout=2,1,1 -n 4 "$probe"
like "the world follows the layout" "$out" "rank 3 of 4: node 2 of 3, local 0 of 1"
run env OMP_NUM_THREADS=77 "$ddp" run -n 2 sh -c 'echo $OMP_NUM_THREADS'
is "OMP_NUM_THREADS of the user stays" "$out" "77
77"
run bash -c "echo hello | '$ddp' run -n 3 cat"
is "rank 0 reads standard input, the others nothing" "$rc $out" "0 hello"
run "$ddp" run -n 2 sh -c "'$probe' && '$probe'"
is "a script may run two programs, one after the other" "$rc $(wc -l <<<"$out")" "0 4"
run "$ddp" run -n 2 -- sh -c 'exit 0' -n x
is "what follows the program is its own" "$rc" 0

# ---- usage ----
for args in "" "-n" "-n 0 true" "-n x true" "-n 2x true" "-n -1 true" "-n 2" "true" "--nope -n 2 true" \
    "-n 3 --layout 2,2 true" "--layout 2,,1 true" "--layout 0,1 true" "--timeout x -n 1 true"; do
    # shellcheck disable=SC2086
    run "$ddp" run $args
    like "wrong usage: ddp run $args" "$rc $(wc -l <<<"$err") $err" \
        "^2 1 ddp run: .*(--help|: use -n=1..4096|: use --timeout=0.001..|wants a value)"
done
run "$ddp" topp
is "a verb with a slip" "$rc $err" '2 ddp: "topp" is not a verb of ddp, did you mean topo? "ddp help" lists them'
run "$ddp" help topp
is "... for help, too" "$rc $err" '2 ddp: "topp" is not a verb of ddp, did you mean topo? "ddp help" lists them'
run "$ddp" frobnicate
is "an unknown verb" "$rc $err" '2 ddp: "frobnicate" is not a verb of ddp: "ddp help" lists them'
run "$ddp"
is "no verb" "$rc" 2
run "$ddp" help
like "ddp help lists the verbs" "$rc $out" "^0 .*run  +start a program"
run "$ddp" run --help
like "ddp run --help" "$rc $out" "^0 usage: ddp run -n N .*--layout"
run "$ddp" --version
like "ddp --version" "$rc $out" '^0 ddp \(slurm-ddp\) [0-9.]+$'
for args in help --version "ps --help" "help check" topo; do
    # shellcheck disable=SC2086
    run sh -c '"$@" >/dev/full' sh "$ddp" $args
    is "ddp $args, which cannot be written" "$rc $err" \
        "1 ddp ${args%% *}: the output cannot be written: is the disk full?"
done
run "$ddp" run -n 4 "$tmp/nope"
is "a program that is not there" "$rc $err" "127 ddp run: $tmp/nope cannot be run: no such program"
run "$ddp" run -n 4 /dev/null
is "a program that may not be run" "$rc $err" "126 ddp run: /dev/null cannot be run: Permission denied"
mkdir -m 000 "$tmp/locked"
mkdir "$tmp/path"
printf '#!/bin/sh\n' >"$tmp/path/plain"
chmod 755 "$tmp" "$tmp/path"
lookup() { # PROGRAM: in a PATH that begins with a folder that may not be searched
    local user=()
    [ $UID != 0 ] || user=(setpriv --reuid nobody --regid nogroup --clear-groups)
    run "${user[@]}" env PATH="$tmp/locked:$tmp/path:$PATH" "$ddp" run -n 2 "$1"
}
lookup nosuch
is "one that no folder of PATH has, where one may not be searched" "$rc $err" \
    "127 ddp run: nosuch cannot be run: no such program"
lookup plain
is "... and one there that may not be run" "$rc $err" "126 ddp run: plain cannot be run: Permission denied"

# ---- failures ----
run "$ddp" run -n 1 sh -c 'exit 9'
is "the exit code of a rank" "$rc $err" "9 ddp run: rank 0 exited with code 9"
# Rank 2 fails first; 1 follows with another code, the others take no notice and are ended, with what they started.
cat >"$tmp/fail.sh" <<'SCRIPT'
case $RANK in
2) while ! ls $1/pid.0 $1/pid.3; do :; done >$1/ls.out 2>&1; exit 5 ;;
1) trap 'exit 6' TERM ;;
3) trap '' TERM ;;
esac
setsid sleep 3600 &
echo "$$ $!" >$1/pid.$RANK
while :; do wait; sleep 3600; done
SCRIPT
run "$ddp" run -n 4 bash "$tmp/fail.sh" "$tmp"
is "the first failing code counts, in one line" "$rc $err" "5 ddp run: rank 2 exited with code 5; ending the job"
ok "the rest is gone, with its children" all_gone
# Rank 0 stops the supervisor until rank 1 has exited and rank 2 was killed.
cat >"$tmp/both.sh" <<'SCRIPT'
is_dead() { grep -q ') Z ' "/proc/$(cat "$1")/stat"; }
echo $$ >$1/both.$RANK
case $RANK in
0) until [ -s $1/both.1 ] && [ -s $1/both.2 ]; do :; done
   kill -STOP $PPID
   >$1/both.go
   until is_dead $1/both.1 && is_dead $1/both.2; do :; done
   kill -CONT $PPID ;;
1) until [ -e $1/both.go ]; do :; done; exit 1 ;;
2) until [ -e $1/both.go ] && is_dead $1/both.1; do :; done; kill -KILL $$ ;;
esac
SCRIPT
run "$ddp" run -n 3 bash "$tmp/both.sh" "$tmp"
like "a killed rank counts, and not one that is found to have exited with it" "$rc $err" \
    "^137 .*ddp run: rank 2 was killed by signal 9 .Killed."
run "$ddp" run -n 3 "$probe" --die 1
like "a killed rank: 128 + signal" "$rc $err" "^137 .*ddp run: rank 1 was killed by signal 9 .Killed."
like "the other ranks name it" "$err" "rank 0: rank 1 (died|was killed)"
run "$ddp" run -n 3 "$probe" --stall 0 --timeout 0.3
like "a rank that does not come is named" "$rc $err" "^1 .*deadline passed while waiting for rank 0"
run "$ddp" run -n 2 sh -c "[ \$RANK = 0 ] && exec '$probe'; exit 0"
like "a rank that ends without joining is named" "$rc $err" "^1 .*rank 1 exited with code 0 without having joined"
# A rank that was asked to stop and has saved: the others take their time, longer than they get after a failure.
cat >"$tmp/stopped.sh" <<'SCRIPT'
trap 'exit 6' TERM
echo $$ >$1/stopped.$RANK
[ $RANK = 1 ] && exit 75
until [ -s $1/stopped.1 ] && ! kill -0 $(cat $1/stopped.1); do sleep 0.02; done 2>$1/stopped.err
[ $RANK = 2 ] && exit $2
exec 2>/dev/null # where the shell may say that its sleep was terminated
sleep 2.5
exit 75
SCRIPT
run "$ddp" run -n 3 bash "$tmp/stopped.sh" "$tmp" 0
is "a job that stopped and saved: exit code 75, told as no failure" "$rc $err" "75 "
rm "$tmp"/stopped.[0-9]
run "$ddp" run -n 3 bash "$tmp/stopped.sh" "$tmp" 9
is "... unless a rank fails over it" "$rc $err" "9 ddp run: rank 2 exited with code 9; ending the job"
run "$ddp" run -n 2 --timeout 0.3 sleep 3600
is "--timeout ends the job" "$rc $err" "124 ddp run: the job did not end within 0.3 s; ending the job"

# ---- signals ----
cat >"$tmp/signals.sh" <<'SCRIPT'
mkfifo "$1/never.$RANK" && exec {never}<>"$1/never.$RANK"
for s in INT HUP USR1 USR2 CONT; do trap "echo $s >>$1/got.$RANK" $s; done
trap "echo TERM >>$1/got.$RANK; exit $((RANK == 0 ? 3 : 0))" TERM
echo ready >$1/ready.$RANK
while :; do read -rt 0.1 -u $never; done # a signal that comes just before `wait` begins would not end it
SCRIPT
got() { [ "$(cat "${2:-$tmp}"/got.* 2>"$tmp/cat.err" | grep -cx "$1")" -eq 2 ]; } # SIGNAL [FOLDER]
set -m # else the shell starts it with SIGINT ignored; what this script itself was told to ignore (nohup) env undoes
env --default-signal=INT,HUP "$ddp" run -n 2 bash "$tmp/signals.sh" "$tmp" 2>"$tmp/signals.err" &
pid=$!
set +m
ok "two ranks wait for signals" wait_for has_files 2 "$tmp/ready.*"
for s in INT HUP USR1 USR2 CONT TERM; do
    kill -"$s" $pid
    ok "SIG$s reaches both, once" wait_for got "$s"
done
wait $pid
is "a rank's answer to SIGTERM is the exit code" "$?" 3

# ---- a terminal ----
mkfifo "$tmp/keys" && exec {keys}<>"$tmp/keys"
# on_terminal FOLDER [REDIRECTION]: ddp run leads a terminal's session, and its ranks are ready; sets $pid, $terminal
on_terminal() {
    mkdir "$1"
    SHELL=/bin/sh script -qec "exec env --default-signal=INT,HUP $ddp run -n 2 bash $tmp/signals.sh $1 ${2-}" \
        "$tmp/typescript" <&$keys >"$tmp/terminal.out" &
    terminal=$!
    wait_for has_files 2 "$1/ready.*"
    read -r pid _ <"/proc/$terminal/task/$terminal/children"
}
on_terminal "$tmp/apart" "</dev/null"
printf '\003' >&$keys
ok "Ctrl-C reaches the ranks where standard input is no terminal" wait_for got INT "$tmp/apart"
kill -TERM "$pid"
wait $terminal
is "... once" "$? $(sort "$tmp"/apart/got.* | xargs)" "3 INT INT TERM TERM"
on_terminal "$tmp/leader"
printf '\003' >&$keys
ok "... and where it is" wait_for got INT "$tmp/leader"
kill -KILL $terminal
wait $terminal 2>"$tmp/wait.err"
ok "a hang-up, of which the session's leader alone is told, reaches both" wait_for got HUP "$tmp/leader"
kill -TERM "$pid"
ok "... and so does the end" wait_for got TERM "$tmp/leader"
is "... each once" "$(sort "$tmp"/leader/got.* | xargs)" "HUP HUP INT INT TERM TERM"

# ---- ddp itself is killed ----
cat >"$tmp/stay.sh" <<'SCRIPT'
trap '' TERM HUP
setsid sleep 3600 &
echo "$$ $!" >$1/pid.$RANK
while :; do wait; sleep 3600; done
SCRIPT
for victim in ddp supervisor; do
    rm -f "$tmp"/pid.* "$tmp"/got.*
    "$ddp" run -n 3 bash "$tmp/stay.sh" "$tmp" 2>"$tmp/victim.err" &
    pid=$!
    wait_for has_files 3 "$tmp/pid.*"
    [ $victim = ddp ] && kill -KILL $pid || kill -KILL $(</proc/$pid/task/$pid/children)
    wait $pid 2>"$tmp/wait.err"
    is "the $victim's end shows in the exit code" $? 137
    ok "nothing is left when the $victim is killed" wait_for all_gone
done
done_testing

#!/bin/bash
# The guard beside each program under a real Slurm: programs notice nothing of it; when one dies, or a node, all guards
# know of it, and the user hears of it once.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
ip netns list >"$tmp/netns.out" 2>&1 || skip_all "needs network namespaces (iproute2)"
chmod 755 "$tmp"
mkdir -m 777 "$tmp/out"

cluster_up 4 --netns
export NAP=600.$$$RANDOM # what programs sleep, by which they are found
nothing_left() { ! pgrep -fx "sleep $NAP" >"$tmp/left"; }
lines() { ddp_lines "${1:-$tmp/run.err}"; } # of what srun printed last
# shellcheck disable=SC2016
place='[ "$PPID" = "$SLURM_TASK_PID" ] && echo guarded || echo "not guarded"'

# ---- nobody notices ----
cluster_run srun --ddp=on,guard -N1 -n1 bash -c "$place"
is "guard=on: the task is the program's parent" "$rc $out$err" "0 guarded"
cluster_run srun --ddp=on -N1 -n1 bash -c "$place"
is "... which it is not by default" "$rc $out$err" "0 not guarded"
DDP_GUARD=on cluster_run srun --ddp=on -N1 -n1 bash -c "$place"
is "DDP_GUARD" "$rc $out$err" "0 guarded"
cat >"$cluster_dir/home/shell" <<SHELL
$place
srun --overlap --ddp=on,guard -N1 -n1 bash -c '$place'
SHELL
cluster_run env SHELL=/bin/sh script -qec "srun --pty --ddp=on,guard -N1 -n1 bash $cluster_dir/home/shell" /dev/null
pty=$(tr -d '\r' <<<"$out" | grep -o 'ddp: warning: .*')
is "a step with a terminal of its own has no guard; one that is started there has" \
    "$rc $(grep -v 'ddp: warning: ' <<<"$out" | tr -cd 'a-z \n' | xargs)" "0 not guarded guarded" || diag "$out$err"
not="not in a step with a terminal of its own (srun --pty), which has no guards"
is "... of which who asked for one is warned, once" "$pty" "ddp: warning: guard: $not"
cluster_run env SHELL=/bin/sh script -qec "srun --pty --ddp=on,stop=USR1@60 -N2 -n4 true" /dev/null
is "... and who asked for a stop" "$rc $(tr -d '\r' <<<"$out" | grep -o 'ddp: warning: .*')" \
    "0 ddp: warning: stop: $not"
# shellcheck disable=SC2016
seen='ls -l /proc/self/fd | sed "s/.* -> //; s/[0-9][0-9]*/N/g" | sort; grep -E "^Sig(Blk|Ign|Cgt)" /proc/self/status'
for guard in off on; do
    cluster_run srun --ddp=on,guard=$guard -N1 -n1 bash -c "$seen"
    eval "seen_$guard=\$rc:\$out:\$err"
    for how in 'exit 0' 'exit 7' 'exit 75' 'kill -TERM $$' 'kill -KILL $$' 'kill -SEGV $$'; do
        # shellcheck disable=SC2086
        cluster_run srun --ddp=on,guard=$guard -N1 -n1 bash -c "ulimit -c 0; $how"
        eval "ends_$guard+=\" \$rc\""
    done
done
# shellcheck disable=SC2154
is "descriptors and signals are as without it" "$seen_on" "$seen_off"
# shellcheck disable=SC2154
is "srun's exit code is as without it" "$ends_on" "$ends_off"

cat >"$tmp/count.py" <<'PYTHON'
import os, signal, sys
got = []
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
with open(sys.argv[1] + ".new", "w") as f: f.write(os.environ["SLURM_STEP_ID"])
os.rename(sys.argv[1] + ".new", sys.argv[1])
while not got or got[-1] != signal.SIGUSR2:
    got.append(signal.sigwait([signal.SIGUSR1, signal.SIGUSR2]))
print(got.count(signal.SIGUSR1))
PYTHON
cluster_run srun --ddp=on,guard -N1 -n1 --job-name=counts python3 "$tmp/count.py" "$tmp/out/ready" &
counts=$!
until_true 30 test -s "$tmp/out/ready"
( cluster_run squeue -h --name=counts -o %A; echo "$out" >"$tmp/job" )
read -r job <"$tmp/job"
( cluster_run scancel --signal=USR1 "$job.0"; cluster_run scancel --signal=USR2 "$job.0" )
wait $counts
is "a signal of scancel's comes once" "$(cat "$tmp/run.out")" 1

# ---- a step that goes on ----
joined() { # N NODE: N guards of other nodes are connected with the node's leader
    [ "$(cluster_exec "$2" cat /proc/net/tcp6 | awk -v uid="$(id -u nobody)" \
        '$4 == "01" && $8 == uid && $2 ~ /:(4E[2-F]|4F|[56]|7[0-4]|75[0-2])/ { n++ } END { print n + 0 }')" -eq "$1" ]
}
start() { # [PROGRAM]: a step that runs until it is ended; sets $step
    rm -f "$tmp"/out/*
    # shellcheck disable=SC2016
    timeout -vk 5 120 "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" \
        srun --ddp=on,guard -N4 -n8 --ntasks-per-node=2 bash -c 'echo $PPID $(ps -o ppid= -p $PPID) >$0/$RANK.new
        mv $0/$RANK.new $0/$RANK; '"${1:-exec sleep \$NAP}" "$tmp/out" >"$tmp/step.out" 2>"$tmp/step.err" &
    step=$!
    until_true 60 all_run && until_true 30 joined 3 n1
}
all_run() { [ -e "$tmp/out/0" ] && [ "$(find "$tmp/out" -name '[0-9]' | wc -l)" -eq 8 ]; }
end_step() {
    ( cluster_run squeue -h -t R -o %A; echo "$out" >"$tmp/job" )
    ( cluster_run scancel "$(<"$tmp/job")" )
    wait $step
}
said() { lines "$tmp/step.err" | grep -qE "$1"; }
srun_ends() { # by itself, although a node's slurmstepd was killed
    wait $step
    ! grep '^timeout: sending signal' "$tmp/step.err"
}

# ---- a death is named, once ----
names() { # DESC WANT COMMAND: eight ranks on four nodes
    cluster_run srun --ddp=on,guard -N4 -n8 --ntasks-per-node=2 bash -c "$3" "$tmp/out"
    like "$1" "$rc $(lines)" "^[1-9][0-9]* ddp: $2: the step ends$"
    is "... once" "$(lines | wc -l)" 1
    ok "... and nothing is left" until_true 30 nothing_left
}
# shellcheck disable=SC2016
names "an exit code" "rank 5 \(n3\) exited with code 3 after [0-9]+ s" \
    '[ $RANK = 5 ] && { setsid sleep $NAP & exit 3; }; exec sleep $NAP' # which would hold the step up
# shellcheck disable=SC2016
names "a signal, in rank 0" "rank 0 \(n1\) was killed by signal 9 \(Killed\) after [0-9]+ s" \
    '[ $RANK = 0 ] && kill -KILL $$; exec sleep $NAP'
# shellcheck disable=SC2016
names "a signal that ends steps, to one alone" "rank 5 \(n3\) was killed by signal 15 \(Terminated\) after [0-9]+ s" \
    '[ $RANK = 5 ] && kill -TERM $$; exec sleep $NAP'
# shellcheck disable=SC2016
names "... or a shell's code of one, in rank 0" "rank 0 \(n1\) exited with code 130 after [0-9]+ s" \
    '[ $RANK = 0 ] && exit 130; exec sleep $NAP'
cluster_run srun --ddp=on,guard -N4 -n8 --ntasks-per-node=2 "$top_builddir/train" --data /usr/share/common-licenses \
    --log-json /nowhere/json
is "what stops one rank alone before the first step is the line, whichever rank ends first" "$rc $(lines)" \
    "1 ddp: rank 0 (n1) aborted: --log-json: /nowhere/json cannot be written: No such file or directory: the step ends"
# shellcheck disable=SC2016
cluster_run srun --ddp=on,guard -N4 -n8 --ntasks-per-node=2 bash -c '[ $RANK != 5 ] || export DDP_INTERFACE=ib9
    exec "$0" --data /usr/share/common-licenses' "$top_builddir/train"
is "... and what keeps one out of the wire-up" "$(lines)" "ddp: rank 5 (n3): this machine has no network interface \
ib9 (DDP_INTERFACE) that is up and has an address: the step ends"
cluster_run srun --ddp=on,guard -N2 -n2 prlimit --nproc=1 "$top_builddir/train" --data /usr/share/common-licenses
like "a limit on threads is named" "$err" "train: boot server: thread \\(ulimit -u, ulimit -v\\): Resource temporarily"
# shellcheck disable=SC2016
start 'until [ -e $0/go ]; do sleep 0.02; done # guards have met
    if [ $RANK = 6 ]; then ulimit -c 0; echo $$ >"$0/dies.new"; mv "$0/dies.new" "$0/dies"; kill -SEGV $$; fi
    while [ ! -e "$0/dies" ] || kill -0 "$(<"$0/dies")"; do sleep 0.02; done 2>"$0/polls"
    [ $RANK = 1 ] && exit 1; exec sleep $NAP'
touch "$tmp/out/go"
wait $step
like "the cause, not what follows from it" "$(lines "$tmp/step.err")" \
    "^ddp: rank 6 \(n4\) was killed by signal 11 \(Segmentation [^:]* s: the step ends\$"
is "... once" "$(lines "$tmp/step.err" | wc -l)" 1
ok "... and nothing is left" until_true 30 nothing_left
rm "$tmp"/out/{dies,go}
# srun ends the step at the first task that failed, and then reads no more: slurmstepd tells it of that half a second
# later. One of three is enough, since a busy machine may take as long for the words.
# shellcheck disable=SC2016
words=(bash -c 'if [ $RANK = 1 ]; then
        echo $$ >"$0/failed.new"; mv "$0/failed.new" "$0/failed"; exit 3
    fi
    until [ -e "$0/failed" ]; do sleep 0.02; done
    while kill -0 "$(<"$0/failed")"; do sleep 0.02; done 2>"$0/polls"
    sleep 0.15; echo "rank 0: a peer failed" >&2; exec sleep $NAP' "$tmp/out")
heard() { # SRUN'S ARGUMENTS
    for _ in 1 2 3; do
        rm -f "$tmp/out/failed"
        cluster_run srun --ddp=on "$@"
        ! grep -q '^rank 0: a peer failed' <<<"$err" || return 0
    done
    return 1
}
ok "what others say as soon as a task has failed is heard" heard -N2 -n2 "${words[@]}"
ok "... where it is its component's only one" heard -N1 -n1 "${words[@]}" : -N1 -n1 "${words[@]}"
rm "$tmp/out/failed"
# A process that has had SIGKILL closes its sockets at once, and may take long to let go of a GPU: its first thread has
# ended, the last one ends half a second later, and meanwhile others have failed.
cat >"$tmp/lingers.py" <<'PYTHON'
import ctypes, os, pathlib, signal, sys, threading, time
def is_guards(line): # a connection to another node's guard, at port_min to port_max
    words = line.split()
    return words[3] == "01" and 20000 <= int(words[2].split(":")[1], 16) <= 29999
def has_met():
    return any(is_guards(line) for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:])
def last():
    while pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z": pass
    pathlib.Path(sys.argv[1]).touch()
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
while not has_met(): time.sleep(0.02)
threading.Thread(target=last).start()
ctypes.CDLL(None).syscall(93 if os.uname().machine == "aarch64" else 60, 0)
PYTHON
# shellcheck disable=SC2016
names "... also where that takes long" "rank 6 \(n4\) was killed by signal 9 \(Killed\) after [0-9]+ s" \
    '[ $RANK != 6 ] || exec python3 "$0/../lingers.py" "$0/dies"
    until [ -e "$0/dies" ]; do sleep 0.02; done; [ $RANK = 1 ] && exit 1; exec sleep $NAP'
rm "$tmp/out/dies"
# shellcheck disable=SC2016
cluster_run srun --ddp=on,guard -N4 -n8 --ntasks-per-node=2 bash -c 'if [ $RANK = 6 ]; then
    until [ -e "$1/door" ] && [ "$(grep -c "@$(<"$1/door")\$" /proc/net/unix)" -ge 2 ]; do sleep 0.02; done; exit 3
fi; [ $RANK != 7 ] || { echo "$DDP_GUARD_DOOR" >"$1/door.new" && mv "$1/door.new" "$1/door"; }
exec "$0" --data /usr/share/common-licenses --layers 1 --width 32 --heads 2 --context 32 --steps 1' \
    "$top_builddir/train" "$tmp/out"
like "libddp hears of a death before its watch is there" \
    "$rc $(<"$tmp/run.err")" 'train: rank 6 \(n4\) exited with code 3'
is "... and the user once" "$(lines | wc -l)" 1
# shellcheck disable=SC2016
DDP_TIMEOUT=2 cluster_run srun --ddp=on,guard -N4 -n8 --ntasks-per-node=2 bash -c 'if [ $RANK = 6 ]; then
    (until ls "$0/ckpt" 2>&1 | grep -q "^step-"; do sleep 0.02; done; kill -STOP $$) &
fi; exec "$@" --layers 1 --width 32 --heads 2 --context 32 --steps 1000000 --ckpt "$0/ckpt" --ckpt-every 20' \
    "$tmp/out" "$top_builddir/train" --data /usr/share/common-licenses
late='did not come before the deadline; rank [0-7] waited in [^:]* for 2 s \(DDP_TIMEOUT\)'
like "a rank of libddp for which the others wait in vain" "$(lines)" "^ddp: rank 6 \(n4\) $late: the step ends\$"
rm -r "$tmp/out/ckpt"
# Slurm sees that death as well, and may be faster in ending all: it is not to. A guard that is killed after it has
# called the one above and before that has let it in is nobody's yet, and then it is done again.
kill_guard() { # whether srun then ends the step; [KEYS]
    : >"$tmp/run.err" # of the step before
    rm -f "$tmp/out/go"
    # shellcheck disable=SC2016
    SLURM_KILL_BAD_EXIT=$1 cluster_run srun "--ddp=on,guard${2:-}" -N4 -n8 --ntasks-per-node=2 bash -c 'if [ $RANK = 3 ]
    then
        until grep -o "@ddp-guard-.*" /proc/net/unix | sort | uniq -d | grep -q .; do sleep 0.02; done
        kill -KILL $PPID
    fi; until [ -e "$0/go" ]; do sleep 0.02; done' "$tmp/out" &
    killed=$!
    until_true 20 grep -q "^ddp: " "$tmp/run.err"
    touch "$tmp/out/go"
    wait $killed
    lines | grep -q .
}
kill_guard 0 || kill_guard 0 || kill_guard 0
is "a guard that was killed" "$(lines)" "ddp: rank 3 (n2) was killed together with its guard (out of memory, perhaps)"
if [ "${DDP_TEST_PROCTRACK:-}" = cgroup ]; then # else its signals reach programs alone, and its SIGKILL guards
    for keys in "" ,stop=USR1; do
        kill_guard 1 $keys || kill_guard 1 $keys || kill_guard 1 $keys
        is "... by which srun ends the step: guard$keys" "$(lines)" \
            "ddp: rank 3 (n2) was killed together with its guard (out of memory, perhaps): the step ends"
    done
fi
rm "$tmp/out/go"
# shellcheck disable=SC2016
cluster_run srun --ddp=on,guard -N4 -n8 bash -c 'sleep 0.$RANK; exit $((RANK % 2 * 75))'
is "who has finished, or has stopped as was asked, is no death" "$(lines)" ""

# shellcheck disable=SC2016
cluster_run srun -K0 --ddp=on,guard -N4 -n4 bash -c '[ $RANK = 2 ] && exit 3
    sleep 3; echo alive' # longer than programs are given
is "where a bad exit is not to end the step, the others go on" "$(lines | cut -d" " -f2-8) $(wc -l <<<"$out")" \
    "rank 2 (n3) exited with code 3 3"
# shellcheck disable=SC2016
for program in 'exec sleep $NAP' 'trap "exit 143" TERM; sleep $NAP & wait'; do
    start "$program"
    end_step
    is "nor is the end of a step that is cancelled: $program" "$(lines "$tmp/step.err")" ""
done

leaves() { # HOW-IT-ENDS THE-LINE-OF-THAT: rank 6, and then rank 1 exits with code 1
    # shellcheck disable=SC2016
    start 'until [ -e $0/go ]; do sleep 0.02; done; [ $RANK = 6 ] && echo $$ >$0/new && mv $0/new $0/left && '"$1"'
        [ $RANK = 1 ] || exec sleep $NAP
        until [ -e $0/left ] && ! kill -0 $(<$0/left); do sleep 0.02; done 2>$0/err; exit 1'
    touch "$tmp/out/go"
    ok "who has gone before an exit code is named: $1" until_true 30 said \
        "^ddp: rank 6 \(n4\) $2 after [0-9]+ s, and then rank 1 \(n1\) exited with code 1 after [0-9]+ s"
    end_step
    rm "$tmp"/out/{go,left}
}
leaves exit "ended with code 0"
# shellcheck disable=SC2016
SLURM_KILL_BAD_EXIT=0 leaves 'kill -TERM $$' 'was ended by signal 15 \([^)]*\)'
# Three looks, a second apart, and one more on the way up, are what guards need to know it; where others take the cores,
# some more.
computes() { # SECONDS: until rank 1 gives up
    # shellcheck disable=SC2016
    start '[ $RANK = 6 ] && while :; do :; done; [ $RANK = 1 ] || exec sleep $NAP; sleep '"$1; exit 1"
    until_true 60 said 'exited with code 1 '
    end_step
    said '^ddp: rank 6 \(n4\) had computed for [0-9]* s while all others waited, and then rank 1 \(n1\) exited with'
}
ok "who has computed while all others waited for it is named with their time-out" eval 'computes 8 || computes 20'
waits() { # SECONDS: until rank 1 gives up
    # shellcheck disable=SC2016
    start '[ $RANK = 1 ] || exec sleep $NAP; sleep '"$1; exit 1"
    until_true 60 said 'exited with code 1 '
    end_step
    said '^ddp: all ranks had waited for [0-9]* s, and then rank 1 \(n1\) exited with code 1'
}
ok "where all have waited, who gives up first is not blamed alone" eval 'waits 12 || waits 24'

# ---- nodes ----
# Slurm suspends a step node by node: SIGTSTP, two seconds later all of a node stands still, here one node alone.
start
read -r guard4 rest <"$tmp/out/4"
read -r guard5 rest <"$tmp/out/5"
kill -TSTP "$guard4" "$guard5"
sleep 2
kill -STOP "$guard4" "$guard5"
sleep 5 # this much time must pass: it is what is tested
kill -CONT "$guard4" "$guard5"
is "a node that is suspended before the others is not blamed" "$(lines "$tmp/step.err")" ""
end_step
# shellcheck disable=SC2016
has_child='sleep $NAP & exec sleep $NAP' # which proctrack would have killed
gone='has gone: a guard or slurmstepd there was killed .*, or the node restarts: the step ends$'
start "$has_child"
read -r _ stepd <"$tmp/out/4"
kill -KILL "$stepd"
ok "slurmstepd was killed: the node is named" until_true 30 said \
    "^ddp: node n3 \(rank [45]\) $gone"
ok "... and nothing is left" until_true 30 nothing_left
ok "... and srun ends" srun_ends
is "... once" "$(lines "$tmp/step.err" | wc -l)" 1

start "$has_child"
read -r _ stepd <"$tmp/out/0"
kill -KILL "$stepd"
ok "... rank 0's, too, whose guards reach nobody" until_true 30 said \
    "^ddp: node n1 \(rank [01]\) $gone"
ok "... and nothing is left" until_true 30 nothing_left
ok "... and srun ends" srun_ends

start
kill_srun "$tmp/out"
ok "srun was killed: the step ends" until_true 30 nothing_left
end_step
# shellcheck disable=SC2016
SLURM_KILL_BAD_EXIT=0 start '[ $RANK = 0 ] || exec sleep $NAP; until [ -e $0/go ]; do sleep 0.02; done; exit 1'
touch "$tmp/out/go"
until_true 30 said '^ddp: rank 0 \(n1\) exited with code 1 '
kill_srun "$tmp/out"
ok "... also one that a death before did not end" until_true 30 nothing_left
end_step
rm "$tmp/out/go"

start
cluster_exec n4 ip link set eth0 down
ok "a node that is cut off is named" until_true 30 said \
    '^ddp: node n4 \(rank 6\) has been silent for 3 s to node n1: it is down, or the network to it: the step ends$'
ok "... programs end on both sides of the cut" until_true 60 nothing_left
cluster_exec n4 ip link set eth0 up
end_step
is "... once" "$(lines "$tmp/step.err" | wc -l)" 1

# shellcheck disable=SC2016
start '[ $RANK = 6 ] && trap "" TERM; until [ -e $0/go ]; do sleep 0.02; done; [ $RANK = 1 ] && exit 3
    sleep $NAP & wait'
touch "$tmp/out/go"
until_true 30 said '^ddp: rank 1 \(n1\) exited with code 3 '
cluster_exec n4 ip link set eth0 down
ok "one that is cut off when another death is known: srun ends as well" srun_ends
cluster_exec n4 ip link set eth0 up
ok "... and nothing is left" until_true 60 nothing_left
cluster_run sinfo -h -N -o %T
unlike "no node is drained" "$out" "drain|fail"

if [ "${DDP_TEST_PROCTRACK:-}" = cgroup ]; then # else Slurm limits no memory
    cluster_down
    echo ConstrainRAMSpace=yes >"$tmp/cgroup.conf"
    cluster_up 1 --beside "$tmp/cgroup.conf" --conf TaskPlugin=task/cgroup --conf SelectTypeParameters=CR_Core_Memory
    hog='python3 -c "x = bytearray(600 << 20)"' lacks='its control group is out of memory \(ask for more: [^)]*\)'
    for program in "exec $hog" "$hog; exit \$?"; do
        cluster_run srun --ddp=on,guard -n1 --mem=200 bash -c "$program"
        like "a program that the kernel kills for want of memory: $program" "$(lines)" \
            "^ddp: rank 0 \(n1\) was killed: $lacks after [0-9]+ s: the step ends\$"
    done
    cluster_run srun --ddp=on,guard -n1 --mem=200 bash -c "$hog; exit 1"
    like "... and one by whose end another one fails" "$(lines)" \
        "^ddp: rank 0 \(n1\) exited with code 1 after [0-9]+ s: $lacks, and another process of it had been killed: "
fi
done_testing

#!/bin/bash
# contrib/cluster: what it starts works as a Slurm of several nodes, and nothing of it stays behind.
source "$(dirname "$0")/lib/tap.sh"
source "$(dirname "$0")/lib/cluster.sh"
cluster=$top_srcdir/contrib/cluster

# What a cluster with id $1 has on the machine, by name.
left_of() {
    grep -lF "/hosts.$1" /proc/[0-9]*/mountinfo 2>"$tmp/grep.err"
    ip netns list | grep -F "ddp-$1"
    ip -o link | grep -F "ddp-$1"
    grep -F "$1" /proc/mounts
    find /dev/shm -name "*$1*"
}

cluster_up 4
id=$(<"$cluster_dir/id")
cluster_run srun -N4 -n4 hostname
is "four nodes answer" "$(sort <<<"$out" | xargs)" "n1 n2 n3 n4"
cluster_run srun -N4 -n4 id -un
is "the user is not root" "$(sort -u <<<"$out")" "nobody"
cluster_run srun -N4 -n4 bash -c 'for n in n1 n2 n3 n4; do getent hosts $n || echo "$(hostname): no $n"; done'
unlike "every node resolves every node" "$out" ": no"
is "... all sixteen" "$(wc -l <<<"$out")" 16
read -r mpi rank < <(cluster_mpi)
cluster_run srun --mpi=$mpi -N4 -n8 printenv $rank
is "an MPI step runs on four nodes" "$(sort -n <<<"$out" | xargs)" "0 1 2 3 4 5 6 7"
cluster_run srun -N1 -n16 true
is "sixteen tasks fit a node" "$rc" 0
cluster_run srun -N2 sh -c 'exit 7'
is "an exit code comes back" "$rc" 7
cluster_run bash -c 'cd ~ && sbatch -W -N2 -o job.out --wrap "srun hostname" >&2 && cat job.out'
is "a batch job runs" "$(sort <<<"$out" | xargs)" "n1 n2"
run "$cluster" up 1 --dir "$cluster_dir"
is "up in the same folder is refused" "$rc" 1
like "... and says why" "$err" "already up"

# A node that crashes: what ran there is gone, and the node comes back.
mkdir -m 777 "$tmp/runs"
"$cluster" run --dir "$cluster_dir" srun -N2 -w n1,n2 sh -c 'echo >"$0/$(hostname)"; exec sleep 9876.$1' "$tmp/runs" \
    $$ &
srun=$!
disown $srun
at_exit 'kill -9 $srun 2>/dev/null'
ok "a step runs on two nodes" until_true 20 test -e "$tmp/runs/n1" -a -e "$tmp/runs/n2"
sleeping() { pgrep -fc "^sleep 9876[.]$$\$"; }
ok "a node crashes and starts again" "$cluster" crash --dir "$cluster_dir" n2
is "what ran there is gone, on the other it runs" "$(sleeping)" 1
kill -9 $srun
srun= # its number may be another process's when this test ends
SLURM_CONF=$cluster_dir/conf/slurm.conf scancel -u nobody
cluster_run srun -N4 hostname
is "four nodes answer again" "$(sort <<<"$out" | xargs)" "n1 n2 n3 n4"

# A second cluster beside the first, with networks and GPUs, of a root whose umask is strict.
umask 077
run "$cluster" up 2 --netns --gpus 4 --no-affinity --no-plugin --dir "$tmp/second"
umask 022
is "a second cluster comes up beside the first" "$rc" 0
at_exit '"$cluster" down --dir "$tmp/second"'
second=$(<"$tmp/second/id")
second_run() { run "$cluster" run --dir "$tmp/second" "$@"; }
second_run srun -N2 hostname -I
is "nodes have different addresses" "$(sort -u <<<"$out" | wc -l)" 2
second_run srun -N2 readlink /proc/self/ns/net
is "nodes have different network namespaces" "$(sort -u <<<"$out" | wc -l)" 2
second_run srun -N2 bash -c 'sed -n "s/^nameserver //p" /etc/resolv.conf | xargs -rn1 ip route get 2>&1'
unlike "no node waits for a name server that it cannot reach" "$out" " via "
second_run srun -N2 grep Cpus_allowed_list /proc/self/status
is "with --no-affinity tasks run on all CPUs" "$(sort -u <<<"$out")" "$(grep Cpus_allowed_list /proc/self/status)"
second_run srun --mpi=$mpi -N2 -n4 printenv $rank
is "an MPI step runs between namespaces" "$(sort -n <<<"$out" | xargs)" "0 1 2 3"
second_run srun -N2 -n2 --gpus-per-node=2 printenv CUDA_VISIBLE_DEVICES
is "pretended GPUs are handed out" "$(xargs <<<"$out")" "0,1 0,1"
# n1 listens on its loopback; n1 can reach that port, n2 on its own loopback cannot.
cat >"$tmp/listen.py" <<'PY'
import socket, sys
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
for _ in range(2):
    s.accept()
PY
exec {listener}< <("$cluster" exec --dir "$tmp/second" n1 python3 "$tmp/listen.py")
read -r -t 20 -u "$listener" port
reach() { "$cluster" exec --dir "$tmp/second" "$1" timeout 5 bash -c "exec 3<>/dev/tcp/$2/$port"; }
ok "a node reaches its own loopback" reach n1 127.0.0.1
not_reached() { ! reach "$@"; }
ok "a node does not reach another's loopback" not_reached n2 127.0.0.1
is "the first cluster is untouched" "$(SLURM_CONF=$cluster_dir/conf/slurm.conf sinfo -h -t idle -o %D)" 4

# Down after a crash: a step is running, the controller and a slurmd die, a stray process ignores SIGTERM.
second_run srun --overlap -N2 -n2 bash -c '(trap "" TERM; exec setsid sleep 1000 >/dev/null 2>&1 </dev/null) & echo up'
is "a step leaves strays" "$(xargs <<<"$out")" "up up"
read -r pid _ <"$tmp/second/pid/slurmctld"
kill -9 "$pid"
read -r pid _ <"$tmp/second/pid/n1"
kill -9 "$pid"
run "$cluster" down --dir "$tmp/second"
is "down after kill -9 of slurmctld and a slurmd" "$rc:$err" "0:"
is "... leaves nothing" "$(left_of "$second")" ""
ok "... and no folder" test ! -e "$tmp/second"
run "$cluster" down --dir "$tmp/second"
is "down again is no error" "$rc:$err" "0:"

# A folder that a dead cluster left is taken over; one that is not a cluster's is not.
cluster_run srun -N4 -n4 true
for name in slurmctld munged n1 n2 n3 n4; do kill -9 "$(cluster_pid "$name")"; done
run "$cluster" up 1 --no-plugin --dir "$cluster_dir"
is "up takes over the folder of a crashed cluster" "$rc" 0
is "... whose remains have ended" "$(left_of "$id")" ""
id=$(<"$cluster_dir/id")
cluster_run srun hostname
is "... and works" "$out" n1
mkdir -m 700 "$tmp/closed" && : >"$tmp/closed/ddp.so"
echo "required $tmp/closed/ddp.so" >"$cluster_dir/conf/plugstack.conf"
cluster_run srun hostname
like "a plugin that the user cannot read is named, with the cure" "$rc:$err" \
    "^1:.*user nobody cannot read $tmp/closed/ddp.so: .*--user root"
: >"$cluster_dir/conf/plugstack.conf"
mkdir "$tmp/mine" && echo precious >"$tmp/mine/file"
run "$cluster" up 1 --dir "$tmp/mine"
is "up refuses a folder with other files" "$rc" 1
run "$cluster" down --dir "$tmp/mine"
is "down leaves such a folder alone" "$(<"$tmp/mine/file")" precious

# Interrupted at any point, up takes back what it did.
for signal in INT TERM; do
    env --default-signal=INT "$cluster" up 3 --netns --no-plugin --dir "$tmp/third" >"$tmp/third.out" 2>&1 &
    up=$!
    until [ -s "$tmp/third/id" ] && [ -e "$tmp/third/pid/munged" ] || ! kill -0 $up; do :; done 2>"$tmp/kill.err"
    third=$(<"$tmp/third/id")
    kill -s $signal $up
    wait $up
    is "up ended by SIG$signal leaves nothing" "$(left_of "$third")$(ls "$tmp/third" 2>&1 | grep -v 'No such')" ""
done
"$cluster" up 3 --netns --no-plugin --dir "$tmp/third" >"$tmp/third.out" 2>&1 &
up=$!
until [ -e "$tmp/third/pid/n1" ]; do kill -0 $up || break; done 2>"$tmp/kill.err"
third=$(<"$tmp/third/id")
kill -9 $up
wait $up 2>"$tmp/kill.err"
run "$cluster" down --dir "$tmp/third"
is "down after kill -9 of up leaves nothing" "$(left_of "$third")" ""

# A test that fails says what has gone of its cluster.
cat >"$tmp/lost.t" <<'LOST'
source "$top_srcdir/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
cluster_up 2 --no-plugin
pid=$(cluster_pid n2)
gone() { ! kill -0 "$pid"; }
kill -9 "$pid"
until_true 20 gone 2>/dev/null
ok "all is well" false
done_testing
LOST
run env top_srcdir="$top_srcdir" top_builddir="$top_builddir" bash "$tmp/lost.t"
like "a test that fails says which daemon has ended, with its last lines" "$err" "^# n2 has ended: .*slurmd"
unlike "... and no other" "$err" "(n1|munged|slurmctld|own) has ended"

# Lines that come and go with the load.
cat >"$tmp/said" <<SAID
srun: job 12 queued and waiting for resources
srun: job 12 has been allocated resources
srun: Job 12 step creation temporarily disabled, retrying (Requested nodes are busy)
srun: Job 12 step creation still disabled, retrying (Requested nodes are busy)
srun: Step created for StepId=12.3
ddp: warning: MASTER_PORT=26408 is taken on n1, so that no program of this step can listen there: start the step \
again, with another port
srun: error: n1: task 0: Exited with exit code 1
ddp: warning: MASTER_PORT=31999 is taken on n1, so that no program of this step can listen there: take another port=
SAID
is "steady drops srun's waiting and a drawn port that is taken, and nothing else" "$(steady "$tmp/said")" \
    "srun: error: n1: task 0: Exited with exit code 1
ddp: warning: MASTER_PORT=31999 is taken on n1, so that no program of this step can listen there: take another port="

# Bad words.
for words in "up" "up 0" "up 2 --cpus x" "up 2 --plugin /nowhere/ddp.so" "up 2 --frob" "run" "exec n1" "fly"; do
    # shellcheck disable=SC2086
    run "$cluster" $words
    like "refused: $words" "$rc:$err" "^[12]:.+"
done
run "$cluster" run --dir "$tmp/none" true
like "run without a cluster says so" "$rc:$err" "1:.*no cluster is up"

cluster_down
is "the last down leaves nothing" "$(left_of "$id")" ""
done_testing

#!/bin/bash
# `ddp check` on four nodes: a clean run says ok, and each planted fault is named, with its node and cure.
# shellcheck disable=SC2154,SC2016
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
ddp=$top_builddir/ddp
unset DDP_VERSION
[ "$(nproc)" -ge 2 ] && grep -Eq '^Cpus_allowed_list:.0[-,]1' /proc/self/status || skip_all "needs CPUs 0 and 1"

# said ITEM: the line of an item, or all of --json's
said() { grep -E "^(ok|warn|FAIL) +$1 " <<<"$out"; }
# Where the machine has fewer cores than ranks a warning of that is as it should be.
verdicts() {
    sed -E "s/^warn  (cores +ranks on .* got less than half of a core: rank [0-9]+ 0\.([0-4]|50))/ok    \1/" <<<"$out" |
        awk '/^(ok|warn|FAIL) / { print $1 }' | sort | uniq -c | xargs
}

# ---- without Slurm ----
run "$ddp" run -n 2 "$ddp" check
is "two ranks on a machine" "$rc:$(said ranks)" "0:ok    ranks       2 ranks on 1 node have met"
run taskset -c 0,1 "$ddp" run -n 8 "$ddp" check
like "more ranks than cores, although all get as little" "$(said cores)" "^(warn|FAIL) +cores .* rank [0-9]"
like "one node's clock" "$(said clocks)" "^ok +clocks +one node, with nothing to compare its clock with$"
run "$ddp" run -n 4 --layout 1,1,1,1 sh -c '[ $RANK != 1 ] || exec timeout -s KILL 0.5 "$0" check; exec "$0" check' \
    "$ddp"
like "a rank that dies is named" "$rc:$err" "^[1-9][0-9]*:(.*"$'\n'")?ddp check: FAIL: [^"$'\n'"]*rank 1 "
mkdir "$tmp/deaf"
run env DDP_TIMEOUT=6 LD_PRELOAD="$top_builddir/t/lib/.libs/fault.so" FAULT_DIR="$tmp/deaf" FAULT_AT=1 FAULT_DO=hang \
    "$ddp" run -n 2 --layout 1,1 "$ddp" check --dir "$tmp/deaf"
like "a folder that does not answer is said before ranks give up their waits" "$rc:$(said folder)$err" \
    "^1:FAIL +folder +$tmp/deaf on [^ ]+: the file system has not answered for 4 s: is its server down\?"
run "$ddp" check --dir
is "wrong usage" "$rc" 2
run env SLURM_NTASKS=4 "$ddp" check
like "a task that would be alone" "$rc:$out" "^1:FAIL  ranks +SLURM_NTASKS=4, but .*srun --ddp=on"
run env DDP_BOOT=single WORLD_SIZE=4 RANK=0 "$ddp" check
like "... or is" "$rc:$out" "^1:FAIL  ranks +4 tasks were started, but each sees itself alone: start it with"
run env DDP_BOOT=single SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=4 WORLD_SIZE=8 RANK=0 "$ddp" check
like "... which a step of one task is not, whatever a script has set" "$rc:$(said ranks)" "^0:ok +ranks +1 rank"

# ---- four nodes ----
cluster_up 4 --netns --cpus "$((2 * $(nproc)))" --conf TaskPluginParam=Sockets
folder=$cluster_dir/home/ckpt
mkdir -m 755 "$folder" && chown nobody "$folder"
# check NODES OPTION... PROGRAM...: on the first ones, with srun's options
check() { cluster_run env -u SLURM_CPU_BIND srun --ddp=on -w "n[1-$1]" --ntasks-per-node=2 "${@:2}"; }

for _ in 1 2 3; do # while others write to this machine's disk a node's share of it may be slow
    check 4 "$ddp" check --dir "$folder" --mib 4
    [ "$(verdicts)" != "9 ok" ] || break
done
is "a clean run: all is well" "$rc:$(verdicts)" "0:9 ok" || diag "$out$err"
like "... at the links" "$(said links)" "6 pairs of nodes: [0-9.]+ GB/s"
like "... and in the folder" "$(said folder)" "$folder: [0-9.e+]+ MiB/s"
is "... where nothing is left" "$(ls -A "$folder")" ""
check 2 "$ddp" check --json
is "JSON" "$rc:$(python3 -c 'import json, sys; d = json.load(sys.stdin)
half = min(r["cpu"] for r in d["ranks"]) < 0.5
said = {i["item"]: i["verdict"] for i in d["items"]}
right = said.pop("cores") == ("warn" if half else "ok")
print(d["failed"], len(d["ranks"]), len(d["links"]), right, set(said.values()))' <<<"$out")" "0:False 4 1 True {'ok'}"

check 2 --cpu-bind=map_cpu:0,0 "$ddp" check
like "ranks on one CPU" "$rc:$(said binding)" \
    "^1:FAIL +binding +n1, n2: ranks share CPUs .*--ddp=on bind"
check 2 --cpu-bind=none "$ddp" check
like "ranks that nobody binds" "$rc:$(said binding)" "^0:warn +binding +n1, n2: nothing binds"
check 2 sh -c '[ $SLURM_PROCID != 3 ] || export DDP_VERSION=9.9; exec "$0" check' "$ddp"
like "another version of the plugin" "$rc:$(said versions)" \
    "^1:FAIL +versions +the plugin's version, DDP_VERSION, differs on n2: rank 3 has 9.9, most have [0-9.]+: install"
cluster_run srun --mpi=none -N2 -n4 "$ddp" check
is "singletons are said, once" "$rc:$(grep -c 'FAIL  ranks  .*cannot find each other' <<<"$out")" "1:1"

cluster_exec n3 tc qdisc add dev eth0 root tbf rate 1gbit burst 64kb latency 50ms
for _ in 1 2 3; do # while others use this machine's processors all links are slow
    check 4 "$ddp" check
    [ "$rc" = 0 ] || break
done
like "a slow link is named" "$rc:$(said links)" "^1:FAIL +links +slow on n3: .*--exclude=n3$"
like "... to paste" "$(tail -n 1 <<<"$out")" "1 failed; without what failed: --exclude=n3$"
link="n3 sends [0-9]+ MB/s to other nodes, the median node [0-9.e+]+: a slow link"
for _ in 1 2 3; do # while others use this machine's processors it may be a rank that is slowest
    rm -f "$cluster_dir/home/slow"
    OMP_NUM_THREADS=1 cluster_run srun --ddp=on -N4 --ntasks-per-node=1 "$top_builddir/train" --model tiny --steps 60 \
        --data /usr/share/common-licenses --val-windows 1 --ddp-record="$cluster_dir/home/slow"
    [[ ! $err =~ $link ]] || break
done
like "... by a run, too" "$err" "$link"
run "$ddp" report "$cluster_dir/home/slow"
like "... and in its report" "$out" "the node of rank 2 \(n3\) sends [0-9.]+ times as slowly as the median node"
cluster_exec n3 tc qdisc del dev eth0 root

chmod 555 "$folder"
check 2 "$ddp" check --dir "$folder"
like "a folder that cannot be written" "$rc:$(said folder)" \
    "^1:FAIL +folder +$folder on n1, n2: no file can be made: Permission denied: no checkpoint"
chmod 755 "$folder"
cluster_exec n2 mount -t tmpfs -o size=1m,mode=777 none "$folder"
check 2 "$ddp" check --dir "$folder"
like "a full one" "$rc:$(said folder)" "^1:FAIL +folder +$folder on n2: a file cannot be written: No space left"
check 2 "$ddp" check --dir "$folder" --mib 1
like "another one" "$rc:$(said folder)" "^1:FAIL +folder +$folder on n2 is not that of n1: take a folder"
is "... in which nothing is left" "$(cluster_exec n2 ls -A "$folder")" ""
done_testing

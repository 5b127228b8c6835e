#!/bin/bash
# The NCCL communicator over a double of NCCL: every operation on every kind of layout, versions, what it tells NCCL.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/nccl.sh"

for layout in 1 2 3 2,2 2,1,1 1,1,1 3,2; do
    ranks=0
    for k in ${layout//,/ }; do ranks=$((ranks + k)); done
    probe $layout
    is "nodes of $layout: all operations, and the deterministic sum's bits" "$rc $(oks)" "0 $ranks"
done
is "one rank alone has asked for an id" "$(grep -c ' id$' <<<"$log")" 1
is "... all are non-blocking" "$(grep -c ' init of 5, blocking 0' <<<"$log")" 5
is "... ranges of a bucket are a group" "$(grep -c 'rank 1 allreduce 50021 [a-z0-9]* in a group' <<<"$log")" 8
is "... memory is NCCL's own and registered" \
    "$(grep -cE 'rank 1 (alloc 400168|register 400168|deregister|free)$' <<<"$log")" 6
is "... and no window" "$(grep -c window <<<"$log") $(warned .)" "0 0"
is "... it is ended, not aborted" "$(grep -cE ' (finalize|destroy)$' <<<"$log") $(grep -c abort <<<"$log")" "10 0"
is "nothing is left of it" "$(ls "$NCCLDOUBLE_DIR")" log
is "NCCL is told nothing" "$(grep -c '=' <<<"$log")" 0

probe 2,1 --again
is "again, with a second communicator" "$rc $(oks) $(grep -c ' id$' <<<"$log") $(grep -c destroy <<<"$log")" "0 3 2 6"
probe 2,3 --per-root 2
is "several roots" "$rc $(oks) $(grep -c ' init of 5, blocking 0, 3 ids$' <<<"$log")" "0 5 5"
is "... on different nodes first" "$(grep ' id$' <<<"$log" | sort | xargs)" "rank 0 id rank 2 id rank 4 id"
probe 2,3 --per-root 2 --ids
is "... whose ids all ranks have" "$(sed -n 's/.*: ids //p' <<<"$out" | sort -u | wc -l) $(grep -c ': ids' <<<"$out")" \
    "1 5"
script "version 21903"
probe 2,1 --per-root 1
is "... one, where the library takes no more" "$rc $(oks) $(grep -c ' id$' <<<"$log")" "0 3 1"
script "init progress 300" "group progress 40" "finalize progress 100"
probe 3
is "calls that take long" "$rc $(oks)" "0 3"

# memory
script "rank 1 alloc at 1 error 1 Cuda failure 801 'operation not supported'"
probe 2,1
is "one rank whose NCCL allocates nothing: none does" "$rc $(oks) $(grep -c 'register 400168' <<<"$log")" "0 3 0"
is "... and what was allocated is freed" "$(grep -c ' free$' <<<"$log")" 5
cannot="NCCL of rank 1 \([^)]*\) cannot allocate 1 MiB \(Cuda failure 801 'operation not supported'\): all ranks take "
cannot+='other memory of their GPUs, and NCCL copies what travels to and from buffers of its own$'
is "... all are warned, once, of who and why, and what it costs" "$(warned .) $(warned "$cannot")" "3 3"
script "alloc error 1 out of memory"
probe 3
is "no rank's does" "$rc $(oks) $(grep -cE 'register|free' <<<"$log") $(warned 'rank 0 .* cannot allocate')" "0 3 0 6"
script "rank 2 register at 1 error 4 not aligned"
probe 2,1
cannot='NCCL of rank 2 .* cannot register 1 MiB \(not aligned\): no rank does, and'
is "one rank whose NCCL registers nothing: none does" "$rc $(oks) $(warned .) $(warned "$cannot")" "0 3 3 3"
is "... those that had end it at once" "$(grep -cE ' (register|deregister)' <<<"$log") $(head -$(grep -n allreduce \
    <<<"$log" | head -1 | cut -d: -f1) <<<"$log" | grep -c ' deregister')" "11 2"
script "register error 3 a bug"
probe 3
is "no rank's does" "$rc $(oks) $(grep -c ' deregister' <<<"$log") $(warned 'rank 0 .* cannot register')" "0 3 0 6"

# windows
script "version 23007"
for layout in 1 3 4; do
    probe $layout
    is "NCCL 2.30.7: what is summed is a window of $layout" "$rc $(oks) $(grep -cE 'rank 0 (window 400168|unwindow|'\
'register 50021|deregister)$' <<<"$log") $(grep -cE 'register 400168' <<<"$log")" "0 $layout 4 0"
done
is "... whose end comes before the communicator's" \
    "$(sed -nE 's/^rank 2 (window|unwindow|deregister|finalize|destroy|free)( .*)?$/\1/p' <<<"$log" | xargs)" \
    "window deregister unwindow finalize destroy free free"
probe 2,1
is "... of several nodes it is registered, as ever" "$rc $(oks) $(grep -c window <<<"$log")" "0 3 0"
script "version 23007" "window none"
probe 3
is "... so it is where NCCL has no window" \
    "$rc $(oks) $(grep -cE ' register 400168' <<<"$log") $(grep -c unwindow <<<"$log")" "0 3 3 0"
script "version 23007" "rank 1 alloc at 1 error 1 no"
probe 3
is "... and where one rank has no memory nobody opens one" "$rc $(oks) $(grep -c window <<<"$log")" "0 3 0"

# versions
for version in 22803 22807; do
    script "version $version"
    probe 2
    is "NCCL $version: all are warned" \
        "$rc $(oks) $(warned .) $(warned 'NCCL 2.28.[37] may crash .*: install NCCL 2.28.9 or newer')" "0 2 2 2"
    probe 1
    is "... but not one rank alone" "$rc $(oks) $(warned .)" "0 1 0"
done
for version in 21901 22707 22809 23007; do
    script "version $version"
    probe 2
    is "NCCL $version: nobody is warned" "$rc $(oks) $(warned .)" "0 2 0"
done
for version in 21903:2.19.3 23007:2.30.7; do
    script "version ${version%:*}"
    probe 2
    is "NCCL ${version#*:}" "$rc $(oks) $(grep -c "NCCL ${version#*:}\$" <<<"$out")" "0 2 2"
done
script "version 30100"
probe 2,1
is "another major version: all are told" \
    "$rc $(told 'libnccl.so.2 is NCCL 3.1.0, another major version .* LD_LIBRARY_PATH')" "0 3"
is "... and nothing else is called" "$log" ""
script "version 21805"
probe 2
is "an old one" "$rc $(told 'libnccl.so.2 is NCCL 2.18.5, which is too old: install 2.19')" "0 2"

# one rank of three sees another library
cat >"$tmp/other" <<'SCRIPT'
[ "$RANK" != 1 ] || export NCCLDOUBLE_SCRIPT=$OTHER/script LD_LIBRARY_PATH=$OTHER:$LD_LIBRARY_PATH
exec "$@"
SCRIPT
mkdir "$tmp/o"
export OTHER=$tmp/o
wrapper=(bash "$tmp/other")
script
echo "version 22708" >"$tmp/o/script"
probe 2,1
is "two versions: all are told who has which" \
    "$rc $(told 'rank 0 .* has NCCL 2.28.9 and rank 1 .* has 2.27.8: all ranks need the same')" "0 3"
echo "no library" >"$tmp/o/libnccl.so.2"
probe 2,1
is "a rank without NCCL: all are told, and what to install" \
    "$rc $(told 'libnccl.so.2 cannot be opened on this node: install NCCL') $(told 'rank 1 \([^)]*\): libnccl.so.2')" \
    "0 3 2"
is "... and nobody begins" "$(grep -c init <<<"$log")" 0
wrapper=()

# GPUs
probe 2 --share
is "ranks may share a GPU where it was asked for" "$rc $(oks) $(sort -u <<<"$log" | grep HOSTID | tr '\n' ' ')" \
    "0 2 rank 0 NCCL_HOSTID=ddp-rank-0 rank 1 NCCL_HOSTID=ddp-rank-1 "
script "init async 5 Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000"
probe 2
like "NCCL itself finds two ranks on one GPU" "$rc $out" \
    "^0 .*two ranks use one GPU \(Duplicate GPU detected : rank 0 and rank 1 both"
# a rank may hear of it before it has begun itself
is "... all are told, and who has begun aborts" "$(told 'two ranks use one GPU') $(grep -c abort <<<"$log")" \
    "2 $(grep -c ' init of' <<<"$log")"

# what NCCL is told
script
probe 2 --log "$tmp/%h-%r-%%r.log"
of_rank() { echo "rank $1 NCCL_DEBUG=INFO rank $1 NCCL_DEBUG_FILE=$tmp/%h-$1-%%r.log"; }
is "NCCL's log: a file for each rank" "$rc $(oks) $(sort <<<"$log" | grep NCCL_DEBUG | tr '\n' ' ')" \
    "0 2 $(of_rank 0) $(of_rank 1) "
NCCL_DEBUG=WARN NCCL_DEBUG_FILE=mine NCCL_HOSTID=me probe 1 --log /logs/%r --share
is "... never over what is set" "$(sort <<<"$log" | grep = | tr '\n' ' ')" \
    "rank 0 NCCL_DEBUG=WARN rank 0 NCCL_DEBUG_FILE=mine rank 0 NCCL_HOSTID=me "
probe 2 --log "$tmp/log"
is "... one for two ranks is refused" "$rc $(told "NCCL's log $tmp/log: each rank needs a file of its own: put %r")" \
    "0 2"
probe 2 --log "$tmp/none/%r"
is "... and one that cannot be written, which NCCL would not say" \
    "$rc $(told "NCCL's log $tmp/none/[01]: No such file or directory")" "0 2"
NCCL_COMM_BLOCKING=0x1 probe 2
is "a setting that would make it wait in NCCL is refused" "$rc $(told 'NCCL_COMM_BLOCKING=1 .*unset it')" "0 2"
done_testing

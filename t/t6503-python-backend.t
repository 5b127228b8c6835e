#!/bin/bash
# backend="ddp" of torch.distributed, on a real Slurm: every collective gives gloo's results, on nodes with unequal
# numbers of ranks; PyTorch's DDP, and FSDP2 where it is, train with gloo's losses; a rank that dies is named.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/python.sh"
. "$top_srcdir/t/lib/cluster.sh"
need_packages numpy torch
export PYTHONPATH=$top_srcdir/contrib/python PYTHONDONTWRITEBYTECODE=1 DDP_LIBRARY=$top_builddir/.libs/libddp.so.0
export SLURM_CPU_BIND=none OMP_NUM_THREADS=1 XDG_CACHE_HOME=$top_builddir/t/cache
probe=("$python" "$top_srcdir/t/lib/groupprobe.py")
quiet() { grep -v 'No CUDA runtime\|socket.cpp\|Gloo\|InitGoogleLogging\|reducer.cpp\|^$' || true; } # PyTorch's own

# Compiled here, once in this build folder, so that the cluster's user finds it.
case $("$python" -c 'import torch; print(torch.__version__)') in
1.*) need=(ATen/ATen.h pybind11/pybind11.h) ;;
*) need=() ;;
esac
include=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])') # pybind11 needs Python.h
for header in "${need[@]}"; do
    "${CXX:-g++}" -I"$include" -E -x c++ - <<<"#include <$header>" >"$tmp/header" 2>&1 ||
        skip_all "no $header: contrib/deps test installs libtorch-dev and pybind11-dev"
done
for program in g++ ninja; do
    command -v $program >/dev/null || [ -x "$(dirname "$python")/$program" ] ||
        skip_all "no $program, with which PyTorch compiles extensions: contrib/deps test installs it"
done
run "$python" -c 'import slurm_ddp.torch'
is "it compiles" "$rc:$(quiet <<<"$out$err")" "0:"
run env XDG_CACHE_HOME="$tmp" CXX=/bin/false "$python" -c 'import slurm_ddp.torch'
like "where it does not, one line says what it needs" "$rc:$err" \
    '^1:.*slurm_ddp._lib.Error: backend ddp is compiled at its first import, which needs g\+\+, ninja, setuptools'
mkdir "$tmp/bare"
echo 'raise ImportError("there is none")' >"$tmp/bare/setuptools.py"
run env XDG_CACHE_HOME="$tmp" PYTHONPATH="$tmp/bare:$PYTHONPATH" "$python" -c 'import slurm_ddp.torch'
like "... also where setuptools is missing" "$rc:$err" \
    '^1:.*slurm_ddp._lib.Error: backend ddp is .* \(python3-dev\), and that failed: there is none'
cat >"$tmp/cxx" <<'END'
#!/bin/sh
case "$*" in *group.cpp*) echo "group.cpp:1:2: error: no such thing" >&2; exit 1 ;; esac
exec g++ "$@"
END
chmod +x "$tmp/cxx"
run env XDG_CACHE_HOME="$tmp" CXX="$tmp/cxx" "$python" -c 'import slurm_ddp.torch'
like "... or the compiler has an error" "$rc:$err" \
    '^1:.*slurm_ddp._lib.Error: backend ddp is .*, and that failed: group.cpp:1:2: error: no such thing$'
>"$tmp/bare/file"
for place in "$tmp/bare/file" /proc; do
    run env XDG_CACHE_HOME=$place "$python" -c 'import slurm_ddp.torch'
    like "... and where nothing can be kept in $place" "$rc:$err" \
        "^1:.*slurm_ddp._lib.Error: backend ddp is .* room in .*$place/.* \(XDG_CACHE_HOME .*that failed: .*'$place/"
done

cluster_up 2 --cpus 4
# A cache that all share: what another user made there, or could have written to, is not loaded.
mkdir -m 1777 "$tmp/shared"
for change in "chown nobody %s" "chown nobody %s/*" "chown nobody %s/*/*.so" "chmod g+w %s" "chmod o+w %s/*/*.so"; do
    rm -rf "$tmp/shared/slurm_ddp"
    cp -r "$XDG_CACHE_HOME/slurm_ddp" "$tmp/shared"
    eval "${change//%s/$tmp/shared/slurm_ddp}"
    run env XDG_CACHE_HOME="$tmp/shared" "$python" -c 'import slurm_ddp.torch'
    like "not loaded after ${change//%s/slurm_ddp}" "$rc:$err" \
        "^1:.*slurm_ddp._lib.Error: $tmp/shared/slurm_ddp.* is another user's, or .*: name a folder .* XDG_CACHE_HOME"
done
# ... nor what he could replace between the look and the load.
mkdir -p "$tmp/above/shared"
cp -r "$XDG_CACHE_HOME/slurm_ddp" "$tmp/above/shared"
for change in "chmod 777 $tmp/above" "chmod 777 $tmp/above/shared" "chown daemon $tmp/above" \
    "chgrp nogroup $tmp/above/shared; chmod 775 $tmp/above/shared"; do
    eval "$change"
    run env XDG_CACHE_HOME="$tmp/above/shared" "$python" -c 'import slurm_ddp.torch'
    like "not loaded after ${change//$tmp\//}" "$rc:$err" \
        "^1:.*slurm_ddp._lib.Error: $tmp/above.* is another user's, or .* replace $tmp/above/shared/slurm_ddp, .* XDG_"
    chown root:root "$tmp/above" "$tmp/above/shared"
    chmod 775 "$tmp/above" "$tmp/above/shared"
done
run env XDG_CACHE_HOME="$tmp/above/shared" "$python" -c 'import slurm_ddp.torch'
is "... but with a group of the user's own" "$rc:$(quiet <<<"$out$err")" "0:"
rm -rf "$tmp/shared/slurm_ddp"
cp -r "$XDG_CACHE_HOME/slurm_ddp" "$tmp/shared"
truncate -s 0 "$tmp"/shared/slurm_ddp/*/*.so
run env XDG_CACHE_HOME="$tmp/shared" "$python" -c 'import slurm_ddp.torch'
like "what cannot be loaded is named, with the cure" "$rc:$err" \
    "^1:.*slurm_ddp._lib.Error: backend ddp was .*$tmp/shared/slurm_ddp/.*: file too short: remove .* XDG_CACHE_HOME"
rm -rf "$tmp/shared/slurm_ddp"
run bash -c 'umask 002; CXX=/bin/false XDG_CACHE_HOME=$0/new exec "$@"' "$tmp/shared" \
    "$python" -c 'import slurm_ddp.torch'
is "others cannot write to the folders that it makes, in which nothing is left" \
    "$(stat -c %a "$tmp/shared/new" "$tmp/shared/new/slurm_ddp"{,/*} | xargs) $(ls "$tmp/shared/new/slurm_ddp"/*)" \
    "755 755 755 lock"
cat >"$tmp/folder.py" <<'END'
import os, platform, sys
import slurm_ddp.torch as backend
folders = {backend._folder()}
for thing, name, value in ((backend.torch, "__version__", "9"), (backend.torch, "__file__", "/x"),
                           (backend, "FLAGS", []), (platform, "libc_ver", int), (backend, "SOURCES", ())):
    setattr(thing, name, value)
    folders.add(backend._folder())
assert len(folders) == 6, folders
del os.environ["XDG_CACHE_HOME"]
os.environ["HOME"] = "/nowhere"
assert backend._folder().startswith("/nowhere/.cache/slurm_ddp/" + sys.implementation.cache_tag), backend._folder()
END
run "$python" "$tmp/folder.py"
is "another PyTorch, other flags and sources have their own folder, in ~/.cache" "$rc:$(quiet <<<"$out$err")" 0:

# ranks SRUN-OPTION... -- WHAT...: sets $rc, $out, $err
ranks() {
    local options=()
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    run timeout -k 5 100 "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" srun --ddp=on "${options[@]}" \
        "${probe[@]}" "${@:2}"
}
ranks -N2 -n3 -- collectives
is "every collective, ranks 2 and 1 on two nodes, and a group of two of them" \
    "$rc:$(sort <<<"$out" | uniq -c | xargs)" "0:3 401 compared" || diag "$err"
ranks -N2 -n2 -- stranger
cure='start all ranks by one srun --ddp=on, or all by env -u SLURM_DDP_SECRET; else somebody has changed the .*'
like "what lies in PyTorch's store lets no stranger in, but where there is no secret" "$rc:$(sort <<<"$out")" \
    "^0:none: let in
rank 1 without: .*rank 0 has started the group with a SLURM_DDP_SECRET, unlike rank 1: $cure
rank 1 without: .*rank 1 has started the group without a SLURM_DDP_SECRET, unlike rank 0: $cure
secret: not let in
secret: the sum is 3.0
secret: the sum is 3.0\$" || diag "$err"
ranks -N2 --ntasks-per-node=2 -- wrong
# what of it PyTorch refuses before it asks the backend depends on its version
refused='s/(meta|complex|lists): (refused by PyTorch|backend ddp: .*(nccl|output for each)).*/\1: refused/'
found=$(sort <<<"$out" | uniq -c | sed -E "s/^ *//; $refused")
is "what cannot be done: one line each, and all ranks go on" "$rc:$found" "0:4 all_gather: told
4 broadcast: told
4 complex: refused
4 destroyed
4 lists: refused
4 meta: refused
4 parts: backend ddp: elements of a tensor share memory, as expand() makes them: take .contiguous() of it
4 room: backend ddp: all-to-all: rank 0 sends 4 bytes to rank 1, which has room for 0
4 root: backend ddp: root 4 is not one of 4 ranks
4 shape: backend ddp: the tensors of the list differ in shape or type from the one that goes with them
4 shared: backend ddp: elements of a tensor share memory, as expand() makes them: take .contiguous() of it
4 source: backend ddp: recv needs the rank that sends: src=
4 sparse: backend ddp: sparse tensors are not supported: use dense ones, or gloo" || diag "$err"

kinds=(ddp)
"$python" -c 'from torch.distributed.fsdp import fully_shard' 2>"$tmp/fsdp.err" && kinds+=(fsdp)
ranks -N2 --ntasks-per-node=2 -- train gloo "${kinds[@]}"
want=$out
ranks -N2 --ntasks-per-node=2 -- train ddp "${kinds[@]}"
rounded='{ for (i = 2; i <= NF; i++) printf "%.4f ", $i }' # the order of a sum is another one than gloo's
for kind in "${kinds[@]}"; do
    of_kind="/^$kind / $rounded"
    is "$kind: the losses are gloo's" "$rc:$(awk "$of_kind" <<<"$out")" "0:$(awk "$of_kind" <<<"$want")" || diag "$err"
    like "... of a whole training" "$out" "(^|"$'\n'")$kind( [0-9.]+){12}("$'\n'"|\$)"
done
ranks -K0 -N2 --ntasks-per-node=2 -- killed 3 # else Slurm may end them before they have spoken
is "a rank is killed: an exception on each of the others names it" \
    "$(grep -cE '^(DistBackend|Runtime)Error: rank 3 \(n2\) died' <<<"$out")" 3 || diag "$out$err"
told=$cluster_dir/home/told
ranks -K0 -N2 -n3 -- unanswered 1 "$told"
for rank in 0 2; do
    is "a rank dies whose first message rank $rank waits for: it is told, whatever else it waits for" \
        "$(sed -nE 's/^(DistBackend|Runtime)Error: (.*rank 1 \(n1\) died).*/\2/p' "$told.$rank" | sort)" \
        "rank 1 (n1) died
the first message from rank 1 to rank $rank: rank 1 (n1) died" || diag "$out$err"
done
ranks -K0 -N2 -n3 -- unanswered 0 "$told"
for rank in 1 2; do
    is "... or rank 0, with the store in which rank $rank waits for another that lives" \
        "$(sed -nE 's/^(DistBackend|Runtime)Error: (.*rank 0 \(n1\) died).*/\2/p' "$told.$rank" | sort)" \
        "rank 0 (n1) died
the first message from rank $((3 - rank)) to rank $rank: rank 0 (n1) died" || diag "$out$err"
done
ranks -N2 -n2 -- forked
is "a forked child leaves the group, or exits, at once, and cannot use it" "$rc:$(xargs <<<"$out")" "0:left left" ||
    diag "$err"
ranks -N2 -n2 -- leaves
is "a rank leaves as soon as its work is over: the other gets what it has sent" "$rc:$(sort <<<"$out" | xargs)" \
    "0:100 came 100 came" || diag "$err"
ranks -N2 -n2 -- deserts
like "... or before: the other is told" "$rc:$out" \
    '^0:rank 0 .*n1.* aborted: the process group was destroyed with works in flight' || diag "$err"
ranks -K0 -N2 -n2 -- crowded
thread='backend ddp: thread for works (ulimit -u, ulimit -v): Resource temporarily unavailable'
is "a thread that cannot be started is an error that names the limit, and is tried again" \
    "$rc:$(grep -v callback <<<"$out" | sort)" "0:$thread
got 2.0" || diag "$err"
is "... and where a callback needs it all are told" "$(sed -n 's/.* the callback: [A-Za-z]*: //p' <<<"$out" | sort)" \
    "$thread
rank 0 (n1) aborted: $thread" || diag "$err"
if [ ${#need[@]} = 0 ]; then # PyTorch 1.13's own barrier counts ranks of the groups before
    ranks -N1 -n2 -- again
    is "the group of all ranks is opened anew" "$rc:$(sort <<<"$out" | uniq -c | xargs)" "0:2 6 groups" || diag "$err"
fi
ranks -K0 -N2 --ntasks-per-node=2 -- raises
is "a rank raises: the others say what" \
    "$(grep -cE 'Error: rank 1 \(n1\) aborted: ValueError: no such sample$' <<<"$err")" 3 || diag "$err"
ranks --ddp=guard -N2 --ntasks-per-node=2 -- raises
is "... and with guards the step's line" "$(ddp_lines <<<"$err")" \
    "ddp: rank 1 (n1) aborted: ValueError: no such sample: the step ends" || diag "$err"
done_testing

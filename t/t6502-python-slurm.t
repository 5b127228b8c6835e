#!/bin/bash
# The Python package slurm_ddp with PyTorch: what a Checkpoint holds; and a loop with its lines, of the example gpt.py,
# four ranks over gloo on a real Slurm: killed, stopped by scancel, and gone on, it ends with the bits of a run that
# nobody disturbed, and on other ranks with each sample used once an epoch. (Twenty kills, and a requeue: t9602.)
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/python.sh"
. "$top_srcdir/t/lib/cluster.sh"
need_packages numpy torch
export PYTHONPATH=$top_srcdir/contrib/python PYTHONDONTWRITEBYTECODE=1 DDP_LIBRARY=$top_builddir/.libs/libddp.so.0
export SLURM_CPU_BIND=none OMP_NUM_THREADS=1
what=("$top_builddir/ddp" run -n 2 "$python" "$top_srcdir/t/lib/pyprobe.py" torch "$tmp/torch")
run "${what[@]}" new
first=$(sort <<<"$out")
like "modules, an optimizer, schedulers, tensors of all types are saved" "$rc:$first" '^0:0 2 ' || diag "$err"
run "${what[@]}"
is "... and are there again, each rank's random numbers too" "$rc:$(sort <<<"$out")" "0:$first" || diag "$err"
run "$python" -c 'import safetensors.torch as s, sys; print(sorted(s.load_file(sys.argv[1]))[0])' \
    "$tmp/torch/step-00000002/model-00001-of-00001.safetensors"
like "... as safetensors reads them" "$rc:$out$err" "^(0:0.bias|1:.*No module named 'safetensors')"

run "$python" "$top_srcdir/t/lib/pyprobe.py" inner "$tmp/inner"
is "an optimizer within an optimizer, of which its state_dict() is silent, is missed" "$rc:$out$err" 0:ok

run "$python" "$top_srcdir/t/lib/pyprobe.py" written "$tmp/written"
like "parameters that are written to before optimizer.step(): the first checkpoint that would have some is given up" \
    "$rc:$out$err" "^0:okthe checkpoint of step 4 failed: weight was written to between"
run "$python" "$top_srcdir/t/lib/pyprobe.py" written "$tmp/always" always
is "... and has none of it where they always are" "$rc:$out$err" 0:ok

run "$python" "$top_srcdir/t/lib/pyprobe.py" kept "$tmp/kept" # thirty lives
is "random numbers go on, whatever reads the Sampler, and what an epoch's end draws" "$rc:$out" "0:ok" || diag "$err"

run "$python" "$top_srcdir/t/lib/pyprobe.py" trainers
is "a Trainer's data_seed, if only 0, is the order's seed; what it or a Saver cannot do is refused" "$rc:$out$err" 0:ok

cat >"$tmp/bare.py" <<'END'
import runpy, sys
from importlib.machinery import PathFinder
class WithoutNumpy(PathFinder):
    @classmethod
    def find_spec(cls, name, *where):
        return None if name.split(".")[0] == "numpy" else super().find_spec(name, *where)
sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutNumpy
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
END
what=("$top_builddir/ddp" run -n 2 "$python" "$tmp/bare.py" "$top_srcdir/contrib/examples/gpt.py"
    --data /usr/share/common-licenses/BSD --ckpt "$tmp/ckpt" --layers 1 --print-hash)
run "${what[@]}" --steps 2
like "without NumPy, which PyTorch 2 does not bring, the example trains" "$rc:$out" '^0:.*params hash' || diag "$err"
run "${what[@]}" --steps 3
like "... and goes on" "$rc:$out" '^0:.*resumed from .* step 2.step 3 ' || diag "$err"

cluster_up 2 --cpus 4
home=$cluster_dir/home
head -c 8001 /usr/share/common-licenses/GPL-3 >"$home/text" # 250 samples
probe=("$python" "$top_srcdir/t/lib/gptprobe.py" --data "$home/text" --steps 40 --ckpt-every 5 --layers 1 --workers 1
    --print-hash)

# life NAME SAMPLES SRUN-OPTION...: one life of the training NAME; its output in $tmp/SAMPLES.*
life() {
    mkdir -m 777 "$home/$2"
    PROBE_SAMPLES=$home/$2 timeout -k 5 60 "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" srun --ddp=on \
        -J "$1" "${@:3}" "${probe[@]}" --ckpt "$home/$1.ckpt" --log-json "$home/$1.json" >"$tmp/$2.out" 2>"$tmp/$2.err"
}
ended() { # RC SAMPLES: after it; sets $rc, $out, $err
    rc=$1 out=$(<"$tmp/$2.out") err=$(grep -v 'reducer.cpp\|InitGoogleLogging' "$tmp/$2.err")
}
four=(-N2 --ntasks-per-node=2)
hash_of() { sed -n 's/^params hash //p' <<<"$out"; }
used() { run "$python" "$top_srcdir/t/lib/pyprobe.py" used 250 "$@"; }

life alone alone "${four[@]}"
ended $? alone
want=$(hash_of)
like "nobody disturbs it" "$rc:$want" '^0:[0-9a-f]{16}$' || diag "$err"

PROBE_KILL=3:12 life kept one "${four[@]}"
ended $? one
like "a rank is killed: the job ends" "$rc:$out" '^[1-9].*step 12 ' || diag "$err"
like "... and has saved" "$(ls "$home/kept.ckpt")" 'step-000000(0[5-9]|[1-3][0-9])'

probe+=(--pace 0.5) # it has 20 steps left, or more, in which the stop must come
life kept two "${four[@]}" &
going() { grep -qs '^step ' "$tmp/two.out"; }
ok "it goes on" until_true 60 going
cluster_run squeue -h -n kept -o %A
cluster_run scancel --signal=TERM "$out" # to the DataLoader's workers, too
rc=0
wait $! || rc=$?
ended $rc two
like "... from the newest checkpoint" "$out" "resumed from $home/kept.ckpt, at step ([5-9]|[1-3][0-9])"$'\n'
killed=$(sed -n 's/^resumed from .* at step //p' <<<"$out")
is "scancel --signal=TERM: exit code" "$rc" 75 || diag "$err"
like "... saved, and said" "$err" 'stopped by SIGTERM, with a checkpoint of step [0-9]+'
stopped=$(sed -n 's/.*with a checkpoint of step \([0-9]*\).*/\1/p' <<<"$err")
unset 'probe[-1]' 'probe[-1]'
cp -a "$home/kept.ckpt" "$home/other.ckpt"
cp -a "$home/kept.json" "$home/other.json"

life kept three "${four[@]}"
ended $? three
is "the end has the bits of the undisturbed run" "$rc:$(hash_of)" "0:$want" || diag "$err"
ok "... and its log" cmp "$home/alone.json" "$home/kept.json"
used "$home/one:$killed" "$home/two:$stopped" "$home/three:40"
is "each sample was used once an epoch" "$rc:$out" "0:2 whole epochs and 128 samples, each once" || diag "$err"

life other four -N1 -n3
ended $? four
like "three ranks go on" "$rc:$out" "^0:.*resumed from $home/other.ckpt, at step $stopped.*step 40 " || diag "$err"
used "$home/one:$killed" "$home/two:$stopped" "$home/four:40"
like "... each sample is used once an epoch still" "$rc:$out" "^0:[12] whole epochs and [0-9]+ samples, each once" ||
    diag "$err"

cluster_run srun --ddp=guard -N2 -n2 "$python" "$top_srcdir/t/lib/pyprobe.py" fails "$home/fails"
like "a save that fails, which nobody catches: with guards the step's line has the reason, whichever rank ends first" \
    "$(ddp_lines <<<"$err")" "^ddp: rank [01] \(n[12]\) aborted: Checkpoint: step 1 was not saved to \
/.*: File too large \\(ulimit -f\\): the step ends$" || diag "$err"

printf '#!/bin/sh\n#SBATCH --ddp=on --requeue -N2 --ntasks-per-node=2\nexec srun %s %s requeue\n' "$python" \
    "$top_srcdir/t/lib/pyprobe.py" >"$home/job"
cluster_run sbatch --parsable -o "$home/log" "$home/job"
job=$out
ok "requeue(): a loop that saves by its own means" until_true 60 grep -qsx "job $job is requeued.*" "$home/log" ||
    diag "$(cat "$home/log")"
waits() { cluster_run squeue -h -j "$job" -o %T && [ "$out" = PENDING ]; }
ok "... the job is back in the queue" until_true 60 waits
cluster_run scancel "$job"
done_testing

#!/bin/bash
# contrib/gpu-check as a whole, in a tree made up for it, whose programs do what they are told here: whatever fails,
# hangs, does not compile or ends it, all that was measured is in its record and its archive.
. "$(dirname "$0")/lib/tap.sh"
unset PEER_PYTHON CUDA_VISIBLE_DEVICES MAKEFLAGS MAKELEVEL
tree=$tmp/tree
mkdir -p "$tree/contrib/bench" "$tree/does" "$tree/t" "$tmp/bin"
cp -r "$top_srcdir/contrib/gpu-check" "$top_srcdir/contrib/lib" "$tree/contrib"
# the limits of what hangs here
sed -i 's/^again_seconds=40 /again_seconds=3 /; s/^again_least=15 /again_least=3 /' "$tree/contrib/lib/gpu-again.sh"
sed -i 's/^test_seconds=40 /test_seconds=3 /' "$tree/contrib/lib/gpu-run.sh"
sed -i 's/^prepare_seconds=150$/prepare_seconds=4/' "$tree/contrib/lib/gpu-bench.sh"
sed -i 's/bench_torch torch 150/bench_torch torch 3/' "$tree/contrib/gpu-check"

script() { # PATH: what comes on standard input
    { echo '#!/bin/bash' && cat; } >"$1"
    chmod 755 "$1"
}
does() { script "$tree/does/$1"; }
# A build of it copies what programs do; one that says BROKEN does not compile.
script "$tree/configure" <<'EOS'
top=$(dirname "$0")
[ ! -e "$top/configure.fails" ] || { echo "configure: error: it lacks something" && exit 1; }
cat >Makefile <<MAKE
PACKAGE_VERSION = 1.2.3
TESTS = t/gpu/large t/gpu/cuda_reduce t/gpu/gmodel t/gpu/cuda_cast t/gpu/cuda_gelu t/gpu/cuda_optim t/gpu/cuda_attention
BENCHES = \$(addprefix contrib/bench/,gpufirst gpukernels gpumodel gpureduce)
PROGRAMS = train ddp \$(BENCHES) \$(TESTS)
list-gpu-programs: ; @printf '%s\n' \$(PROGRAMS)
list-gpu-tests: ; @printf '%s\n' \$(TESTS)
list-gpu-scripts: ; @printf '%s\n' t/t8402-gpu-training.t t/t8405-gpu-ranks.t
\$(PROGRAMS):
	@mkdir -p \$(@D)
	@! grep -q BROKEN $top/does/\$(@F) || { echo '\$(@F).cu(3): error: identifier "x" is undefined'; false; }
	@cp $top/does/\$(@F) \$@
\$(TESTS): t/gpu/%: $top/does/%
Makefile: $top/configure
	@echo "made anew" && touch \$@
MAKE
touch -d '1 hour ago' Makefile
EOS
script "$tmp/bin/nvidia-smi" <<'EOS'
echo "NVIDIA Made-up, 1 MiB, 580.1, 9.0"
EOS
script "$tmp/bin/nvcc" <<'EOS'
echo "Cuda compilation tools, release 13.0, V13.0.1"
EOS
script "$tmp/bin/compute-sanitizer" <<'EOS'
echo "========= COMPUTE-SANITIZER"
while [[ $1 = --* ]]; do [ "$1" != --tool ] || tool=$2; shift 2; done
[ "$tool" = memcheck ] || { echo "========= RACECHECK SUMMARY: 0 hazards displayed" && exit 0; }
echo "========= Invalid __global__ read of size 4 bytes"
echo "========= ERROR SUMMARY: 1 error"
exit 99
EOS
# For gpupeer: PyTorch's compiler has no end.
script "$tmp/bin/python" <<'EOS'
[[ "$*" == *gpupeer* ]] || { printf '%s' "${PIP:-}" && exit; }
for last; do [[ $last != @(prepare|ours|torch|losses) ]] || part=$last; done
case $part in
prepare | torch) read -r <>"$NEVER" ;;
*) what="\"what\": \"$part\", \"median\": 5, \"unit\": \"tok/s\"" ;;
esac
echo "{$what, \"ratio\": null, \"ratio_of\": \"\", \"reached\": null}" >"$last"
EOS
# A header that the machine lacks: $LACKS. ccache's gcc would look for one in PATH and find this one.
gcc=$(type -ap gcc | grep -v /ccache/ | head -n 1)
cat >"$tmp/bin/gcc" <<EOS
#!/bin/bash
text=\$(cat)
[ -z "\${LACKS:-}" ] || [[ \$text != *"<"@(\$LACKS)">"* ]] || exit 1
exec $gcc "\$@" <<<"\$text"
EOS
chmod 755 "$tmp/bin/gcc"
mkfifo "$tmp/no-end"
export NEVER=$tmp/no-end PEER_PYTHON=$tmp/bin/python PATH=$tmp/bin:$PATH
for name in ddp train; do does $name </dev/null; done
for name in gpukernels gpumodel gpureduce; do
    does $name <<EOS
echo '{"what": "$name", "median": 1, "unit": "ms", "ratio": 0.5, "ratio_of": "of it", "reached": true}' >"\${@: -1}"
EOS
done
does ddp <<<'shift 3; exec "$1" "${@: -2}"'
does gpufirst <<<'echo NCCL 2.28.9; echo GPU made up'
for name in large gmodel cuda_cast cuda_gelu cuda_optim cuda_attention cuda_reduce; do
    does $name <<<'echo ok 1 - fine'
done
for name in t8402-gpu-training t8405-gpu-ranks; do script "$tree/t/$name.t" <<<'echo ok 1 - trains'; done

checks() { run_deadline=120 run env -C "$tmp" "$tree/contrib/gpu-check" --out "$tmp/out" "$@"; }
# said KEY...: values of the record; the record is one.
said() {
    /usr/bin/python3 - "$tmp/out/gpu-check.json" "$@" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
tests = ["{name}:{passed}:{failed}:{skipped}".format(**t) for t in r["tests"]]
r |= {"tests": " ".join(tests), "benchmarks": " ".join(b["what"].split("/")[-1] for b in r["benchmarks"]),
      "not_measured": " ".join(n["what"] for n in r["not_measured"]),
      "again": "; ".join("{name} {how} {result}".format(**a) for a in r["again"])}
print("|".join(str(r[k]) for k in sys.argv[2:]))
PY
}
archived() { tar -xzOf "$tmp/out/gpu-check-logs.tar.gz" "$1"; }

# --- a test that fails, one that hangs, one that does not compile, a PyTorch without end ---
does cuda_cast <<'EOS'
[ -z "$CUDA_LAUNCH_BLOCKING" ] || { echo ok 1 - fine && exit; }
echo "not ok 1 - bad"
echo "# 1 != 2"
exit 1
EOS
does cuda_gelu <<<'echo ok 1 - begun; read -r <>"$NEVER"'
does cuda_reduce <<<'BROKEN'
checks
is "much that is planted: exit code" "$rc" 1 || diag "$err"
rest="cuda_attention:1:0:0 gmodel:1:0:0 large:1:0:0 t8402-gpu-training:1:0:0 t8405-gpu-ranks:1:0:0"
is "... each is a failure, in the order of what depends on what, and no other" "$(said tests)" \
    "cuda_reduce:0:1:0 cuda_cast:0:1:0 cuda_optim:1:0:0 cuda_gelu:1:1:0 $rest cuda_attention.racecheck:1:0:0"
is "... all else was measured" "$(said benchmarks not_measured ended)" \
    "ours losses gpureduce gpumodel gpumodel gpukernels|torch|in full"
found="memcheck Invalid __global__ read of size 4 bytes; ERROR SUMMARY: 1 error, exit code 99"
is "... what failed ran again" "$(said again)" "cuda_cast CUDA_LAUNCH_BLOCKING=1 passes; cuda_cast $found; \
cuda_gelu CUDA_LAUNCH_BLOCKING=1 fails, too: not over after 3 s; cuda_gelu $found"
like "... is shown when it fails" "$out" "cuda_cast +0 +1 +0 .*exit code 1
    not ok 1 - bad
    # 1 != 2
cuda_optim"
like "... the compiler's first error, too" "$out" \
    'cuda_reduce +0 +1 +0 +0  did not build: cuda_reduce.cu\(3\): error: identifier "x" is undefined'
like "... that PyTorch's compiler had no end" "$out" "PyTorch, ahead: not over in its time"
like "... the last lines" "$out" "  cuda_gelu: 1 failed, 1 passed: not over after 3 s
.*contrib/gpu-check: [0-9]+ s of 555; for 0 of them there was no time; ended in full
contrib/gpu-check: 3 tests failed, 1 benchmarks did not run, 0 goals were missed: .*/gpu-check.json$"
is "... its log is in the archive" "$(archived logs/cuda_cast.log)" "not ok 1 - bad
# 1 != 2"
is "... and the record" "$(archived gpu-check.json)" "$(cat "$tmp/out/gpu-check.json")"

# --- nothing fails ---
for name in cuda_cast cuda_gelu cuda_reduce; do does $name <<<'echo ok 1 - fine'; done
rm -rf "$tmp/out"
script "$tmp/bin/python" <<<'[[ "$*" == *gpupeer* ]] && { echo "no PyTorch" >&2; exit 77; }; echo "${PIP:-}"'
checks tests
is "when nothing fails: exit code" "$rc" 0 || diag "$out"
does cuda_reduce <<<'BROKEN'
checks tests
is "what does not build any more does not run either" "$(said tests)" "cuda_reduce:0:1:0 cuda_cast:1:0:0 \
cuda_optim:1:0:0 cuda_gelu:1:0:0 $rest cuda_attention.racecheck:1:0:0"
does cuda_reduce <<<'echo ok 1 - fine'
rm -rf "$tmp/out"

# --- a signal ---
mkfifo "$tmp/begun"
does cuda_gelu <<<"echo ok 1 - begun; : >$tmp/begun; read -r <>\"\$NEVER\""
env -C "$tmp" "$tree/contrib/gpu-check" --out "$tmp/out" >"$tmp/said" 2>&1 &
pid=$!
read -r -t 60 <"$tmp/begun"
is "what was done is in the record while more is at work" "$(said tests ended)" \
    "cuda_cast:1:0:0 cuda_reduce:1:0:0 cuda_optim:1:0:0|at work"
kill -TERM $pid
wait $pid
is "SIGTERM: exit code" "$?" 143
is "... what was done is in the record" "$(said tests not_measured ended)" \
    "cuda_cast:1:0:0 cuda_reduce:1:0:0 cuda_optim:1:0:0|cuda_gelu|by SIGTERM"
is "... and what was not yet in the archive" "$(archived logs/cuda_gelu.log)" "ok 1 - begun"
like "... the last line is the same" "$(tail -n 1 "$tmp/said")" ' 0 tests failed, 0 benchmarks did not run, 0 goals'
is "... nothing is left running" "$(env -u NEVER grep -lzsF "NEVER=$NEVER" /proc/[0-9]*/environ)" ""
does cuda_gelu <<<'echo ok 1 - fine'

# --- no time ---
does cuda_gelu <<<'echo "1..0 # SKIP no GPU"'
checks tests --budget 2
is "no time: exit code" "$rc $(said tests ended)" \
    "0 probe:0:0:1 cuda_cast:0:0:1 cuda_reduce:0:0:1 cuda_optim:0:0:1 cuda_gelu:0:0:1 ${rest//:1:0:0/:0:0:1}|in full" ||
    diag "$out"

# --- a GPU that does not work ---
rm -rf "$tmp/out"
does gpufirst <<<'echo no NCCL: not there; echo "gpufirst: no launch" >&2; exit 1'
checks
is "a GPU that does nothing: exit code" "$rc $(said tests benchmarks)" "1 probe:0:1:0|"
is "... says why, and stops" "$(said ended)" "stopped: probe: gpufirst: no launch, exit code 1"
rm -rf "$tmp/out"
does gpufirst <<<'echo no NCCL: not there'
checks tests
is "tests that skip all, and no NCCL" "$rc $(said tests)" "1 cuda_cast:1:0:0 cuda_reduce:1:0:0 cuda_optim:1:0:0 \
cuda_gelu:0:1:0 ${rest/ranks:1:0:0/ranks:0:0:1} cuda_attention.racecheck:1:0:0"

# --- what the machine has elsewhere, or lacks ---
rm -rf "$tmp/out"
for part in nccl cublas; do mkdir -p "$tmp/pip/$part/include" "$tmp/pip/$part/lib"; done
touch "$tmp/pip/nccl/include/nccl.h" "$tmp/pip/cublas/include/cublasLt.h"
PIP=$tmp/pip/cublas$'\n'$tmp/pip/nccl LACKS='nccl.h|cublasLt.h' checks tests
like "CUDA's parts that are pip's" "$(cat "$tmp/out/options")" \
    " --with-nccl=$tmp/pip/nccl .*CPPFLAGS=-idirafter $tmp/pip/cublas/include LDFLAGS=-L$tmp/pip/cublas/lib"
rm -rf "$tmp/out"
LACKS=jansson.h checks
is "a package that is missing" "$rc $(said tests ended)" \
    "1 packages:0:1:0|stopped: packages: jansson.h is missing here: --packages DIR, see contrib/bundle"
rm -rf "$tmp/out"
: >"$tree/configure.fails"
checks
is "a configure that fails" "$rc $(said tests ended)" "1 configure:0:1:0|stopped: configure: exit code 1"
like "... is shown" "$out" "configure: error: it lacks something"
done_testing

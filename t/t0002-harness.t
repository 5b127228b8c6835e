#!/bin/bash
# The tests' own tools: what fails is reported as failing, what hangs is ended, what may not be skipped counts,
# what contrib/check builds is whole, packages that are there are not missed.
source "$(dirname "$0")/lib/tap.sh"

# script TEXT: runs TEXT as a shell test of its own; sets $rc, $out, $err.
script() {
    printf '#!/bin/bash\nsource "%s/t/lib/tap.sh"\n%s\n' "$top_srcdir" "$1" >"$tmp/script.t"
    run bash "$tmp/script.t"
}
script 'ok works true; is same a a; like has abc b; unlike lacks abc x; done_testing'
is "passing assertions" "$rc:$(xargs <<<"$out")" "0:ok 1 - works ok 2 - same ok 3 - has ok 4 - lacks 1..4"
for bad in 'ok b false' 'is b a b' 'like b abc "^x"' 'unlike b abc "b+"'; do
    script "ok first true; $bad || diag more; ok third true || diag less; done_testing"
    like "fails, and says more: $bad" "$rc:$out" "^1:ok 1 - first.not ok 2 - b.*# more.ok 3 - third.1\.\.3$"
done
script 'ok first true; isnt second a b; (isnt third a b); done_testing'
is "a command that does not exist" "$rc:$out" $'1:ok 1 - first\nnot ok 2 - all commands exist: not isnt\n1..2'
script 'ok first true; exit 0'
unlike "a script that stops early prints no plan" "$out" "1\.\.[0-9]"
script 'skip_all "no GPU"; ok never false'
is "skip_all" "$rc:$out" "0:1..0 # SKIP no GPU"
script 'ok first true; skip_all "no GPU"; ok never false'
is "skip_all after results skips the rest" "$rc:$out" $'0:ok 1 - first\nok 2 - the rest # SKIP no GPU\n1..2'
script 'ok first false; skip_all "no GPU"'
like "... and hides no failure" "$rc:$out" $'^1:not ok 1 - first.*ok 2 - the rest # SKIP no GPU\n1\.\.2$'
LC_ALL=de_DE.UTF-8 LANGUAGE=de script 'printenv LC_ALL LANGUAGE'
is "commands speak English, and numbers have points" "$out" "C.UTF-8"
script 'run sh -c "echo out; echo err >&2; exit 3"; echo "$rc/$out/$err"'
is "run gives exit code, output and errors apart" "$out" "3/out/err"
script 'echo $tmp; touch $tmp/file; at_exit "echo one"; at_exit "echo two"; done_testing'
is "at_exit runs in reverse order" "$(xargs <<<"$err")" "two one"
ok "the script's folder goes" test ! -e "$(head -1 <<<"$out")"

ended() { # PID: it ends within five seconds; a zombie has ended
    local i
    for ((i = 0; i < 100; i++)); do
        grep -qs '^State:.[^ZX]' "/proc/$1/status" || return 0
        sleep 0.05
    done
    return 1
}
# A deadline: a child, a grandchild in the background, and one that ignores SIGTERM, all end.
script 'run_deadline=1; run bash -c "sleep 1000 & echo \$!; sleep 1000"; echo "$rc $out"; done_testing'
read -r code pid _ <<<"$out"
is "a command that hangs ends at the deadline" "$code" 124
ok "... and so does its child" ended "${pid:-self}"
script 'run_deadline=1
run bash -c "trap \"\" TERM; echo \$\$; while :; do sleep 0.1; done"
echo "$rc $out"
done_testing'
read -r code pid _ <<<"$out"
is "a command that ignores SIGTERM is killed" "$code" 137
ok "... and ends" ended "${pid:-self}"

printf 'source "%s/t/lib/tap.sh"\nsleep 1000 & echo $!; wait $!\n' "$top_srcdir" >"$tmp/script.t"
run timeout --foreground 1 bash "$tmp/script.t"
is "a test that hangs ends at its deadline" "$rc" 124
ok "... and what it runs in the background, which may hold its output open" ended "${out:-self}"

script 'n=0; fourth() { [ $((++n)) -eq 4 ]; }; until_true 5 fourth; echo $? $n; until_true 1 false; echo $?'
is "until_true polls, and gives up" "$(xargs <<<"$out")" "0 4 1"
# contrib/check's count, on recorded results.
record() { # NAME LOG-LINES...: what the TAP driver leaves for a test that printed these results
    local name=$1 line
    shift
    mkdir -p "$tmp/results"
    printf '%s\n' "$@" >"$tmp/results/$name.log"
    for line; do echo ":test-result: ${line%%:*}"; done >"$tmp/results/$name.trs"
    echo ":global-test-result: X" >>"$tmp/results/$name.trs"
}
counts() { # DESC WANT [REPORT]: forgets the records
    run bash -euo pipefail -c 'source "$1"; count_results "$2"; echo "$passed $failed $skipped"' \
        bash "$top_srcdir/contrib/lib/count.sh" "$tmp/results"
    is "$1" "$(tail -n 1 <<<"$out")" "$2"
    [ $# -lt 3 ] || like "... and the line says it" "$out" "$3"
    rm -r "$tmp/results"
}
record a 'PASS: a.t 1 - x' 'PASS: a.t 2 - y'
record b 'PASS: b.t 1 - x' 'XFAIL: b.t 2 - known'
counts "passes and expected failures" "4 0 0"
record a 'PASS: a.t 1 - x' 'FAIL: a.t 2 - y' 'ERROR: a.t - too few tests run' 'XPASS: a.t 3 - z'
counts "failures, errors and surprises" "1 3 0" "FAIL: a.t 2 - y"
record a 'SKIP: a.t - no GPU' 'SKIP: a.t 2 - x # SKIP needs 2 GPUs' 'SKIP: a.t 3 - x # SKIP needs a GPU with NVLink'
counts "skips for want of a GPU" "0 0 3"
record a 'SKIP: a.t - no Python packages numpy: the package index does not offer them'
counts "a skip for want of what the package index lacks" "0 0 1"
record a 'SKIP: a.t 2 - JAX # SKIP no Python package (no jax): DDP_TEST_PYTHON names another Python'
counts "... or of a framework that nobody named" "0 0 1"
record a 'SKIP: a.t - no CUDA toolkit: nvcc was not found' 'SKIP: a.t 2 - x # SKIP no NCCL'
counts "skips for want of what is not in Debian proper" "0 0 2"
for line in 'SKIP: a.t - needs root' 'SKIP: a.t 1 - GPU table # SKIP no cmocka' 'SKIP: a.t 1 - x # SKIP' 'SKIP: a.t' \
    'SKIP: a.t - no GPUDirect tools'; do
    record a "$line" 'PASS: a.t 2 - x'
    counts "another skip is a failure: ${line//#/}" "1 1 0" "${line:0:9}.*failure"
done
record a 'PASS: a.t 1 - x'
sed -i /global/d "$tmp/results/a.trs"
counts "a test that did not end" "1 1 0" "did not end"
record a 'SKIP: a.t - no GPU'
rm "$tmp/results/a.log"
counts "a skip without its log" "0 1 0"
mkdir "$tmp/results"
counts "nothing at all" "0 0 0"

# What contrib/demo, contrib/check and contrib/bundle build, from an archive that lies below somebody's repository.
copied() { # FOLDER: what they take of it
    here=$1/contrib run bash -euc 'source "$0" && copy_tree "$1"' "$top_srcdir/contrib/lib/build.sh" "$tmp/copy"
    (cd "$tmp/copy" && find . -type f ! -path './.git/*' | sort | xargs)
    rm -r "$tmp/copy"
}
mkdir -p "$tmp/outer/contrib" "$tmp/outer/slurm-ddp/contrib"
printf '%s\n' configure '*.in' >"$tmp/outer/.gitignore"
touch "$tmp/outer/slurm-ddp/configure" "$tmp/outer/slurm-ddp/Makefile.in"
! command -v git >"$tmp/which" || git -c init.defaultBranch=main init -q "$tmp/outer"
is "an archive's tree is copied whole" "$(copied "$tmp/outer/slurm-ddp")" "./Makefile.in ./configure"
! command -v git >"$tmp/which" ||
    is "of a repository, what is not ignored" "$(copied "$tmp/outer")" "./.gitignore"

# contrib/deps, on what dpkg-query says.
"$top_srcdir/contrib/deps" --list run | awk '{ print ($2 == "munge" ? "rc " : NR % 2 ? "hi " : "ii ") $2 ", " }' \
    >"$tmp/state"
mkdir "$tmp/bin"
printf '#!/bin/sh\ncat "%s"\n' "$tmp/state" >"$tmp/bin/dpkg-query" && chmod 755 "$tmp/bin/dpkg-query"
PATH=$tmp/bin:$PATH run "$top_srcdir/contrib/deps" --check run
is "a package on hold is there, one of which the configuration is left is not" "$rc:$out" "1:munge"
done_testing

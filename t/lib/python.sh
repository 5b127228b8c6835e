# shellcheck shell=bash
# python.sh - for shell tests that need Python packages: $DDP_TEST_PYTHON, which contrib/check sets, or the system's.

run_deadline=300 # to import a framework takes seconds, of a busy machine ten times as many

# need_packages NAME...: sets $python, or skips the whole test.
need_packages() {
    local why
    python=${DDP_TEST_PYTHON:-/usr/bin/python3}
    [ "$python" != none ] || skip_all "no Python packages $*: the package index does not offer them"
    why=$("$python" "$top_srcdir/t/lib/ckpt.py" packages "$@" 2>&1) ||
        skip_all "no Python package ${why##*$'\n'}: contrib/check installs it where the package index offers it"
}

# shellcheck shell=bash disable=SC2154
# python.sh - the Python packages that tests read checkpoints with, in a virtual environment: what Debian has
# (contrib/deps: PyTorch, NumPy) and, from pip's package index, what it lacks: the versions of python.txt, and of these
# no file but those whose checksums stand there. $work, $here, say() and complain() are the caller's.

# python_environment: makes $work/python, unless it is there, and sets DDP_TEST_PYTHON to its interpreter; to "none"
# where the index does not offer the packages, and the tests that need them are skipped. False, after one line, where it
# offers another file for one of them, or python.txt lacks what one of them needs: that is no reason to skip.
python_environment() {
    local wrong='DO NOT MATCH THE HASHES|require-hashes mode|Hashes are required|Invalid requirement'
    export DDP_TEST_PYTHON=$work/python/bin/python
    { [ -x "$DDP_TEST_PYTHON" ] || /usr/bin/python3 -m venv --system-site-packages "$work/python"; } \
        >"$work/python.out" 2>&1 &&
        timeout -k 10 600 "$DDP_TEST_PYTHON" -m pip install --quiet --no-input --no-compile \
            --disable-pip-version-check --require-hashes -r "$here/lib/python.txt" \
            >>"$work/python.out" 2>&1 </dev/null && return
    DDP_TEST_PYTHON=none
    if grep -qE "$wrong" "$work/python.out"; then
        complain "contrib/lib/python.txt does not have the version or checksum of what came for" \
            "$(grep -EA1 "$wrong" "$work/python.out" | awk 'NR == 2 { print $1 }'):" \
            "$(grep -m1 -E "$wrong" "$work/python.out")"
        return 1
    fi
    say "the package index does not offer the packages of contrib/lib/python.txt: $(tail -n 1 "$work/python.out")"
}

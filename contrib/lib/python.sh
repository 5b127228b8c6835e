# shellcheck shell=bash disable=SC2154
# python.sh - the Python packages that tests read checkpoints with, in a virtual environment: what Debian has
# (contrib/deps: PyTorch, NumPy) and, from pip's package index, what it lacks. $work and say() are the caller's.

# The newest of transformers that works with Debian 12's PyTorch 1.13.
python_packages=(transformers==4.30.2 safetensors xxhash)

# python_environment: makes $work/python and sets DDP_TEST_PYTHON to its interpreter; to "none" where the index does not
# offer the packages, and the tests that need them are skipped.
python_environment() {
    export DDP_TEST_PYTHON=$work/python/bin/python
    /usr/bin/python3 -m venv --system-site-packages "$work/python" >"$work/python.out" 2>&1 &&
        timeout -k 10 600 "$DDP_TEST_PYTHON" -m pip install --quiet --no-input --disable-pip-version-check \
            "${python_packages[@]}" >>"$work/python.out" 2>&1 </dev/null && return
    say "the package index does not offer ${python_packages[*]}: $(tail -n 1 "$work/python.out")"
    DDP_TEST_PYTHON=none
}

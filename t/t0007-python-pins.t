#!/bin/bash
# The Python packages of contrib/check: versions and checksums stand in contrib/lib/python.txt, and what does not have
# them is a failure, not a skip. Over an index of one package in a folder.
source "$(dirname "$0")/lib/tap.sh"
/usr/bin/python3 -c "import venv, ensurepip" 2>/dev/null ||
    skip_all "no virtual environments: Debian has them in python3-venv"
unset "${!PIP_@}"
export PIP_CONFIG_FILE=/dev/null PIP_NO_INDEX=1 PIP_FIND_LINKS=$tmp/index
say() { echo "$*"; }
complain() { echo "$*" >&2; }
mkdir -p "$tmp/index" "$tmp/contrib/lib"

# wheel NAME NEEDS: puts version 1.0 of a package into the index; prints its checksum.
wheel() {
    /usr/bin/python3 - "$tmp/index/$1-1.0-py3-none-any.whl" "$1" "$2" <<'PY'
import hashlib, sys, zipfile
path, name, needs = sys.argv[1:]
info = f"{name}-1.0.dist-info"
files = {f"{name}.py": "",
         f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
         f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n" +
                             (f"Requires-Dist: {needs}\n" if needs else "")}
files[f"{info}/RECORD"] = "".join(f"{n},,\n" for n in [*files, f"{info}/RECORD"])
with zipfile.ZipFile(path, "w") as z:
    for n, text in files.items():
        z.writestr(n, text)
print(hashlib.sha256(open(path, "rb").read()).hexdigest())
PY
}
one=$(wheel ddpone ddptwo)
two=$(wheel ddptwo '')

# environment LINE...: runs python_environment with a python.txt of these lines; sets $rc, $out, $err and $python. The
# first makes a virtual environment, which takes seconds; the others have a copy of that one, still without packages.
environment() {
    printf '%s\n' "$@" >"$tmp/contrib/lib/python.txt"
    work=$(mktemp -d "$tmp/work.XXXX")
    [ ! -d "$tmp/empty" ] || cp -a "$tmp/empty" "$work/python"
    # shellcheck disable=SC2030
    python=$(
        here=$tmp/contrib
        source "$top_srcdir/contrib/lib/python.sh"
        python_environment >"$tmp/out" 2>"$tmp/err"
        echo $? >"$tmp/rc"
        echo "$DDP_TEST_PYTHON"
    )
    rc=$(<"$tmp/rc") out=$(<"$tmp/out") err=$(<"$tmp/err")
}
good=("ddpone==1.0 --hash=sha256:$one" "ddptwo==1.0 --hash=sha256:$two")

environment "ddpthree==1.0 --hash=sha256:$one"
is "what the index does not offer is no failure" "$rc:$python" "0:none"
like "... and says so" "$out" 'does not offer .*ddpthree==1.0'
cp -a "$work/python" "$tmp/empty"
environment "${good[@]}"
is "what has its checksum is installed" "$rc:$out$err" "0:"
ok "... and works" "$python" -c 'import ddpone, ddptwo'
environment "${good[0]}" "ddptwo==1.0 --hash=sha256:${one}"
is "another checksum is a failure" "$rc:$python" "1:none"
like "... and says for which package" "$err" 'came for ddptwo==1.0: .*HASHES'
is "... and nothing was installed" "$(find "$work/python/lib" -name 'ddp*')" ""
environment "${good[0]}"
is "so is a package that another one needs and nobody looked at" "$rc:$python" "1:none"
like "... and says which" "$err" 'came for ddptwo: '
environment ddpone==1.0 ddptwo==1.0
is "so are versions without checksums" "$rc:$python" "1:none"

pins=$top_srcdir/contrib/lib/python.txt
is "every package of ours has one version and its checksums" \
    "$(grep -vE '^(#.*|--only-binary :all:|[a-z0-9-]+==[0-9.]+ \\|    --hash=sha256:[0-9a-f]{64}( \\)?)$' "$pins")" ""
mapfile -t lines <"$pins"
environment "${lines[@]}"
is "... as pip reads them" "$rc" 0
like "... and this index has none of them" "$out" 'does not offer .*filelock'
done_testing

#!/bin/bash
# matrix-root.sh - what contrib/matrix runs for a root folder, in namespaces of its own:
#   matrix-root.sh ROOT STEP [TEST...]  mounts what a system has, and goes on in ROOT with
#   matrix-root.sh / STEP [TEST...]
# STEP: packages (with the network) or tests (without).
# shellcheck disable=SC2154,SC2317
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$here/lib/say.sh"
source "$here/lib/build.sh"
source "$here/lib/count.sh"
root=$1 step=$2
shift 2

if [ "$root" != / ]; then
    hostname matrix
    # slurmctld starts on no machine that has but a loopback address
    [ "$step" != tests ] || ip -batch - <<'IP'
link set lo up
link add lan type bridge
addr add 192.0.2.1/24 dev lan
link set lan up
IP
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys" # the interfaces of this network namespace
    mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    cd "$root"
    pivot_root . .
    umount -l .
    exec chroot . /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        bash /srv/ddp/src/contrib/lib/matrix-root.sh / "$step" "$@"
fi

work=/srv/ddp
version() { dpkg-query -W -f '${Version}' "$1" | sed 's/^[0-9]*://; s/[-+~].*//'; }
# Nothing to do where contrib/deps has not changed since.
packages() {
    local state
    state=$(sha256sum <"$here/deps")
    [ "$state" != "$(cat /srv/packages 2>/dev/null)" ] || return 0
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update && apt-get -qq -y dist-upgrade && "$here/deps" && apt-get clean && echo "$state" >/srv/packages
}
tests() {
    export CCACHE_DIR=/srv/ccache CCACHE_BASEDIR=/srv CCACHE_NOHASHDIR=1 PATH=/usr/lib/ccache:$PATH
    # python.txt has wheels for one Debian's Python, which is contrib/check's.
    export DDP_TEST_PYTHON=none
    (cd $work/src && quietly $work/autogen.out ./autogen.sh) && configure_in build --enable-werror &&
        make_in build check TESTS= || return
    if [ $# -eq 0 ]; then all_tests_in build; else
        # shellcheck disable=SC2048,SC2086
        test_in build 60 "TESTS=$(cd $work/src && echo $*)"
    fi
}

rc=0
case $step in
packages) quietly $work/packages.out packages || rc=$? ;;
tests)
    tests "$@" || rc=$?
    skip_allowed+='|^this Slurm has no PMIx$' # Debian testing's
    count_results $work/build
    [ $rc -eq 0 ] || [ "$failed" -gt 0 ] || bad_result "ERROR: build or tests ended with exit code $rc"
    echo "$(version libslurm-dev) $(version libpmix-dev) $(version libhwloc-dev) $(gcc -dumpfullversion)" \
        "$passed $failed $skipped" >$work/results
    ;;
esac
exit $rc

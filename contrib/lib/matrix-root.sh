#!/bin/bash
# matrix-root.sh - what contrib/matrix runs for a root folder, in namespaces of its own:
#   matrix-root.sh ROOT STEP [TEST...]  mounts what a system has, and goes on in ROOT with
#   matrix-root.sh / STEP [TEST...]
# STEP: packages (with the network), tests (without); of --packages also debs (RPMs, too; without) and
# guides (with, and in a copy of ROOT that goes again).
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
    [ "$step" = packages ] || [ "$step" = guides ] || ip -batch - <<'IP'
link set lo up
link add lan type bridge
addr add 192.0.2.1/24 dev lan
link set lan up
IP
    case $step in
    guides)
        mount -t tmpfs tmpfs /mnt
        mkdir /mnt/upper /mnt/work
        mount -t overlay -o "lowerdir=$root,upperdir=/mnt/upper,workdir=/mnt/work" overlay "$root"
        ;;
    *) mount --bind "$root" "$root" ;;
    esac
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys" # the interfaces of this network namespace
    mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mkdir -m 1777 "$root/run/lock"
    cd "$root"
    pivot_root . .
    umount -l .
    exec chroot . /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        bash /srv/ddp/src/contrib/lib/matrix-root.sh / "$step" "$@"
fi

work=/srv/ddp
version() { dpkg-query -W -f '${Version}' "$1" | sed 's/^[0-9]*://; s/[-+~].*//'; }
# Nothing to do where contrib/deps has not changed since. $1: "package", where that kind is needed, too.
packages() {
    local state
    state="$(sha256sum <"$here/deps")$*"
    [ "$state" != "$(cat /srv/packages 2>/dev/null)" ] || return 0
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update && apt-get -qq -y dist-upgrade && "$here/deps" &&
        { [ $# -eq 0 ] || "$here/deps" "$@"; } && apt-get clean && echo "$state" >/srv/packages
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

as_nobody=(setpriv --reuid nobody --regid nogroup --clear-groups env HOME=/nonexistent)
# debian/ as people build it, with its tests; lintian's errors and warnings are failures.
debs() {
    mkdir $work/debs
    cp -r $work/src $work/debs/slurm-ddp
    export DEB_BUILD_OPTIONS=parallel=$(nproc)
    chown -R nobody: $work/debs
    cd $work/debs/slurm-ddp
    quietly $work/debs.out "${as_nobody[@]}" nice dpkg-buildpackage -us -uc -b
    "${as_nobody[@]}" lintian --fail-on error,warning $work/debs/*.changes
}
# The RPMs of contrib/packages, of the archive that `make dist` makes. --nodeps: their dependencies have names that are
# not Debian's.
rpms() {
    cd $work/debs/slurm-ddp/build
    quietly $work/dist.out "${as_nobody[@]}" make dist
    quietly $work/rpms.out "${as_nobody[@]}" nice rpmbuild -ta --nodeps --define "_topdir $work/debs/rpm" \
        --define "_smp_mflags -j$(nproc)" slurm-ddp-*.tar.gz
}

# words FILE HEADING: the commands that a guide has under a heading.
words() {
    awk -v heading="## $2" '/^## / { on = $0 == heading } on && /^    / { print substr($0, 5) }' "$work/src/doc/$1"
}
# under_step COMMAND...: runs it while a step of the user's runs, which then ends well, and drains nothing.
under_step() {
    local step line go
    mkfifo -m 666 /srv/begun /srv/go
    exec {go}<>/srv/go
    su user -c "cd && srun --ddp=on sh -c 'echo >/srv/begun; read -r go </srv/go; echo rank \$RANK ends'" \
        >/tmp/step 2>&1 &
    step=$!
    read -rt 60 line <>/srv/begun || die "no step starts: $(cat /tmp/step)"
    quietly /tmp/command "$@"
    echo >&"$go"
    wait $step || die "under '$*' a step ends with exit code $?: $(cat /tmp/step)"
    [ "$(cat /tmp/step)" = "rank 0 ends" ] || die "under '$*' a step says: $(cat /tmp/step)"
    line=$(sinfo -h -t drain,down,fail -o '%N %E')
    [ -z "$line" ] || die "under '$*' a node drains: $line"
    exec {go}>&-
    rm /srv/begun /srv/go
}
# The packages' next version, in next: the same files under another number.
make_next() {
    local deb version
    version=$(dpkg-query -W -f '${Version}' libddp0)
    mkdir next
    for deb in ./*.deb; do
        dpkg-deb -R "$deb" /tmp/next
        sed -i "s/${version//./\\.}/$version+next/g" /tmp/next/DEBIAN/control
        quietly /tmp/next.out dpkg-deb -b /tmp/next "next/$deb"
        rm -r /tmp/next
    done
}
# From what debs made to a trained step, by the words of doc/admin.md and doc/user.md; upgraded and purged under
# running steps; nothing is left.
guides() {
    local began=$SECONDS ours files left file
    export DEBIAN_FRONTEND=noninteractive
    rm /usr/sbin/policy-rc.d
    cd $work/debs
    quietly /tmp/update apt-get update
    quietly /tmp/install bash -exc "$(words admin.md 'A first node, from packages')"
    say "a node is up after $((SECONDS - began)) s"
    grep '^    optional ' /tmp/install || die "the plugin's package does not print its line"
    useradd -m user
    quietly /tmp/train su user -c "set -ex; cd; $(words user.md 'A first step')"
    say "a model is trained after $((SECONDS - began)) s: $(grep 'val loss' /tmp/train | tail -n 1)"

    ours=$(sed -n 's/^Package: //p' $work/src/debian/control)
    # shellcheck disable=SC2086
    files=$(dpkg -L $ours | sort -u | while read -r file; do [ ! -f "$file" ] || echo "$file"; done)
    make_next
    under_step apt-get -y install ./next/*.deb
    ! grep '^    optional ' /tmp/command || die "an upgrade prints the plugin's line again"
    # shellcheck disable=SC2086
    under_step apt-get -y purge $ours
    left=$(for file in $files; do [ ! -e "$file" ] || echo "$file"; done)
    left+=$(find / -xdev \( -path /srv -o -path /tmp -o -path /proc \) -prune -o -name '*ddp*' -print |
        while read -r file; do dpkg -S "$file" >/tmp/owner 2>&1 || echo "$file"; done) # other packages' ddp(7), addpart
    [ "$left" = /etc/slurm/plugstack.conf.d/ddp.conf ] || die "of the packages is left: $left"
    say "upgraded and purged after $((SECONDS - began)) s"
}

rc=0
case $step in
packages) quietly $work/packages.out packages "$@" || rc=$? ;;
tests)
    tests "$@" || rc=$?
    skip_allowed+='|^this Slurm has no PMIx$'         # Debian testing's
    skip_allowed+='|^this PyTorch has no libuv, which' # Debian's own since 13
    count_results $work/build
    [ $rc -eq 0 ] || [ "$failed" -gt 0 ] || bad_result "ERROR: build or tests ended with exit code $rc"
    echo "$(version libslurm-dev) $(version libpmix-dev) $(version libhwloc-dev) $(gcc -dumpfullversion)" \
        "$passed $failed $skipped" >$work/results
    ;;
debs) debs; rpms ;;
guides) guides ;;
esac
exit $rc

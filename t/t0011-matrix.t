#!/bin/bash
# contrib/matrix: what it refuses, and that it leaves nothing when it is killed. (That other Debians pass the tests is
# contrib/check --long's.)
source "$(dirname "$0")/lib/tap.sh"
[ "$(id -u)" = 0 ] || skip_all "needs root, to make root folders"
PATH=$PATH:/usr/sbin:/sbin command -v debootstrap apt-get >"$tmp/which" ||
    skip_all "needs Debian's apt-get and debootstrap"
matrix=$top_srcdir/contrib/matrix
architecture=$(dpkg --print-architecture)

# apt's view of an archive that nobody serves.
mkdir -p "$tmp/lists/partial"
echo "deb [trusted=yes] http://127.0.0.1:9/debian bookworm main" >"$tmp/sources"
cat >"$tmp/apt.conf" <<APT
Dir::Etc::sourcelist "$tmp/sources";
Dir::Etc::sourceparts "-";
Dir::State::lists "$tmp/lists";
APT
export APT_CONFIG=$tmp/apt.conf

# Debian 13, with another debootstrap: "${over[@]}" SCRIPT "$matrix" "$tmp/roots"
cat >"$tmp/over" <<'OVER'
mount --bind "$1" "$(PATH=$PATH:/usr/sbin:/sbin command -v debootstrap)" && exec "$2" --dir "$3" 13
OVER
over=(unshare --mount sh "$tmp/over")

run "$matrix" --dir "$tmp/roots" 11
is "an unknown Debian" "$rc:$err" "1:contrib/matrix: unknown Debian 11: 12, 13 or testing"
run "$matrix" --frish
like "an unknown option" "$rc:$err" "^2:usage: contrib/matrix "
run "$matrix" --packages 13 t/x.t
is "a test beside --packages" "$rc:$err" "1:contrib/matrix: --packages runs no test of the tree: t/x.t"
run setpriv --reuid nobody --clear-groups "$matrix" 13
like "not root" "$rc:$err" "^1:contrib/matrix: needs root: [^"$'\n'"]*$"
run unshare --mount sh -c 'mount -t tmpfs none /usr/sbin && exec "$0" 13' "$matrix"
is "no debootstrap" "$rc:$err" \
    "1:contrib/matrix: missing: debootstrap; contrib/deps, run as root, installs what is needed"
run "$matrix" --dir "$tmp/roots" 13
like "apt has no lists" "$rc:$err" "^1:contrib/matrix: apt knows no archive of Debian; apt-get update [^"$'\n'"]*$"
list=$tmp/lists/127.0.0.1:9_debian_dists_bookworm
printf '%s\n' 'Origin: Debian' 'Label: Debian' 'Codename: bookworm' 'Components: main' "Architectures: $architecture" \
    MD5Sum: " d41d8cd98f00b204e9800998ecf8427e 0 main/binary-$architecture/Packages" >"${list}_Release"
: >"${list}_main_binary-${architecture}_Packages"
run "$matrix" --dir "$tmp/roots" 13
like "no network" "$rc:$err" \
    "^1:contrib/matrix: Debian 13 cannot be fetched from http://127.0.0.1:9/debian/: E: [^"$'\n'"]*$"
ok "... and half a root folder is none" test ! -e "$tmp/roots/13"

printf '#!/bin/sh\nmount -t tmpfs ddpmatrix /mnt\nsleep 9875.%s\n' $$ >"$tmp/slow" && chmod 755 "$tmp/slow"
sleeping() { [ "$(pgrep -fc "^sleep 9875[.]$$\$")" -eq "$1" ]; }
for signal in TERM KILL; do
    "${over[@]}" "$tmp/slow" "$matrix" "$tmp/roots" >"$tmp/out" 2>&1 &
    pid=$!
    ok "SIG$signal: it runs" until_true 20 sleeping 1
    run "$matrix" --dir "$tmp/roots" 13
    like "... a second one in that folder is refused" "$rc:$err" "^1:contrib/matrix: another contrib/matrix works in "
    kill -s $signal $pid
    wait $pid 2>"$tmp/killed"
    ok "... nothing goes on" until_true 10 sleeping 0
    is "... nothing is mounted" "$(grep ddpmatrix /proc/mounts)" ""
done
done_testing

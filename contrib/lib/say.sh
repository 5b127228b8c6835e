# shellcheck shell=bash disable=SC2015
# say.sh - what the scripts of contrib share: messages, the arguments of options, and who may read what they make.

# Users of a cluster read its files and run what was built for it, whatever umask root has.
umask 022
me=contrib/$(basename "$0")
say() { echo "$me: $*"; }
complain() { echo "$me: $*" >&2; }
die() {
    complain "$*"
    exit 1
}

# The value of option $1 is $2.
arg() {
    [ $# -ge 2 ] || die "$1 needs a value"
    echo "$2"
}
number() {
    [ $# -ge 2 ] && [[ $2 =~ ^[0-9]{1,6}$ ]] || die "$1 needs a whole number, not '${2:-}'"
    echo $((10#$2))
}
readable() {
    [ $# -ge 2 ] && [ -r "$2" ] || die "$1 needs a file that can be read, not '${2:-}'"
    realpath "$2"
}

need_commands() {
    local command missing=()
    for command; do
        PATH=$PATH:/usr/sbin:/sbin command -v "$command" >/dev/null || missing+=("$command")
    done
    [ ${#missing[@]} -eq 0 ] || die "missing: ${missing[*]}; contrib/deps, run as root, installs what is needed"
}

# shellcheck shell=bash disable=SC2154
# build.sh - builds of this tree in $work, a folder of their own, for contrib/demo, contrib/check and contrib/matrix.

# Sets $work, a new folder that everyone may enter: users of the cluster run what is built there, wherever the tree
# lies.
work_folder() {
    work=$(mktemp -d "${TMPDIR:-/tmp}/slurm-ddp.XXXXXX")
    chmod 755 "$work"
}

# copy_tree DEST: the tree that this script lies in; where it is a git repository of its own, the files that git knows.
copy_tree() {
    local top
    top=$(cd "$here/.." && pwd)
    mkdir "$1"
    if [ -e "$top/.git" ] && git -c safe.directory='*' -C "$top" rev-parse --git-dir >/dev/null 2>&1; then
        git -c safe.directory='*' -C "$top" ls-files -z --cached --others --exclude-standard |
            (cd "$top" && tar --null --ignore-failed-read -T - -cf - 2>/dev/null) | tar -xf - -C "$1"
    else
        tar -C "$top" -cf - . | tar -xf - -C "$1"
        [ ! -f "$1/Makefile" ] || make -s -C "$1" distclean
    fi
    chmod -R a+rX "$1"
}

# quietly LOG COMMAND...: shows the end of the output where the command fails.
quietly() {
    local log=$1 rc=0
    shift
    "$@" >"$log" 2>&1 </dev/null || rc=$?
    [ $rc -eq 0 ] || {
        tail -n 40 "$log" >&2
        complain "failed with exit code $rc: $*"
    }
    return $rc
}

# configure_in DIR OPTION...: configures $work/src in $work/DIR.
configure_in() {
    local folder=$work/$1
    shift
    mkdir -p "$folder"
    (cd "$folder" && quietly configure.out "$(realpath --relative-to=. "$work/src")/configure" "$@")
}
# make_in DIR MAKE-ARGUMENT...
make_in() {
    local folder=$work/$1
    shift
    (cd "$folder" && quietly make.out nice make -j"$(nproc)" "$@")
}

# limited MINUTES COMMAND...: ends it after that time. It runs in a process group of its own, out of a terminal's reach,
# so end_limited ends it where this script is interrupted.
limited() {
    local minutes=$1 rc=0 group
    shift
    mkdir -p "$work/limited"
    timeout -k 60 "${minutes}m" "$@" &
    group=$!
    : >"$work/limited/$group"
    wait $group || rc=$?
    rm "$work/limited/$group"
    return $rc
}
lives_in_group() {
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v group="$1" '
        { sub(/.*\) /, ""); if ($1 != "Z" && $3 == group) found = 1 }
        END { exit !found }'
}
# Tests that are ended take their clusters down, for which they need the files in $work.
end_limited() {
    local file group end=$((SECONDS + 60))
    for file in "$work"/limited/*; do kill -TERM "${file##*/}" 2>/dev/null || :; done
    for file in "$work"/limited/*; do
        group=${file##*/}
        while [ "$group" != '*' ] && lives_in_group "$group"; do
            [ $SECONDS -lt $end ] || kill -KILL -- "-$group" 2>/dev/null || break
            sleep 0.1
        done
    done
}

# test_in DIR MINUTES MAKE-ARGUMENT...: make check with a deadline; shows the output of the tests that failed.
test_in() {
    local folder=$work/$1 minutes=$2 rc=0
    shift 2
    rm -f "$folder/test-suite.log"
    (cd "$folder" && limited "$minutes" make -k check "$@" >check.out 2>&1 </dev/null) || rc=$?
    [ $rc -eq 0 ] || tail -n 300 "$([ -f "$folder/test-suite.log" ] && echo "$folder/test-suite.log" ||
        echo "$folder/check.out")" >&2
    return $rc
}

# all_tests_in DIR: all but the slow ones. More at a time than there are cores, as many of them wait; those first that
# take longest. Apart from all others: t0004, which installs from the build folder, where libtool links what is
# installed once more.
all_tests_in() {
    local first='t/t2006% t/t6502% t/t6503% t/t7005% t/t8210% t/t8412% t/t5002% t/t1% t/t8302% t/t7%'
    local apart='t/t0004%' rc=0
    test_in "$1" 40 -j$(($(nproc) + 2)) "TESTS=\$(filter $first,\$(SHELL_TESTS))\
        \$(filter-out $first $apart,\$(SHELL_TESTS) \$(UNIT_TESTS))" || rc=$?
    test_in "$1" 10 "TESTS=\$(filter $apart,\$(SHELL_TESTS))" || rc=$?
    return $rc
}

#!/bin/bash
# Who calls whom: what was built keeps the rules, and the checker sees each kind of violation in what is compiled here.
source "$(dirname "$0")/lib/tap.sh"
circles=$top_srcdir/t/lib/circles
declare -A may_call
while read -r room allowed; do may_call[$room]=" $allowed "; done < <(grep -v '^#' "$top_srcdir/t/lib/rooms")
for room in "${!may_call[@]}"; do echo "int in_${room//\//_}(void);"; done >"$tmp/rooms.h"

# object FILE CODE: a C file of a small tree, compiled, with a name as libtool gives it.
object() {
    local folder=${1%/*} name=${1##*/}
    mkdir -p "$tmp/tree/$folder" "$tmp/build/$folder/.libs"
    echo "$2" >"$tmp/tree/$1"
    ${CC:-cc} -include "$tmp/rooms.h" -c -o "$tmp/build/$folder/.libs/libplanted_la-${name%.c}.o" "$tmp/tree/$1"
}
# A file in every room, that of ROOM with the function in_ROOM (_ for each /).
tree() {
    local room
    rm -rf "$tmp/tree" "$tmp/build"
    for room in "${!may_call[@]}"; do object "$room/room.c" "int in_${room//\//_}(void) { return 1; }"; done
}
check() { run "$circles" "$tmp/tree" "$tmp/build"; }

run "$circles" "$top_srcdir" "$top_builddir"
like "no circle of calls, and no call upward" "$rc:$out" "^0:[0-9]+ files"

mkdir "$tmp/build"
run "$circles" "$top_srcdir" "$tmp/build"
like "a build without objects does not pass" "$rc:$err" "^1:circles: no object of .*runtime/base.* below $tmp/build"

# Between rooms: each calls all others once.
tree
for room in "${!may_call[@]}"; do
    sum=0
    for other in "${!may_call[@]}"; do
        [ "$other" = "$room" ] || sum+=" + in_${other//\//_}()"
    done
    object "$room/new.c" "int planted(void) { return $sum; }"
done
check
is "calls between rooms are violations" "$rc" 1
for room in "${!may_call[@]}"; do
    wanted=
    for other in "${!may_call[@]}"; do
        [ "$other" = "$room" ] || [[ ${may_call[$room]} == *" $other "* ]] ||
            wanted+="$room/ may not call $other/: $room/new.c -> $other/room.c: in_${other//\//_}"$'\n'
    done
    found=$(grep "^$room/ may not call" <<<"$out" | sort)
    is "$room/ calls those that it may call, and no other" "$found" "$(sort <<<"${wanted%$'\n'}")"
done

# Within a room.
tree
object pmix/one.c 'int two(void); int one(int n) { return n ? two() : 0; } int one_more(void) { return one(1); }'
object pmix/two.c 'int two(void) { return 1; }'
check
like "calls in one direction, and of a file to itself, are none" "$rc:$out" "^0:[0-9]+ files, 1 calls"
object pmix/two.c 'int one(int n); int two(void) { return one(0); }'
check
is "two files that call each other" "$rc:$out" "1:a circle of 2 files: pmix/one.c pmix/two.c
    pmix/one.c -> pmix/two.c: two
    pmix/two.c -> pmix/one.c: one"
object pmix/two.c 'int two(void) { extern int (*const three_table[1])(int); return three_table[0](0); }'
object pmix/three.c 'int one(int n); int (*const three_table[1])(int) = {one};'
check
like "three files, by a table of functions" "$rc:$out" "^1:a circle of 3 files: pmix/one.c pmix/three.c pmix/two.c"$'\n'
rm "$tmp/tree/pmix/three.c"
check
like "an object whose source has gone is none of the tree's" "$rc:$out" "^0:"
object pmix/three.c 'int one(int n); int (*const three_table[1])(int) = {one};'
touch -d '1 hour' "$tmp/tree/pmix/three.c"
check
like "... nor one that is older than its source" "$rc:$out" "^0:"

# One name in two rooms: a file means that of its own room.
tree
object pmix/stub.c 'int shared(void) { return 1; }'
object spank/stub.c 'int shared(void) { return 2; }'
object spank/user.c 'int shared(void); int user(void) { return shared(); }'
check
like "a name that another program has too" "$rc:$out" "^0:.* 1 calls"
rm "$tmp/tree/spank/stub.c"
check
like "... and that it alone has" "$rc:$out" "^1:spank/ may not call pmix/: spank/user.c -> pmix/stub.c: shared"

# The table itself.
cp "$circles" "$tmp/circles"
planted() { # LINE REPORT: a table with LINE more is refused
    { cat "$top_srcdir/t/lib/rooms" && echo "$1"; } >"$tmp/rooms"
    run "$tmp/circles" "$tmp/tree" "$tmp/build"
    like "a table with '$1'" "$rc:$err" "^1:circles: .*$2"
}
planted "runtime/base pmix" "runtime/base may reach itself"
planted "new nowhere" "new may call nowhere, which is no room"
done_testing

#!/bin/bash
# The tests of kernels/cuda and kernels/model/cuda find the faults that t/lib/mutants plants: each is compiled for the
# emulator and linked with its kernel's test, which must fail. Here the first fault of each test; all of them in
# t9020.
. "$(dirname "$0")/lib/tap.sh"
. "$top_builddir/t/lib/mutants.env" # cxx cxxflags cppflags link libs
cd "$top_builddir" || exit 1

# The path of file $1 of kernels/cuda or kernels/model/cuda.
path_of() {
    local path=kernels/cuda/$1
    [ -e "$top_srcdir/$path" ] || path=kernels/model/cuda/$1
    echo "$path"
}

# Kernel $1's test with file $2 changed by $3 (nothing: as it is), in folder $4: 0 when the test passes, 1 when it
# fails, 2 when it could not be made.
try() {
    local kernel=$1 file=$2 fault=$3 dir=$4 path test=() objects=() source
    path=$(path_of "$file")
    mkdir -p "$dir/${path%/*}"
    if [ -n "$fault" ]; then
        "$top_srcdir/t/lib/mutate" "$fault" "$top_srcdir/$path" >"$dir/$path" || return 2
    fi
    test=("$(find t/unit/kernels -name "cuda_${kernel}_t-cuda_$kernel.o")" t/lib/unit_kernels_*"cuda_${kernel}_t-"*.o)
    for source in $($link -o "$dir/test" "${test[@]}" $libs -Wl,-t,-t |
        sed -n 's/.*libemukernels_a-\([^.]*\)\.o.*/\1/p'); do
        case $file in
        "$source.cu" | *.h)
            objects+=("$dir/$source.o")
            $cxx $cxxflags -O1 -g0 -w -I"$dir" $cppflags -c -o "$dir/$source.o" \
                "$top_srcdir/t/lib/cudaemu/kernels/$source.cc" ||
                return 2 ;;
        esac
    done
    [ ${#objects[@]} -gt 0 ] && $link -o "$dir/test" "${test[@]}" "${objects[@]}" $libs || return 2
    ASAN_OPTIONS=detect_leaks=0 timeout 60 "$dir/test" && return 0
    return 1
}

declare -A planted=()
lines=() missed=
while IFS= read -r line; do
    IFS='|' read -r kernel file what fault <<<"$line"
    case $kernel in '' | '#'*) continue ;; esac
    "$top_srcdir/t/lib/mutate" "${fault# }" "$top_srcdir/$(path_of "${file// /}")" >"$tmp/planted" 2>&1 ||
        missed+=$'\n'$(<"$tmp/planted")
    [ -z "${all_mutants:-}" ] && [ -n "${planted[$kernel]:-}" ] || lines+=("$line")
    planted[$kernel]=1
done <"$top_srcdir/t/lib/mutants"
is "every fault can be planted" "$missed" ""

# line I: its result goes to $tmp/I.rc
one() {
    local kernel file what fault
    IFS='|' read -r kernel file what fault <<<"${lines[$1]}"
    fault=${fault# }
    try "${kernel// /}" "${file// /}" "$fault" "$tmp/$1" >"$tmp/$1.log" 2>&1
    echo $? >"$tmp/$1.rc"
    rm -rf "${tmp:?}/$1"
}

# Two at a time.
worker() {
    local i
    for ((i = $1; i < ${#lines[@]}; i += 2)); do one "$i"; done
}
try gelu gelu.cu "" "$tmp/control" >"$tmp/control.log" 2>&1
is "a test passes without a fault" $? 0
worker 0 & first=$!
worker 1 & second=$!
wait "$first" "$second"
for i in "${!lines[@]}"; do
    IFS='|' read -r kernel file what _ <<<"${lines[i]}"
    is "found in ${file// /}:${what% }" "$(cat "$tmp/$i.rc")" 1 || diag "$(tail -n 3 "$tmp/$i.log")"
done
done_testing

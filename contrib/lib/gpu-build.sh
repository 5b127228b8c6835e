# shellcheck shell=bash disable=SC2154,SC2034
# gpu-build.sh - how contrib/gpu-check builds: no more than the programs that it runs, and on after an error, since what
# did build can be run. $out, $top, $kind, $options, $cppflags, $ldflags, and the other gpu-*.sh are the caller's.

build_seconds=0
build_was_cut='' # else what is not there did not build, and that has been told

# step NAME SECONDS COMMAND...: of the build, which cannot go on without it.
step() {
    local name=$1 limit rc=0
    limit=$(limit_of "$2") || stop "$name" "$limit"
    doing=$name
    within "$limit" "$logs/$name.log" "$logs/$name.log" "${@:3}" || rc=$?
    [ "$rc" -eq 0 ] || { tail -n 40 "$logs/$name.log" && stop "$name" "$(why_ended "$rc" "$limit")"; }
}
why_ended() {
    if is_over "$1"; then echo "not over after $2 s"; else echo "exit code $1"; fi
}

configure_build() {
    local told
    options+=(--without-slurm --without-pmix)
    [ ${#cppflags[@]} -eq 0 ] || options+=("CPPFLAGS=${cppflags[*]}")
    [ ${#ldflags[@]} -eq 0 ] || options+=("LDFLAGS=${ldflags[*]}")
    told="$top ${options[*]} ${NVCC_APPEND_FLAGS:-}"
    [ -x "$top/configure" ] || step autogen 120 env -C "$top" ./autogen.sh
    if [ ! -e "$out/build/Makefile" ] || [ "$(cat "$out/options" 2>/dev/null)" != "$told" ]; then
        step configure 180 env -C "$out/build" "$top/configure" "${options[@]}"
        echo "$told" >"$out/options"
    fi
    version=$(sed -n 's/^PACKAGE_VERSION = //p' "$out/build/Makefile")
}

# The first error of a compiler's or linker's, else of make's.
first_error() {
    grep -m1 -E '(error|Error): |: undefined reference|^ld: |cannot find' "$logs/make.log" ||
        grep -m1 -F '***' "$logs/make.log" || tail -n 1 "$logs/make.log"
}

# list WHAT: programs, tests or scripts of this build, one a line; after what make says of a Makefile that is too old.
list() {
    make -C "$out/build" Makefile >>"$logs/make.log" 2>&1 &&
        make -s -C "$out/build" "list-$kind-$1" 2>>"$logs/make.log"
}

# What did not build is a failed test; what there was no time for is not.
build() {
    local rc=0 limit why target targets began=$SECONDS
    doing=build
    targets=$(list programs) || stop build "$(first_error)"
    mapfile -t targets <<<"$targets"
    limit=$(limit_of $((budget > 0 ? budget * 6 / 10 : 3600))) || { measured_late build "$limit" && return; }
    within "$limit" "$logs/make.log" "$logs/make.log" make -k -C "$out/build" -j"$(nproc)" "${targets[@]}" || rc=$?
    build_seconds=$((SECONDS - began))
    say "built in $build_seconds s"
    [ $rc -ne 0 ] || return 0
    if is_over "$rc"; then
        build_was_cut=1
        measured_late build "not over after $limit s"
        return
    fi
    why=$(first_error)
    { grep -E -A3 '(error|Error): |: undefined reference' "$logs/make.log" || tail -n 12 "$logs/make.log"; } |
        show_lines 12
    for target in "${targets[@]}"; do
        ! make -q -C "$out/build" "$target" >>"$logs/make.log" 2>&1 || continue
        rm -f "$out/build/$target" # an earlier build's
        count_test "$(basename "$target" .t)" 0 1 0 0 "did not build: $why"
    done
}

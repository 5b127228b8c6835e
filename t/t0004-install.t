#!/bin/bash
# What `make install` leaves: a program can be built against it and runs; the plugin is where configure said; nothing
# of ours but ddp_* is exported; a manual page for each command and function; the guides, the examples and bash's
# completion; `make uninstall` leaves nothing; and what configure refuses to build.
. "$(dirname "$0")/lib/tap.sh"
unset MAKEFLAGS MFLAGS MAKELEVEL
root=$tmp/root

umask 077
run make -C "$top_builddir" install DESTDIR="$root"
umask 022
is "make install" "$rc" 0
[ "$rc" -eq 0 ] || diag "$err"
is "... every file is for all to read, under a strict umask, too" "$(find "$root" -type f ! -perm -444)" ""
pc=$(find "$root" -name libddp.pc)
prefix=$root$(sed -n 's/^prefix=//p' "$pc")
export PKG_CONFIG_PATH=${pc%/*}
export LD_LIBRARY_PATH=$prefix/lib

docdir=$(dirname "$(find "$root" -name user.md)")
# shellcheck disable=SC2046
run ${CC:-cc} -o "$tmp/linear" "$docdir/examples/linear.c" \
    $(pkg-config --define-variable=prefix="$prefix" --cflags --libs libddp)
is "the installed example is built against the installed library" "$rc$err" 0
run "$prefix/bin/ddp" run -n 2 "$tmp/linear" /usr/share/common-licenses/GPL-3
is "... and runs under the installed ddp" "$rc" 0
like "... to its end" "$out" "step 500 loss"
# shellcheck disable=SC2046
run ${CC:-cc} -o "$tmp/linear-static" "$docdir/examples/linear.c" \
    $(pkg-config --define-variable=prefix="$prefix" --cflags --libs --static libddp | sed 's/-lddp /-l:libddp.a /')
is "... and against the static one" "$rc$err" 0
run "$tmp/linear-static" /usr/share/common-licenses/GPL-3
like "... which runs without the other" "$rc:$(ldd "$tmp/linear-static" | grep libddp):$out" "^0::.*step 500 loss"
# shellcheck disable=SC2046
run ${CC:-cc} -static -o "$tmp/linear-alone" "$docdir/examples/linear.c" \
    $(pkg-config --define-variable=prefix="$prefix" --cflags --libs --static libddp)
is "... and against no shared library at all" "$rc" 0 || diag "$err"
run "$tmp/linear-alone" /usr/share/common-licenses/GPL-3
like "... which runs, too" "$rc:$out" "^0:.*step 500 loss"
DDP_BOOT=pmix run "$tmp/linear-alone" /usr/share/common-licenses/GPL-3
like "... but not with libpmix, and says so" "$rc:$err" \
    "^1:.*(linked with -static.*link it without.*srun --ddp=on,mpi=pmi2|this build .*lacks PMIx)"
cat >"$tmp/close.c" <<'C'
#include <dlfcn.h>
int main(int argc, char **argv)
{
    void *lib = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
    void *(*init)(int *, char ***, void *) = lib ? (void *(*)(int *, char ***, void *))dlsym(lib, "ddp_init") : 0;
    if (!init || !init(&argc, &argv, 0))
        return 2;
    dlclose(lib);
    return !dlopen(argv[argc - 1], RTLD_NOW | RTLD_NOLOAD);
}
C
run ${CC:-cc} -o "$tmp/close" "$tmp/close.c" -ldl
run "$tmp/close" "$prefix/lib/libddp.so.0"
is "a library that is closed without ddp_finalize stays, for its threads" "$rc" 0
run "$(find "$root" -path "*/slurm-ddp/train")" --version
like "the trainer is installed apart from PATH" "$out" "^train \(slurm-ddp\)"
# What the guide says for an installation below $HOME, word for word, where configure had that prefix.
mkdir "$tmp/home"
cp -R "$prefix" "$tmp/home/slurm-ddp"
sed -i "s,^prefix=.*,prefix=$tmp/home/slurm-ddp," "$tmp/home/slurm-ddp/lib/pkgconfig/libddp.pc"
sed -n 's,^    \(export PKG_CONFIG_PATH=.*\|cc linear\.c .*\),\1,p' "$docdir/user.md" >"$tmp/lines"
run env -u LD_LIBRARY_PATH -u PKG_CONFIG_PATH HOME="$tmp/home" sh -euc "cd '$docdir/examples' && . '$tmp/lines' &&
    ./linear /usr/share/common-licenses/GPL-3 && rm linear"
like "an installation below HOME: the guide's lines" "$rc:$(wc -l <"$tmp/lines"):$out$err" '^0:2:.*step 500 loss'
lib=$prefix/lib/libddp.so
is "libddp exports ddp_* alone" "$(nm -D --defined-only "$lib" | awk '$2 != "A" { print $3 }' | grep -v '^ddp_')" ""
man=$(dirname "$(find "$root" -name man3)")
is "every manual page is installed" "$(cd "$top_srcdir/doc/man" && ls)" \
    "$(find "$man" -type f -print0 | xargs -0 grep -L '^\.so ' | sed 's,.*/,,' | sort)"
is "... and each function has one under its name" "$(nm -D --defined-only "$lib" |
    awk '$2 != "A" { sub("@.*", "", $3); print $3 }' |
    while read -r name; do [ -s "$man/man3/$name.3" ] && [ -s "$man/man3/${name%_sized}.3" ] || echo "$name"; done)" ""
is "... that is another's where it is no page itself" \
    "$(cd "$man" && sed -n 's/^\.so //p' man3/*.3 | sort -u | xargs grep -L '^\.Nd ')" ""
is "every guide and example is installed" \
    "$(cd "$docdir" && find . -type f | sort)" "$( (cd "$top_srcdir/doc" && ls ./*.md ./*.json; cd .. && ls ./NEWS.md
        ls contrib/examples/*.[cp]* contrib/slurm/* | sed 's,.*/,./examples/,') | sort)"
run make -C "$top_builddir" install-man install-dist_examplesDATA install-data-hook DESTDIR="$tmp/other" \
    plugindir=/opt/plugins
is "the example of plugstack.conf names the plugin where it goes" \
    "$(sed -n 's/^optional //p' "$tmp/other${docdir#"$root"}/examples/plugstack.conf")" \
    "/opt/plugins/ddp.so site=/etc/slurm/ddp.json"
is "manual pages name files where they go" "$(sed -n 's/^\.\(It \)\?Pa \(PREFIX[^ ]*\|.*\/ddp\.so\)$/\2/p' \
    "$tmp/other${man#"$root"}"/man?/* | sort -u)" /opt/plugins/ddp.so
is "... which are there" "$(grep -ho "^\.\(It \)\?Pa ${prefix#"$root"}/[^ ]*" "$man"/man?/* | sed 's,.* ,,' | sort -u |
    while read -r file; do [ -e "$root$file" ] || echo "$file"; done)" ""
completions=$(dirname "$(find "$root" -path '*/completions/ddp')")
is "bash finds a completion for both commands" \
    "$(for name in ddp train; do bash -c 'source "$0" && complete -p "${0##*/}"' "$completions/$name"; done)" \
    "complete -o default -F _ddp ddp"$'\n'"complete -o default -F _ddp train"
plugin=$(find "$root" -name ddp.so)
version=$(sed -n 's/^AC_INIT(\[slurm-ddp\], \[\([^]]*\)\].*/\1/p' "$top_srcdir/configure.ac")
is "every recipe of packages has the version of configure.ac" \
    "$(cd "$top_srcdir" && sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog && cd contrib/packages &&
        sed -n 's/^Version: //p' slurm-ddp.spec && sed -n 's/^    version("\(.*\)")/\1/p' package.py &&
        sed -n "s/^version = '\(.*\)'/\1/p" "slurm-ddp-$version.eb")" \
    "$version"$'\n'"$version"$'\n'"$version"$'\n'"$version"
if [ -f "$top_builddir/.libs/ddp.so" ]; then
    is "the plugin exports what Slurm looks for" \
        "$(nm -D --defined-only "$plugin" | awk '{ print $3 }' | grep -Ev '^(slurm_spank_|plugin_|spank_plugin_)')" ""
fi
# Files are put in place whole, by rename: an install that may write no more than 64 KiB of one leaves the old ones.
cp -a "$root" "$tmp/before"
run bash -c 'ulimit -c 0 -f 64; exec make -k -C "$0" install DESTDIR="$1"' "$top_builddir" "$root"
is "an install that cannot write its files fails" "$rc" 2
is "... and leaves the old ones as they were" \
    "$(cd "$tmp/before" && find . -type f -size +64k -exec cmp {} "$root/{}" \; 2>&1)" ""
is "... and nothing beside them" "$(cd "$root" && find . | sort)" "$(cd "$tmp/before" && find . | sort)"
# As much of a tree as configure reads by then: one that is built where it lies cannot be configured elsewhere.
mkdir -p "$tmp/tree/runtime"
cp -R "$top_srcdir/configure" "$top_srcdir/build-aux" "$tmp/tree"
cp "$top_srcdir/runtime/ddp.h" "$tmp/tree/runtime"
for kind in shared static; do
    run env -C "$tmp/tree" ./configure -q --disable-$kind
    like "refused: a build without the $kind library" "$rc:$err" "^1:.*run configure without --disable-$kind\$"
done
run make -C "$top_builddir" uninstall DESTDIR="$root"
is "make uninstall leaves no file" "$(find "$root" ! -type d)" ""
done_testing

# Checks of ours, one macro per thing that configure looks for.
# have_X is "no" or a version; X_note says why a "no" is one. --with-X insists, --without-X forbids, neither takes what
# is there.

# DDP_WITH(NAME, LABEL): with_NAME becomes yes, no, auto or a prefix.
AC_DEFUN([DDP_WITH], [
AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1@<:@=PREFIX@:>@], [build with $2 (default: where found)])],
    [], [with_$1=auto])
have_$1=no; $1_note=
AS_CASE([$with_$1], [no], [$1_note=" (--without-$1)"], [auto|yes], [$1_prefix=], [$1_prefix=$with_$1])
])

# DDP_FOUND(NAME, LABEL, DEBIAN-PACKAGE, WHAT-IS-LOST): settles a search.
AC_DEFUN([DDP_FOUND], [
AS_IF([test "$have_$1" = no -a "$with_$1" = auto -a -z "$$1_note"], [$1_note=" (not found: $4)"])
AS_IF([test "$have_$1" = no -a "$with_$1" != auto -a "$with_$1" != no], [DDP_NEED([$2], [$3])])
])

# DDP_HEADER(NAME, HEADER, VERSION-EXPRESSION): compiles against HEADER with $1_CPPFLAGS; sets have_NAME.
AC_DEFUN([DDP_HEADER], [
ddp_version=
AS_IF([test -z "$$1_prefix" || test -f "$$1_prefix/include/$2"], [
    ddp_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $$1_CPPFLAGS"
    AC_COMPUTE_INT([ddp_version], [$3], [#include <stdint.h>
#include <stdbool.h>
#include <$2>], [ddp_version=])
    CPPFLAGS=$ddp_save_CPPFLAGS
])
])

# DDP_MODVERSION(MODULE): what pkg-config calls its version; yes, where flags were given instead.
AC_DEFUN([DDP_MODVERSION], [`${PKG_CONFIG:-false} --modversion $1 2>/dev/null || echo yes`])

AC_DEFUN([DDP_WITH_SLURM], [
DDP_WITH([slurm], [Slurm: the SPANK plugin])
AS_IF([test "$with_slurm" != no], [
    AS_IF([test -n "$slurm_prefix"], [slurm_CPPFLAGS="-I$slurm_prefix/include"], [slurm_CPPFLAGS=])
    AC_MSG_CHECKING([for slurm/spank.h])
    DDP_HEADER([slurm], [slurm/spank.h], [SLURM_VERSION_NUMBER])
    AS_IF([test -n "$ddp_version"], [have_slurm=`printf "%d.%02d.%d" $((ddp_version >> 16 & 255)) $((ddp_version >> 8 & 255)) $((ddp_version & 255))`])
    AC_MSG_RESULT([$have_slurm])
])
DDP_FOUND([slurm], [slurm/spank.h], [libslurm-dev], [no plugin will be built])
AC_SUBST([slurm_CPPFLAGS])
AM_CONDITIONAL([HAVE_SLURM], [test "$have_slurm" != no])
AC_ARG_WITH([plugindir], [AS_HELP_STRING([--with-plugindir=DIR], [folder for ddp.so (default: LIBDIR/slurm-ddp)])],
    [plugindir=$withval], [plugindir='${libdir}/slurm-ddp'])
AC_SUBST([plugindir])
])

AC_DEFUN([DDP_WITH_BASH_COMPLETION_DIR], [
AC_ARG_WITH([bash-completion-dir], [AS_HELP_STRING([--with-bash-completion-dir=DIR],
    [folder for the completion of commands (default: DATADIR/bash-completion/completions)])],
    [], [with_bash_completion_dir=yes])
AS_CASE([$with_bash_completion_dir],
    [yes], [bashcompletiondir='${datadir}/bash-completion/completions'],
    [no], [bashcompletiondir=],
    [bashcompletiondir=$with_bash_completion_dir])
AC_SUBST([bashcompletiondir])
])

AC_DEFUN([DDP_WITH_PMIX], [
DDP_WITH([pmix], [PMIx])
AS_IF([test "$with_pmix" != no], [
    pmix_CPPFLAGS=
    AS_IF([test -n "$pmix_prefix"], [pmix_CPPFLAGS="-I$pmix_prefix/include"], [
        for ddp_dir in "" /usr/lib/*/pmix2/lib/pkgconfig; do
            ddp_flags=`PKG_CONFIG_PATH="$ddp_dir:$PKG_CONFIG_PATH" $PKG_CONFIG --cflags pmix 2>/dev/null` &&
                pmix_CPPFLAGS=$ddp_flags && break
        done])
    AC_MSG_CHECKING([for pmix.h])
    DDP_HEADER([pmix], [pmix.h], [PMIX_VERSION_MAJOR * 10000 + PMIX_VERSION_MINOR * 100 + PMIX_VERSION_RELEASE])
    AS_IF([test -n "$ddp_version"],
        [have_pmix=$((ddp_version / 10000)).$((ddp_version / 100 % 100)).$((ddp_version % 100))])
    AC_MSG_RESULT([$have_pmix])
    AS_IF([test "$have_pmix" != no], [AC_DEFINE([HAVE_PMIX], [1], [Define to 1 if pmix.h can be included.])])
])
DDP_FOUND([pmix], [pmix.h], [libpmix-dev], [srun jobs cannot wire up])
AC_SUBST([pmix_CPPFLAGS])
AM_CONDITIONAL([HAVE_PMIX], [test "$have_pmix" != no])
])

AC_DEFUN([DDP_WITH_CUDA], [
DDP_WITH([cuda], [CUDA])
AC_ARG_VAR([NVCC], [the CUDA compiler])
AS_IF([test "$with_cuda" != no], [
    AS_IF([test -n "$cuda_prefix"], [ddp_path=$cuda_prefix/bin], [ddp_path=$PATH$PATH_SEPARATOR/usr/local/cuda/bin])
    AC_PATH_PROG([NVCC], [nvcc], [], [$ddp_path])
    AS_IF([test -n "$NVCC"], [
        have_cuda=`"$NVCC" --version | $SED -n 's/.*release \(@<:@0-9.@:>@*\).*/\1/p'`
        cuda_prefix=`dirname "\`dirname "$NVCC"\`"`
        cuda_CPPFLAGS="-I$cuda_prefix/include"
        AS_CASE([$have_cuda], [@<:@0-9@:>@.*|10.*|11.*], [cuda_note=" ($have_cuda: needs 12.0 or newer)"; have_cuda=no])])
])
DDP_FOUND([cuda], [nvcc], [nvidia-cuda-toolkit], [no GPU kernels])
# Binaries for sm_80 and sm_90, for sm_100 where this nvcc knows it (12.8); the newest one's PTX for GPUs to come.
NVCC_ARCHS="-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90"
ddp_arch=90
AS_IF([test -n "$NVCC" && "$NVCC" --list-gpu-arch 2>/dev/null | grep compute_100 >/dev/null],
    [ddp_arch=100; NVCC_ARCHS="$NVCC_ARCHS -gencode arch=compute_100,code=sm_100"])
NVCC_ARCHS="$NVCC_ARCHS -gencode arch=compute_$ddp_arch,code=compute_$ddp_arch"
AC_SUBST([NVCC_ARCHS])
AC_SUBST([cuda_CPPFLAGS])
AM_CONDITIONAL([HAVE_CUDA], [test "$have_cuda" != no])
])

# A C++ compiler: for tests only, which run the GPU's kernels without one.
AC_DEFUN([DDP_CXX], [
AC_LANG_PUSH([C++])
AC_CACHE_CHECK([whether $CXX compiles C++17], [ddp_cv_cxx], [
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <vector>
#if __cplusplus < 201703L
#error older
#endif]], [[std::vector<int> v(1); return v[0];]])], [ddp_cv_cxx=yes], [ddp_cv_cxx=no])])
AC_LANG_POP([C++])
AS_IF([test "$ddp_cv_cxx" = yes], [have_cxx="$CXX $CXXFLAGS"], [have_cxx="no (the GPU's kernels are not tested)"])
AM_CONDITIONAL([HAVE_CXX], [test "$ddp_cv_cxx" = yes])
])

# CUDA's runtime library, to be linked statically: it opens the driver itself, so that the build runs without one.
AC_DEFUN([DDP_WITH_CUDART], [
have_cudart=no; cudart_note=
CUDART_CPPFLAGS= CUDART_LIBS=
AS_IF([test "$have_cuda" != no], [
    AC_MSG_CHECKING([for libcudart_static])
    AS_IF([test "$cuda_prefix" != /usr], [CUDART_CPPFLAGS=$cuda_CPPFLAGS])
    ddp_save_CPPFLAGS=$CPPFLAGS ddp_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $CUDART_CPPFLAGS"
    for ddp_dir in "" lib64 lib targets/x86_64-linux/lib targets/sbsa-linux/lib; do
        CUDART_LIBS="${ddp_dir:+-L$cuda_prefix/$ddp_dir }-lcudart_static -lrt -ldl -lpthread"
        LIBS="$CUDART_LIBS $ddp_save_LIBS"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([#include <cuda_runtime_api.h>],
            [int n; return cudaGetDeviceCount(&n) == cudaSuccess;])], [have_cudart=yes; break])
    done
    CPPFLAGS=$ddp_save_CPPFLAGS LIBS=$ddp_save_LIBS
    AC_MSG_RESULT([$have_cudart])
    AS_IF([test "$have_cudart" = no], [
        CUDART_CPPFLAGS= CUDART_LIBS=
        cudart_note=" (without libcudart_static: no GPU will be used)"])
])
AC_SUBST([CUDART_CPPFLAGS])
AC_SUBST([CUDART_LIBS])
AM_CONDITIONAL([HAVE_CUDART], [test "$have_cudart" != no])
])

# cuBLASLt, opened at run time: its header only. It comes with CUDA; without it no model trains on a GPU.
AC_DEFUN([DDP_WITH_CUBLASLT], [
have_cublaslt=no; CUBLASLT_CPPFLAGS=
AS_IF([test "$have_cudart" != no], [
    # -isystem: their header, not ours to warn about
    CUBLASLT_CPPFLAGS="-isystem $cuda_prefix/include"
    AS_IF([test "$cuda_prefix" = /usr], [CUBLASLT_CPPFLAGS=])
    ddp_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $CUBLASLT_CPPFLAGS"
    AC_CHECK_HEADER([cublasLt.h], [have_cublaslt=yes])
    CPPFLAGS=$ddp_save_CPPFLAGS
    AS_IF([test "$have_cublaslt" = no], [cudart_note=" (without cublasLt.h: no model will train on a GPU)"])
    CUBLASLT_CPPFLAGS="$CUBLASLT_CPPFLAGS -DCUBLASLT_FOLDER='\"$cuda_prefix/lib64\"'"
])
AC_SUBST([CUBLASLT_CPPFLAGS])
AM_CONDITIONAL([HAVE_CUBLASLT], [test "$have_cublaslt" != no])
])

AC_DEFUN([DDP_WITH_NCCL], [
DDP_WITH([nccl], [NCCL])
AS_IF([test "$with_nccl" != no], [
    # -isystem: their headers, not ours to warn about. nccl.h includes CUDA's.
    AS_IF([test -n "$nccl_prefix"], [nccl_CPPFLAGS="-isystem $nccl_prefix/include"], [nccl_CPPFLAGS=])
    AS_IF([test -n "$cuda_prefix"], [nccl_CPPFLAGS="$nccl_CPPFLAGS -isystem $cuda_prefix/include"])
    AC_MSG_CHECKING([for nccl.h])
    DDP_HEADER([nccl], [nccl.h], [NCCL_VERSION_CODE])
    AS_IF([test -n "$ddp_version"],
        [have_nccl=$((ddp_version / 10000)).$((ddp_version / 100 % 100)).$((ddp_version % 100))])
    AC_MSG_RESULT([$have_nccl])
    AS_IF([test -n "$ddp_version" && test "$ddp_version" -lt 21900 -o "$ddp_version" -ge 30000],
        [nccl_note=" ($have_nccl: needs 2.19 or newer, major version 2)"; have_nccl=no])
])
DDP_FOUND([nccl], [nccl.h], [libnccl-dev], [no NCCL communicator])
AC_SUBST([nccl_CPPFLAGS])
AM_CONDITIONAL([HAVE_NCCL], [test "$have_nccl" != no])
])

AC_DEFUN([DDP_SANITIZERS], [
AC_ARG_ENABLE([sanitizers], [AS_HELP_STRING([--enable-sanitizers], [build with ASan and UBSan])], [],
    [enable_sanitizers=no])
SAN_CFLAGS=
AS_IF([test "$enable_sanitizers" != no],
    [SAN_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
     AC_DEFINE([DDP_SANITIZED], [1], [Define to 1 in a build with sanitizers.])])
AC_SUBST([SAN_CFLAGS])
# A GPU faults at misaligned accesses; the emulated kernels are to do so too.
AS_IF([test "$enable_sanitizers" = no], [ALIGN_CXXFLAGS="-fsanitize=alignment -fsanitize-undefined-trap-on-error"])
AC_SUBST([ALIGN_CXXFLAGS])
])

# Whether programs built with -fsanitize=thread run here; not in a build with other sanitizers.
AC_DEFUN([DDP_TSAN], [
AC_CACHE_CHECK([for a working ThreadSanitizer], [ddp_cv_tsan], [
    ddp_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -fsanitize=thread"
    AC_RUN_IFELSE([AC_LANG_PROGRAM([])], [ddp_cv_tsan=yes], [ddp_cv_tsan=no], [ddp_cv_tsan=no])
    CFLAGS=$ddp_save_CFLAGS])
AM_CONDITIONAL([HAVE_TSAN], [test "$ddp_cv_tsan" = yes -a "$enable_sanitizers" = no])
])

# DDP_FLAGS(VARIABLE, FLAGS, PROLOGUE): appends FLAGS to VARIABLE where compiler and linker take them without a word, for a
# program that begins with PROLOGUE.
AC_DEFUN([DDP_FLAGS], [
AC_MSG_CHECKING([whether $CC takes $2])
ddp_save_CFLAGS=$CFLAGS
CFLAGS="-Werror $2 $CFLAGS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([$3], [])], [ddp_takes=yes; $1="$$1 $2"], [ddp_takes=no])
CFLAGS=$ddp_save_CFLAGS
AC_MSG_RESULT([$ddp_takes])
])

# What makes a bug of ours harder to use: guarded stacks, checked copies, tables that nobody overwrites once the program
# runs, programs at random addresses. The checks need an optimiser, and would hide calls from sanitizers. The user's own
# flags come later, and win.
AC_DEFUN([DDP_HARDENING], [
HARDEN_CPPFLAGS= HARDEN_CFLAGS= HARDEN_LDFLAGS= PIE_LDFLAGS=
DDP_FLAGS([HARDEN_CFLAGS], [-fstack-protector-strong])
DDP_FLAGS([HARDEN_CFLAGS], [-fstack-clash-protection])
DDP_FLAGS([HARDEN_CFLAGS], [-fcf-protection])
AS_CASE([$host_cpu], [aarch64], [DDP_FLAGS([HARDEN_CFLAGS], [-mbranch-protection=standard])])
DDP_FLAGS([HARDEN_LDFLAGS], [-Wl,-z,relro,-z,now])
DDP_FLAGS([PIE_LDFLAGS], [-fPIE -pie])
# libtool puts -fPIC behind it where objects go into libraries.
AS_IF([test -n "$PIE_LDFLAGS"], [HARDEN_CFLAGS="$HARDEN_CFLAGS -fPIE"])
AS_CASE([" $enable_sanitizers $CPPFLAGS $CFLAGS"], [" no "*_FORTIFY_SOURCE*|" no "*-fsanitize=*], [], [" no "*],
    [for ddp_level in 3 2; do
        DDP_FLAGS([HARDEN_CPPFLAGS], [-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$ddp_level], [#include <string.h>
#if !defined __OPTIMIZE__ || __USE_FORTIFY_LEVEL < $ddp_level
#error no checked copies
#endif])
        test -z "$HARDEN_CPPFLAGS" || break
    done])
AC_SUBST([HARDEN_CPPFLAGS])
AC_SUBST([HARDEN_CFLAGS])
AC_SUBST([HARDEN_LDFLAGS])
AC_SUBST([PIE_LDFLAGS])
])

AC_DEFUN([DDP_WARNINGS], [
AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [warnings are errors])], [], [enable_werror=no])
WARN_CFLAGS="-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith"
AS_IF([test "$enable_werror" = yes], [WARN_CFLAGS="$WARN_CFLAGS -Werror"])
WARN_CXXFLAGS="-Wall -Wextra -Wpointer-arith"
AS_IF([test "$enable_werror" = yes], [WARN_CXXFLAGS="$WARN_CXXFLAGS -Werror"])
NVCC_WERROR=
AS_IF([test "$enable_werror" = yes], [NVCC_WERROR="--Werror all-warnings"])
AC_SUBST([NVCC_WERROR])
AC_SUBST([WARN_CFLAGS])
AC_SUBST([WARN_CXXFLAGS])
])

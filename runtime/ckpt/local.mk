# runtime/ckpt
noinst_LTLIBRARIES += librckpt.la
librckpt_la_SOURCES = \
	%D%/checksum.c %D%/checksum.h \
	%D%/checksum_avx2.c \
	%D%/checksum_avx512.c \
	%D%/checksum_impl.h \
	%D%/checksum_widths.h \
	%D%/commit.c %D%/commit.h \
	%D%/commit_clean.c \
	%D%/commit_impl.h \
	%D%/committer.c %D%/committer.h \
	%D%/copier.c %D%/copier.h \
	%D%/copy.c %D%/copy.h \
	%D%/export.c %D%/export.h \
	%D%/files.c %D%/files.h \
	%D%/folder.c %D%/folder.h \
	%D%/index.c %D%/index.h \
	%D%/manifest.c %D%/manifest.h \
	%D%/manifest_decode.c \
	%D%/manifest_impl.h \
	%D%/members.c %D%/members.h \
	%D%/mirror.c %D%/mirror.h \
	%D%/outfile.c %D%/outfile.h \
	%D%/reader.c %D%/reader.h \
	%D%/safetensors.c %D%/safetensors.h \
	%D%/savedir.c %D%/savedir.h \
	%D%/slots.c %D%/slots.h \
	%D%/snapshot.c %D%/snapshot.h \
	%D%/walk.c %D%/walk.h \
	%D%/writer.c %D%/writer.h
librckpt_la_LIBADD = $(JANSSON_LIBS)

UNIT_TESTS += t/unit/ckpt/checksum.t
t_unit_ckpt_checksum_t_SOURCES = t/unit/ckpt/checksum.c
UNIT_TESTS += t/unit/ckpt/files.t
t_unit_ckpt_files_t_SOURCES = t/unit/ckpt/files.c
UNIT_TESTS += t/unit/ckpt/manifest.t
t_unit_ckpt_manifest_t_SOURCES = t/unit/ckpt/manifest.c
UNIT_TESTS += t/unit/ckpt/manifest_limit.t
t_unit_ckpt_manifest_limit_t_SOURCES = t/unit/ckpt/manifest_limit.c
UNIT_TESTS += t/unit/ckpt/reader_damage.t
t_unit_ckpt_reader_damage_t_SOURCES = t/unit/ckpt/reader_damage.c
UNIT_TESTS += t/unit/ckpt/safetensors.t
t_unit_ckpt_safetensors_t_SOURCES = t/unit/ckpt/safetensors.c
UNIT_TESTS += t/unit/ckpt/savedir.t
t_unit_ckpt_savedir_t_SOURCES = t/unit/ckpt/savedir.c
UNIT_TESTS += t/unit/ckpt/slots.t
t_unit_ckpt_slots_t_SOURCES = t/unit/ckpt/slots.c
UNIT_TESTS += t/unit/ckpt/commit.t
t_unit_ckpt_commit_t_SOURCES = t/unit/ckpt/commit.c
t_unit_ckpt_commit_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mkdirat,--wrap=renameat,--wrap=renameat2,--wrap=unlinkat \
	-Wl,--wrap=fsync,--wrap=fallocate,--wrap=pwrite,--wrap=open,--wrap=openat,--wrap=fdopendir
UNIT_TESTS += t/unit/ckpt/commit_clean.t
t_unit_ckpt_commit_clean_t_SOURCES = t/unit/ckpt/commit_clean.c
t_unit_ckpt_commit_clean_t_LDFLAGS = $(t_unit_ckpt_commit_t_LDFLAGS)
UNIT_TESTS += t/unit/ckpt/suspect.t
t_unit_ckpt_suspect_t_SOURCES = t/unit/ckpt/suspect.c
t_unit_ckpt_suspect_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=openat
UNIT_TESTS += t/unit/ckpt/writer.t
t_unit_ckpt_writer_t_SOURCES = t/unit/ckpt/writer.c
t_unit_ckpt_writer_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pwrite,--wrap=sysconf,--wrap=fsync
UNIT_TESTS += t/unit/ckpt/mirror.t
t_unit_ckpt_mirror_t_SOURCES = t/unit/ckpt/mirror.c
UNIT_TESTS += t/unit/ckpt/reader.t
t_unit_ckpt_reader_t_SOURCES = t/unit/ckpt/reader.c
t_unit_ckpt_reader_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pread

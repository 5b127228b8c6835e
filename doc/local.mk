# doc: manual pages, which t/t0009 compares with the code; the guides; files to copy from; completion
MAN3 = \
	%D%/man/ddp_allreduce.3 \
	%D%/man/ddp_checkpoint.3 \
	%D%/man/ddp_commit.3 \
	%D%/man/ddp_data_open.3 \
	%D%/man/ddp_device.3 \
	%D%/man/ddp_error.3 \
	%D%/man/ddp_group.3 \
	%D%/man/ddp_init.3 \
	%D%/man/ddp_metrics.3 \
	%D%/man/ddp_param_add.3 \
	%D%/man/ddp_record.3 \
	%D%/man/ddp_sized.3 \
	%D%/man/ddp_state.3 \
	%D%/man/ddp_step.3
dist_man_MANS = $(MAN3) \
	%D%/man/ddp.1 \
	%D%/man/ddp-bench.1 \
	%D%/man/ddp-check.1 \
	%D%/man/ddp-ckpt.1 \
	%D%/man/ddp-doctor.1 \
	%D%/man/ddp-ps.1 \
	%D%/man/ddp-report.1 \
	%D%/man/ddp-requeue.1 \
	%D%/man/ddp-run.1 \
	%D%/man/ddp-topo.1 \
	%D%/man/train.1 \
	%D%/man/ddp-record.5 \
	%D%/man/ddp.json.5 \
	%D%/man/libddp.7 \
	%D%/man/spank_ddp.8
dist_doc_DATA = NEWS.md %D%/admin.md %D%/architecture.md %D%/gpu.md %D%/performance.md %D%/placement.md \
	%D%/record.schema.json %D%/security.md %D%/user.md
examplesdir = $(docdir)/examples
dist_examples_DATA = contrib/examples/curves.py contrib/examples/gpt.py contrib/examples/linear.c \
	contrib/slurm/ddp.json contrib/slurm/plugstack.conf contrib/slurm/train.sbatch

# bash looks for a command's completion under its name; an empty folder is --without-bash-completion-dir
dist_bashcompletion_DATA = contrib/completion/ddp contrib/completion/train

# A page about several functions is found by each of the names in its NAME; pages and the plugin's line name files
# where they go.
each_alias = for page in $(MAN3); do \
	for name in `sed -n '/^\.Sh SYNOPSIS/q; s/^\.Nm \([a-z_]*\).*/\1/p' $(srcdir)/$$page`; do \
	file=$(DESTDIR)$(man3dir)/$$name.3; test $$name.3 = "$${page\#\#*/}" ||
install-data-hook:
	$(each_alias) { echo ".so man3/$${page##*/}" >"$$file" && chmod 644 "$$file"; } || exit 1; done; done
	$(SED) -i 's,/[^ ]*/ddp\.so,$(plugindir)/ddp.so,' "$(DESTDIR)$(examplesdir)/plugstack.conf"
	for page in $(dist_man_MANS); do echo "$(DESTDIR)$(mandir)/man$${page##*.}/$${page##*/}"; done | \
	xargs -d '\n' $(SED) -i -e 's,PREFIX/share/doc/slurm-ddp,$(docdir),' -e 's,PREFIX/share/slurm-ddp,$(pkgdatadir),' \
	    -e 's,PREFIX/lib/slurm-ddp,$(plugindir),' -e 's,PREFIX/libexec/slurm-ddp,$(pkglibexecdir),'
uninstall-hook:
	$(each_alias) rm -f "$$file"; done; done

# t: what `make check` runs. The rooms' local.mk name the unit tests.
SHELL_TESTS = \
	%D%/t0001-layering.t \
	%D%/t0002-harness.t \
	%D%/t0003-cluster.t \
	%D%/t0004-install.t \
	%D%/t0005-cluster-folder.t \
	%D%/t0006-hardening.t \
	%D%/t0007-python-pins.t \
	%D%/t0008-circles.t \
	%D%/t0009-manuals.t \
	%D%/t0010-abi.t \
	%D%/t0011-matrix.t \
	%D%/t0012-completion.t \
	%D%/t1001-spank-options.t \
	%D%/t1002-spank-environment.t \
	%D%/t1003-spank-site.t \
	%D%/t1004-spank-peers.t \
	%D%/t1005-spank-binding.t \
	%D%/t1006-spank-placement.t \
	%D%/t1007-spank-verbose.t \
	%D%/t1008-spank-hostile.t \
	%D%/t1009-spank-port.t \
	%D%/t1010-spank-containers.t \
	%D%/t1011-spank-upgrade.t \
	%D%/t1012-spank-guard.t \
	%D%/t1013-spank-topology.t \
	%D%/t1014-spank-restart.t \
	%D%/t1015-spank-torchrun.t \
	%D%/t1016-spank-stop.t \
	%D%/t1018-spank-spares.t \
	%D%/t1019-spank-record.t \
	%D%/t1020-spank-waits.t \
	%D%/t2001-boot-run.t \
	%D%/t2002-boot-refuse.t \
	%D%/t2003-boot-pmix.t \
	%D%/t2004-boot-waits.t \
	%D%/t2005-boot-flood.t \
	%D%/t2006-slurm-flood.t \
	%D%/t2007-boot-pmi.t \
	%D%/t3002-topo-cli.t \
	%D%/t3010-fuzz-seeds.t \
	%D%/t4101-linear.t \
	%D%/t4102-layout.t \
	%D%/t4103-api.t \
	%D%/t4104-reducer.t \
	%D%/t4105-memory.t \
	%D%/t4106-verify.t \
	%D%/t4106-trace.t \
	%D%/t4107-record.t \
	%D%/t4301-bench.t \
	%D%/t5001-train-single.t \
	%D%/t5002-train-ranks.t \
	%D%/t5010-train-shards.t \
	%D%/t5011-train-zero.t \
	%D%/t5012-data-ledger.t \
	%D%/t5013-data-resume.t \
	%D%/t5401-loss-scale.t \
	%D%/t5501-record.t \
	%D%/t5502-report.t \
	%D%/t5503-report-page.t \
	%D%/t5504-live.t \
	%D%/t5505-curves.t \
	%D%/t5506-prometheus.t \
	%D%/t5507-goodput.t \
	%D%/t5508-comment.t \
	%D%/t6001-ckpt-cli.t \
	%D%/t6002-ckpt-safetensors.t \
	%D%/t6003-ckpt-transformers.t \
	%D%/t6010-chaos.t \
	%D%/t6011-train-ckpt.t \
	%D%/t6101-ckpt-resume.t \
	%D%/t6102-ckpt-broken.t \
	%D%/t6103-ckpt-failing.t \
	%D%/t6104-ckpt-load.t \
	%D%/t6105-ckpt-flight.t \
	%D%/t6106-ckpt-links.t \
	%D%/t6110-cut.t \
	%D%/t6501-python.t \
	%D%/t6502-python-slurm.t \
	%D%/t6503-python-backend.t \
	%D%/t7001-rank-death.t \
	%D%/t7002-slurm-death.t \
	%D%/t7003-stop.t \
	%D%/t7004-requeue.t \
	%D%/t7005-slurm-stop.t \
	%D%/t7006-deadline.t \
	%D%/t7007-ps.t \
	%D%/t7010-check.t \
	%D%/t7011-doctor.t \
	%D%/t8001-device.t \
	%D%/t8030-cubins.t \
	%D%/t8101-nccl-double.t \
	%D%/t8102-nccl-fail.t \
	%D%/t8103-nccl-slurm.t \
	%D%/t8201-gpu-steps.t \
	%D%/t8202-gpu-claims.t \
	%D%/t8210-gpu-train.t \
	%D%/t8301-gpu-deterministic.t \
	%D%/t8302-gpu-fail.t \
	%D%/t8401-gpu-bench.t \
	%D%/t8402-gpu-training.t \
	%D%/t8404-gpu-budget.t \
	%D%/t8405-gpu-ranks.t \
	%D%/t8406-gpu-crossing.t \
	%D%/t8407-gpu-model.t \
	%D%/t8408-gpu-check.t \
	%D%/t8411-gpu-ckpt.t \
	%D%/t8412-gpu-resume.t
if HAVE_CXX
SHELL_TESTS += %D%/t8020-cuda-mutants.t
endif
EXTRA_DIST += $(SHELL_TESTS) %D%/t8020-cuda-mutants.t
# the slow ones, of contrib/check --long
EXTRA_DIST += \
	%D%/t9001-spank-requeue.t \
	%D%/t9002-spank-suspend.t \
	%D%/t9003-spank-parts.t \
	%D%/t9020-cuda-mutants.t \
	%D%/t9101-spank-scale.t \
	%D%/t9105-slurm-resume.t \
	%D%/t9205-boot-flood.t \
	%D%/t9206-slurm-flood.t \
	%D%/t9207-slurm-pmi.t \
	%D%/t9301-placement-random.t \
	%D%/t9401-restart-memory.t \
	%D%/t9501-step-parts.t \
	%D%/t9502-slow-link.t \
	%D%/t9601-chaos.t \
	%D%/t9602-python.t \
	%D%/t9603-frameworks.t \
	%D%/t9604-frameworks-debian.t \
	%D%/t9605-frameworks-killed.t \
	%D%/t9606-frameworks-ends.t \
	%D%/t9701-check.t

if HAVE_CMOCKA
check_PROGRAMS += $(UNIT_TESTS)
else
check-local:
	@echo "make check needs cmocka: install the Debian package libcmocka-dev and run configure again" >&2; false
endif
TESTS = $(UNIT_TESTS) $(SHELL_TESTS)
TEST_EXTENSIONS = .t
T_LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
# A test that hangs ends alone. The slowest that make check runs by itself takes two minutes on a busy machine.
T_LOG_COMPILER = timeout --foreground -k 60 $$(case $$f in *t/t9*) echo 180m ;; *) echo 20m ;; esac)
AM_TESTS_ENVIRONMENT = \
	CMOCKA_MESSAGE_OUTPUT=TAP; export CMOCKA_MESSAGE_OUTPUT; \
	LC_ALL=C.UTF-8; export LC_ALL; unset LANGUAGE; \
	top_srcdir='$(abs_top_srcdir)'; export top_srcdir; \
	top_builddir='$(abs_top_builddir)'; export top_builddir;

# what t6503 has PyTorch compile
mostlyclean-local:
	rm -rf t/cache

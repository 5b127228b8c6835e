# runtime/optimizer: what a step does with the sums, and who keeps its state
noinst_LTLIBRARIES += liboptimizer.la
liboptimizer_la_SOURCES = \
	%D%/arena.h \
	%D%/arena_cpu.c \
	%D%/loss_scale.c %D%/loss_scale.h \
	%D%/optimizer.c %D%/optimizer.h \
	%D%/shards.c %D%/shards.h \
	%D%/zero_cpu.c %D%/zero_cpu.h \
	%D%/zero_gpu.c %D%/zero_gpu.h

UNIT_TESTS += t/unit/optimizer/loss_scale.t
t_unit_optimizer_loss_scale_t_SOURCES = t/unit/optimizer/loss_scale.c
UNIT_TESTS += t/unit/optimizer/shards.t
t_unit_optimizer_shards_t_SOURCES = t/unit/optimizer/shards.c
UNIT_TESTS += t/unit/optimizer/zero_gpu.t
t_unit_optimizer_zero_gpu_t_SOURCES = t/unit/optimizer/zero_gpu.c

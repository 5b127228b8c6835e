/* ckptmake DIR STEP [MAX-BYTES [WORDS]] - writes the checkpoint DIR/step-STEP of a small model, for shell tests. WORDS:
 * what its manifest's texts say. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "runtime/ckpt/folder.h"
#include "t/lib/ckptfolder.h"

int main(int argc, char **argv)
{
    char name[32], path[FOLDER_PATH_MAX];
    struct files f;
    if (argc < 3 || (mkdir(argv[1], 0755) < 0 && errno != EEXIST))
        return fprintf(stderr, "usage: ckptmake DIR STEP [MAX-BYTES [WORDS]]\n"), 2;
    struct manifest_state s = {
        .step = strtoull(argv[2], NULL, 10), .world_size = 4, .n_nodes = 2, .n_threads = 1,
        .data = {.n_samples = 1000, .seed = UINT64_MAX, .epoch = 1, .cursor = 64, .batch = 8, .accum = 2, .shards = 4,
                 .order = "ledger"},
        .optimizer = "name=adamw\nlr=0.001", .cpu = "A CPU", .kernels = "AVX2", .products = "own AVX2",
        .summed_over = "ranks",
        .reason = "periodic", .saved_at = "2026-11-21T20:15:02Z", .software = "slurm-ddp 0.1.0", .trained_s = 12.5,
        .n_runs = 2, .n_failures = 1,
    };
    char *const texts[] = {s.data.order, s.optimizer, s.cpu, s.kernels, s.products, s.noted_data, s.summed_over,
                           s.reason, s.saved_at, s.software};
    for (size_t i = 0; argc > 4 && i < sizeof texts / sizeof *texts; i++)
        snprintf(texts[i], sizeof s.reason, "%s", argv[4]); /* the shortest of them */
    folder_name(s.step, name);
    snprintf(path, sizeof path, "%s/%s", argv[1], name);
    ckptfolder_model(&f, argc > 3 ? strtoull(argv[3], NULL, 10) : (uint64_t)4 << 30);
    ckptfolder_write(path, &f, &s);
    files_clear(&f);
    return 0;
}

/* launcher.h - programs that start others in turn, told by a task's command line. Pure. */
#ifndef DDP_SPANK_LAUNCHER_H
#define DDP_SPANK_LAUNCHER_H

enum launcher {
    LAUNCHER_NONE,
    LAUNCHER_TORCH, /* torchrun, accelerate: it starts the ranks of a node, and says how many threads each has */
    LAUNCHER_MPI,   /* a daemon of mpirun's, which starts it by an srun of its own: orted, prted, Hydra's proxies */
};

/* argv[0..argc) is the command with its arguments; "python -m torch.distributed.run" and "python /PATH/torchrun" are
 * found, what a shell script starts is not. */
enum launcher launcher_of(int argc, char *const *argv);

#endif

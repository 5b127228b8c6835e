#include "config.h"
#include "runtime/stack/stack.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* DWARF's number of the stack pointer. */
#if defined __x86_64__
#define SP 7
#elif defined __aarch64__
#define SP 31
#else
#error "configure builds this for x86_64 and aarch64 only"
#endif

struct walk {
    pid_t pid;
    int memory;
    const struct thread *thread;
    size_t n, now; /* now: the one whose frames are visited */
    int n_frames;
    stack_visit_f *visit;
    void *arg;
};

/* ---- what libdw asks ---- */

static pid_t files_of; /* find_elf has no argument for it */

/* In a container the path is another file for us. */
static int find_elf(Dwfl_Module *m, void **user, const char *name, Dwarf_Addr base, char **ret_name, Elf **ret_elf)
{
    char path[PATH_MAX];
    (void)m, (void)user, (void)base, (void)ret_elf;
    if (name[0] != '/' || snprintf(path, sizeof path, "/proc/%d/root%s", (int)files_of, name) >= (int)sizeof path)
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        *ret_name = strdup(path);
    return fd;
}

/* .eh_frame and the dynamic symbols are enough; nothing is fetched from elsewhere. */
static int find_debuginfo(Dwfl_Module *m, void **user, const char *name, Dwarf_Addr base, const char *file,
                          const char *link, GElf_Word crc, char **ret_name)
{
    (void)m, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)ret_name;
    return -1;
}

static pid_t next_thread(Dwfl *d, void *arg, void **thread)
{
    struct walk *w = arg;
    (void)d;
    if (*thread) /* one at a time */
        return 0;
    *thread = w;
    return w->thread[w->now].tid;
}

static bool read_word(Dwfl *d, Dwarf_Addr at, Dwarf_Word *ret, void *arg)
{
    const struct walk *w = arg;
    uint64_t word;
    (void)d;
    if (pread(w->memory, &word, sizeof word, (off_t)at) != sizeof word)
        return false;
    *ret = word;
    return true;
}

/* Others are not known. Whoever changes one that its caller needs has it on the stack. */
static bool set_registers(Dwfl_Thread *thread, void *arg)
{
    const struct walk *w = arg;
    Dwarf_Word sp = w->thread[w->now].sp;
    dwfl_thread_state_register_pc(thread, w->thread[w->now].pc);
    return dwfl_thread_state_registers(thread, SP, 1, &sp);
}

static int take_frame(Dwfl_Frame *f, void *arg)
{
    struct walk *w = arg;
    Dwarf_Addr pc;
    bool is_exact;
    if (w->n_frames++ == STACK_FRAMES_MAX || !dwfl_frame_pc(f, &pc, &is_exact))
        return DWARF_CB_ABORT;
    pc -= is_exact ? 0 : 1; /* a return address; the call may be its function's last instruction */
    Dwfl_Module *m = dwfl_addrmodule(dwfl_thread_dwfl(dwfl_frame_thread(f)), pc);
    const char *symbol = m ? dwfl_module_addrname(m, pc) : NULL;
    const char *file = m ? dwfl_module_info(m, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : NULL;
    return w->visit(w->arg, w->now, file ? file : "", symbol ? symbol : "") ? DWARF_CB_OK : DWARF_CB_ABORT;
}

static int take_thread(Dwfl_Thread *thread, void *arg)
{
    dwfl_thread_getframes(thread, take_frame, arg);
    return DWARF_CB_OK;
}

/* ---- the walk ---- */

static int walk(Dwfl *d, struct walk *w)
{
    static const Dwfl_Thread_Callbacks of_thread = {.next_thread = next_thread, .memory_read = read_word,
                                                    .set_initial_registers = set_registers};
    if (dwfl_linux_proc_report(d, w->pid) != 0 || dwfl_report_end(d, NULL, NULL) != 0 ||
        !dwfl_attach_state(d, NULL, w->pid, &of_thread, w))
        return -1;
    for (w->now = 0; w->now < w->n; w->now++) {
        w->n_frames = 0;
        dwfl_getthreads(d, take_thread, w);
    }
    return 0;
}

int stack_walk(pid_t pid, int memory, const struct thread *t, size_t n, stack_visit_f visit, void *arg,
               ddp_error_t *errp)
{
    static const Dwfl_Callbacks files = {.find_elf = find_elf, .find_debuginfo = find_debuginfo};
    struct walk w = {.pid = pid, .memory = memory, .thread = t, .n = n, .visit = visit, .arg = arg};
    files_of = pid;
    Dwfl *d = dwfl_begin(&files);
    int rc = d ? walk(d, &w) : -1;
    if (rc < 0)
        error_set(errp, DDP_E_SYSTEM, 0, "stacks of process %d: %s", (int)pid, dwfl_errmsg(-1));
    if (d)
        dwfl_end(d);
    return rc;
}

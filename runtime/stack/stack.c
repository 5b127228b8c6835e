#include "config.h"
#include "runtime/stack/stack.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* DWARF's numbers of registers: System V ABI, AMD64, figure 3.36. */
enum { RBP = 6, RSP = 7 };

#define SEARCH_WORDS 2048 /* of the stack, for a frame that %rbp may point to */
#define TRIES_MAX 256 /* of all threads */

struct frame {
    const char *file, *symbol;
};

struct walk {
    pid_t pid;
    int memory;
    const struct thread *thread; /* the one whose frames are looked for */
    uint64_t rbp; /* 0: not known */
    int n_tries;
    struct frame frame[STACK_FRAMES_MAX];
    size_t n;
    bool is_whole; /* the last one is the thread's first */
};

/* ---- what libdw asks ---- */

static pid_t files_of; /* find_elf has no argument for it */

/* In a container the path is another file for us. A device might do something when it is opened. */
static int find_elf(Dwfl_Module *m, void **user, const char *name, Dwarf_Addr base, char **ret_name, Elf **ret_elf)
{
    char path[PATH_MAX];
    struct stat st;
    (void)m, (void)user, (void)base, (void)ret_elf;
    if (name[0] != '/' || snprintf(path, sizeof path, "/proc/%d/root%s", (int)files_of, name) >= (int)sizeof path ||
        stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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
    return w->thread->tid;
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

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
    const struct walk *w = arg;
    Dwarf_Word rsp = w->thread->sp, rbp = w->rbp;
    dwfl_thread_state_register_pc(thread, w->thread->pc);
    return dwfl_thread_state_registers(thread, RSP, 1, &rsp) &&
           (!rbp || dwfl_thread_state_registers(thread, RBP, 1, &rbp));
}

/* Of a thread's first function the table says that there is no return address. */
static bool is_first(Dwfl_Module *m, Dwarf_Addr pc)
{
    Dwarf_Addr bias;
    Dwarf_Frame *f;
    Dwarf_Op room[3], *ops;
    size_t n_ops;
    Dwarf_CFI *cfi = dwfl_module_eh_cfi(m, &bias);
    if (!cfi || dwarf_cfi_addrframe(cfi, pc - bias, &f) != 0)
        return false;
    int address = dwarf_frame_info(f, NULL, NULL, NULL);
    bool is = address >= 0 && dwarf_frame_register(f, address, room, &ops, &n_ops) == 0 && n_ops == 0 && ops == room;
    free(f);
    return is;
}

static int take_frame(Dwfl_Frame *f, void *arg)
{
    struct walk *w = arg;
    Dwarf_Addr pc;
    bool is_exact;
    if (w->n == STACK_FRAMES_MAX || !dwfl_frame_pc(f, &pc, &is_exact))
        return DWARF_CB_ABORT;
    pc -= is_exact ? 0 : 1; /* a return address; the call may be its function's last instruction */
    Dwfl_Module *m = dwfl_addrmodule(dwfl_thread_dwfl(dwfl_frame_thread(f)), pc);
    const char *symbol = m ? dwfl_module_addrname(m, pc) : NULL;
    const char *file = m ? dwfl_module_info(m, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : NULL;
    w->frame[w->n++] = (struct frame){file ? file : "", symbol ? symbol : ""};
    w->is_whole = m && is_first(m, pc);
    return DWARF_CB_OK;
}

static int take_thread(Dwfl_Thread *thread, void *arg)
{
    dwfl_thread_getframes(thread, take_frame, arg);
    return DWARF_CB_OK;
}

/* ---- the walk ---- */

static void follow(Dwfl *d, struct walk *w, uint64_t rbp)
{
    w->rbp = rbp;
    w->n = 0;
    w->is_whole = false;
    dwfl_getthreads(d, take_thread, w);
}

/* The kernel tells of two registers. Whoever changes another that its caller needs has it on the stack; but where
 * nobody has changed %rbp, and a function needs it to find its frame, that lies below a return address, and the right
 * one is that from which the way leads to the thread's first function. */
static void find_frames(Dwfl *d, struct walk *w)
{
    static uint64_t word[SEARCH_WORDS];
    follow(d, w, 0);
    if (w->is_whole)
        return;
    ssize_t n = pread(w->memory, word, sizeof word, (off_t)w->thread->sp);
    size_t n_words = n > 0 ? (size_t)n / sizeof *word : 0;
    for (size_t i = 0; i + 1 < n_words && w->n_tries < TRIES_MAX; i++) {
        if (!dwfl_addrmodule(d, word[i + 1]))
            continue;
        follow(d, w, w->thread->sp + i * sizeof *word);
        w->n_tries++;
        if (w->is_whole)
            return;
    }
    w->n = 0;
}

static int walk(Dwfl *d, struct walk *w, const struct thread *t, size_t n, stack_visit_f visit, void *arg)
{
    static const Dwfl_Thread_Callbacks of_thread = {.next_thread = next_thread, .memory_read = read_word,
                                                    .set_initial_registers = set_registers};
    int rc = dwfl_linux_proc_report(d, w->pid); /* or errno's number */
    if (rc != 0 || dwfl_report_end(d, NULL, NULL) != 0 || !dwfl_attach_state(d, NULL, w->pid, &of_thread, w))
        return rc > 0 ? rc : -1;
    for (size_t i = 0; i < n; i++) {
        w->thread = &t[i];
        find_frames(d, w);
        for (size_t k = 0; k < w->n && visit(arg, i, w->frame[k].file, w->frame[k].symbol); k++)
            ;
    }
    return 0;
}

int stack_walk(pid_t pid, int memory, const struct thread *t, size_t n, stack_visit_f visit, void *arg,
               ddp_error_t *errp)
{
    static const Dwfl_Callbacks files = {.find_elf = find_elf, .find_debuginfo = find_debuginfo};
    static struct walk w;
    w = (struct walk){.pid = pid, .memory = memory};
    files_of = pid;
    Dwfl *d = dwfl_begin(&files);
    int rc = d ? walk(d, &w, t, n, visit, arg) : -1;
    if (rc != 0)
        error_set(errp, DDP_E_SYSTEM, rc > 0 ? rc : 0, "stacks of process %d: %s", (int)pid,
                  rc > 0 ? strerror(rc) : dwfl_errmsg(-1));
    if (d)
        dwfl_end(d);
    return rc ? -1 : 0;
}

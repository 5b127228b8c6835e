/* boot_pmi.c - the boot under srun --mpi=pmi2, whose plugin is in every build of Slurm.
 *
 * It speaks PMI 1 (as in MPICH's PMI "simple" client) over a socket that the process inherits as descriptor PMI_FD: no
 * library. A request is a line "cmd=NAME KEY=VALUE ...", which is answered by one line, or, barrier_in, once all ranks
 * have sent it:
 *
 *   init pmi_version=1 pmi_subversion=1   response_to_init
 *   get_my_kvsname                        my_kvsname kvsname=NAME
 *   put kvsname= key= value=              put_result           rank 0's card (boot_carried.h)
 *   barrier_in                            barrier_out
 *   get kvsname= key=                     get_result value=
 *   finalize                              finalize_ack
 *
 * Slurm reads a request by one call of 1024 bytes, so each is sent by one, and is shorter. After finalize it closes the
 * socket: a task that starts one program of libddp after the other needs PMIx. Our end stays open, and open across
 * exec: closed, its number would become another file's, into which a later program, told PMI_FD, would write. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pmix/boot_carried.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/num.h"

#define KEY "ddp.boot"
#define LINE_BYTES 1024
#define NAME_BYTES 256
#define VALUE_BYTES 700 /* of a card, so that with a name it fits into a line */

struct pmi {
    struct boot_carried carried;
    int fd;
};

static const char who[] = "the launcher (PMI)";

/* ---- lines ---- */

/* The next line, without its end. */
static int read_line(int fd, char line[LINE_BYTES], uint64_t deadline, ddp_error_t *errp)
{
    for (size_t used = 0; used < LINE_BYTES;) {
        ssize_t n = io_recv_some(fd, line + used, LINE_BYTES - used, deadline, who, errp);
        if (n < 0)
            return -1;
        used += (size_t)n;
        if (line[used - 1] == '\n') { /* nobody sends more before the next request */
            line[used - 1] = 0;
            return 0;
        }
    }
    return error_set(errp, DDP_E_BOOT, EPROTO, "%s: an answer of more than %d bytes", who, LINE_BYTES);
}

/* The value of KEY in "KEY=VALUE KEY=VALUE", up to the next space; NULL: there is none. */
static const char *find(const char *line, const char *key)
{
    size_t n = strlen(key);
    for (; *line; line += strcspn(line, " "), line += strspn(line, " "))
        if (!strncmp(line, key, n) && line[n] == '=')
            return line + n + 1;
    return NULL;
}

static bool is_word(const char *value, const char *word)
{
    size_t n = strlen(word);
    return value && !strncmp(value, word, n) && (!value[n] || value[n] == ' ');
}

/* Sends the request in `line`, which becomes the answer: a line of that command, and no failure. */
static int ask(int fd, char line[LINE_BYTES], const char *answer, uint64_t deadline, ddp_error_t *errp)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(line + strlen("cmd="), " \n"), line + strlen("cmd="));
    if (io_send_all(fd, line, strlen(line), deadline, who, errp) < 0 || read_line(fd, line, deadline, errp) < 0)
        return error_prefix(errp, "boot: %s", name);
    const char *rc = find(line, "rc");
    if (is_word(find(line, "cmd"), answer) && (!rc || is_word(rc, "0")))
        return 0;
    return error_set(errp, DDP_E_BOOT, EPROTO, "boot: %s: %s says \"%.100s\"", name, who, line);
}

/* ---- the card ---- */

/* A value holds no space. Of a card that is too long the last addresses are left out. */
static void encode(const char *card, char value[VALUE_BYTES])
{
    size_t n = strlen(card);
    while (n >= VALUE_BYTES)
        for (n--; n > 0 && card[n] != ' '; n--)
            ;
    for (size_t i = 0; i < n; i++)
        value[i] = card[i] == ' ' ? ',' : card[i];
    value[n] = 0;
}

static void decode(const char *value, char card[CARRIED_CARD_MAX])
{
    snprintf(card, CARRIED_CARD_MAX, "%.*s", (int)strcspn(value, " "), value);
    for (char *c = card; (c = strchr(c, ',')); c++)
        *c = ' ';
}

/* The first request: where the connection is closed already, a program before this one has used it up. */
static int enter(int fd, uint64_t deadline, ddp_error_t *errp)
{
    char line[LINE_BYTES] = "cmd=init pmi_version=1 pmi_subversion=1\n";
    if (ask(fd, line, "response_to_init", deadline, errp) == 0)
        return 0;
    if (errp && errp->domain == DDP_E_PEER)
        error_prefix(errp, "PMI serves one program of libddp a task (use --ddp=on,mpi=pmix for more)");
    return -1;
}

/* Rank 0's card on all ranks, by way of the launcher, which is left in any case. */
static int exchange(int fd, const char *own, char card[CARRIED_CARD_MAX], uint64_t deadline, ddp_error_t *errp)
{
    char line[LINE_BYTES] = "cmd=get_my_kvsname\n", name[NAME_BYTES], value[VALUE_BYTES];
    if (ask(fd, line, "my_kvsname", deadline, errp) < 0)
        return -1;
    const char *kvsname = find(line, "kvsname");
    snprintf(name, sizeof name, "%.*s", kvsname ? (int)strcspn(kvsname, " ") : 0, kvsname ? kvsname : "");
    if (own) {
        encode(own, value);
        snprintf(line, sizeof line, "cmd=put kvsname=%s key=" KEY " value=%s\n", name, value);
        if (ask(fd, line, "put_result", deadline, errp) < 0)
            return -1;
    }
    snprintf(line, sizeof line, "cmd=barrier_in\n");
    if (ask(fd, line, "barrier_out", deadline, errp) < 0)
        return -1;
    snprintf(line, sizeof line, "cmd=get kvsname=%s key=" KEY "\n", name);
    if (ask(fd, line, "get_result", deadline, errp) < 0)
        return -1;
    const char *got = find(line, "value");
    decode(got ? got : "", card);
    snprintf(line, sizeof line, "cmd=finalize\n");
    return ask(fd, line, "finalize_ack", deadline, errp);
}

/* ---- the backend ---- */

static int pmi_close(boot_t *b, ddp_error_t *errp)
{
    struct pmi *p = b->state;
    (void)errp;
    carried_close(&p->carried, deadline_in(CARRIED_LEAVE_S));
    free(p);
    return 0;
}

static const struct boot_ops pmi_ops = {carried_put, carried_fence, carried_get, pmi_close};

static int read_environment(struct pmi *p, boot_t *b, ddp_error_t *errp)
{
    const char *fd = getenv("PMI_FD"), *rank = getenv("PMI_RANK"), *size = getenv("PMI_SIZE");
    if (!fd || !rank || !size)
        return error_set(errp, DDP_E_BOOT, ENOTCONN, "PMI_FD, PMI_RANK and PMI_SIZE are not set: start the program "
                         "with \"srun --ddp=on\", or with \"srun --mpi=pmi2\"");
    if (num_int(fd, 0, 1 << 20, &p->fd) < 0 || num_int(size, 1, 1 << 24, &b->size) < 0 ||
        num_int(rank, 0, b->size - 1, &b->rank) < 0)
        return error_set(errp, DDP_E_BOOT, EINVAL, "PMI_FD=%.16s, PMI_RANK=%.16s, PMI_SIZE=%.16s: no descriptor, or no "
                         "rank of a job", fd, rank, size);
    struct stat st;
    if (fstat(p->fd, &st) == 0 && S_ISSOCK(st.st_mode))
        return 0;
    return error_set(errp, DDP_E_BOOT, EBADF, "PMI_FD=%d is no open socket: a program between srun and this one has "
                     "closed it; use PMIx (--ddp=on,mpi=pmix)", p->fd);
}

/* Where Slurm says so, and of these ranks: a launcher within the step may have left its variables as they are. */
static bool is_one_node(int size)
{
    const char *nodes = getenv("SLURM_STEP_NUM_NODES"), *tasks = getenv("SLURM_STEP_NUM_TASKS");
    int n, n_tasks;
    return nodes && tasks && num_int(nodes, 1, 1 << 24, &n) == 0 && n == 1 &&
           num_int(tasks, 1, 1 << 24, &n_tasks) == 0 && n_tasks == size;
}

static int join(struct pmi *p, const boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    char card[CARRIED_CARD_MAX];
    if (b->rank == 0 && !(p->carried.host = boot_host_create(b->size, is_one_node(b->size), errp)))
        return -1;
    const char *own = b->rank == 0 ? boot_host_card(p->carried.host) : NULL;
    if (enter(p->fd, deadline, errp) < 0 || exchange(p->fd, own, card, deadline, errp) < 0)
        return -1;
    return carried_join(&p->carried, b->rank, b->size, card, NULL, NULL, deadline, errp);
}

int boot_pmi_open(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    struct pmi *p = calloc(1, sizeof *p);
    if (!p)
        return error_errno(errp, "boot");
    if (read_environment(p, b, errp) < 0) {
        free(p);
        return -1;
    }
    if (join(p, b, deadline, errp) < 0) {
        carried_close(&p->carried, 0);
        free(p);
        return -1;
    }
    b->ops = &pmi_ops;
    b->state = p;
    return 0;
}

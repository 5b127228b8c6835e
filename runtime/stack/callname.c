#include "runtime/stack/callname.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/begins.h"

#define PARTS_MAX 8
#define MANGLED "_ZN" /* a name within a namespace: Itanium C++ ABI, 5.1.6 */
#define ANONYMOUS "_GLOBAL__N_"

struct part {
    const char *text;
    size_t len;
};

static bool is(const struct part *p, const char *text)
{
    return p->len == strlen(text) && !memcmp(p->text, text, p->len);
}

/* The parts of a::b::c, without anonymous namespaces, up to the first that is more than a name. */
static size_t split(const char *symbol, struct part part[PARTS_MAX])
{
    size_t n = 0;
    const char *at = symbol + strlen(MANGLED);
    at += strspn(at, "rVK"); /* of a const member function */
    while (isdigit((unsigned char)*at) && n < PARTS_MAX) {
        char *name;
        unsigned long len = strtoul(at, &name, 10);
        if (len == 0 || len > strlen(name))
            return 0;
        if (!begins(name, ANONYMOUS))
            part[n++] = (struct part){name, len};
        at = name + len;
    }
    return n;
}

static bool is_one_of(const struct part *p, const char *const *names)
{
    for (; *names; names++)
        if (is(p, *names))
            return true;
    return false;
}

/* gloo's operations are functions of its namespace; all else there lies deeper. */
static bool is_gloos(const struct part *p, size_t n)
{
    return n == 2 && is(&p[0], "gloo") && islower((unsigned char)p[1].text[0]);
}

static bool is_torchs(const struct part *p, size_t n)
{
    static const char *const stores[] = {"TCPStore", "FileStore", "HashStore", NULL};
    static const char *const messages[] = {"SendWork", "RecvWork", "AnyRecvWork", NULL};
    if (n < 2 || !is(&p[0], "c10d"))
        return false;
    return is_one_of(&p[1], stores) || is_one_of(&p[1], messages) || (n > 2 && is_one_of(&p[2], messages));
}

static enum callname find_mangled(const char *symbol, char *buf, size_t size)
{
    static const char *const waits[] = {"waitRecv", "waitSend", NULL};
    struct part p[PARTS_MAX];
    size_t n = split(symbol, p), last = n > 2 && is(&p[1], "ProcessGroupGloo") ? 2 : 1;
    if (n > 3 && is(&p[0], "gloo") && is_one_of(&p[n - 1], waits)) {
        snprintf(buf, size, "gloo");
        return CALLNAME_INNER;
    }
    if (!is_gloos(p, n) && !is_torchs(p, n))
        return CALLNAME_NONE;
    snprintf(buf, size, "%.*s::%.*s", (int)p[0].len, p[0].text, (int)p[last].len, p[last].text);
    return is_gloos(p, n) ? CALLNAME_COLLECTIVE : CALLNAME_MESSAGE;
}

/* MPI 4.0, chapter 6; their forms with v, w, init and so on begin alike. */
static bool is_mpis_collective(const char *name)
{
    static const char *const names[] = {"Barrier", "Bcast", "Gather", "Scatter", "Allgather", "Alltoall", "Reduce",
                                        "Allreduce", "Scan", "Exscan", "Neighbor_", NULL};
    for (const char *const *n = names; *n; n++)
        if (begins(name, *n) && !begins(name, "Reduce_local"))
            return true;
    return false;
}

/* Functions of C are known by how they begin; libraries' own ones go on differently. */
static enum callname find_plain(const char *symbol, char *buf, size_t size)
{
    static const char *const prefixes[] = {"MPI_", "PMPI_", "PMIx_", "nccl", "shmem_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t len = strlen(prefixes[i]);
        bool is_c = !strcmp(prefixes[i], "shmem_");
        if (strncmp(symbol, prefixes[i], len) != 0)
            continue;
        if (is_c ? !islower((unsigned char)symbol[len]) : !isupper((unsigned char)symbol[len]))
            return CALLNAME_NONE;
        bool is_mpi = i < 2;
        if (is_mpi && begins(symbol + len, "File_")) /* that may be a file's doing */
            return CALLNAME_NONE;
        snprintf(buf, size, "%s", symbol + (i == 1));
        return is_mpi && is_mpis_collective(symbol + len) ? CALLNAME_COLLECTIVE : CALLNAME_MESSAGE;
    }
    return CALLNAME_NONE;
}

enum callname callname_find(const char *symbol, char *buf, size_t size)
{
    return begins(symbol, MANGLED) ? find_mangled(symbol, buf, size)
                                                          : find_plain(symbol, buf, size);
}

/* label.c - names that are the same in every run, instead of addresses and ids. See trace.h. */
#include "t/lib/nccltrace/trace.h"

#include <pthread.h>
#include <string.h>

enum { MAX = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char names[3][MAX][8]; /* of communicators, ids, memory */
static struct {
    ncclComm_t comm; /* NULL: it is gone */
    int number;
} comms[MAX];
static ncclUniqueId ids[MAX];
static struct {
    char *at;
    size_t n_bytes;
} memories[MAX];
static int n_comms, n_ids, n_memories;

static const char *name(int kind, int number)
{
    char *text = names[kind][number % MAX];
    snprintf(text, sizeof names[0][0], "%c%d", "cup"[kind], number % MAX);
    return text;
}

const char *label_comm(ncclComm_t c)
{
    int i = 0;
    if (!c)
        return "null";
    pthread_mutex_lock(&lock);
    while (i < n_comms && comms[i].comm != c)
        i++;
    if (i == n_comms && n_comms < MAX) {
        comms[i].comm = c;
        n_comms++;
    }
    const char *text = name(0, i);
    pthread_mutex_unlock(&lock);
    return text;
}

void label_forget(ncclComm_t c)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_comms; i++)
        if (comms[i].comm == c)
            comms[i].comm = NULL;
    pthread_mutex_unlock(&lock);
}

const char *label_id(const ncclUniqueId *id)
{
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < n_ids && memcmp(&ids[i], id, sizeof *id) != 0)
        i++;
    if (i == n_ids && n_ids < MAX)
        ids[n_ids++] = *id;
    const char *text = name(1, i);
    pthread_mutex_unlock(&lock);
    return text;
}

void label_memory(void *p, size_t n_bytes)
{
    pthread_mutex_lock(&lock);
    if (n_memories < MAX) {
        memories[n_memories].at = p;
        memories[n_memories++].n_bytes = n_bytes;
    }
    pthread_mutex_unlock(&lock);
}

const char *label_pointer(const void *p, char buf[32])
{
    snprintf(buf, 32, "%s", p ? "other" : "null");
    pthread_mutex_lock(&lock);
    for (int i = n_memories - 1; i >= 0; i--) {
        size_t at = (size_t)((const char *)p - memories[i].at);
        if ((const char *)p >= memories[i].at && at < memories[i].n_bytes) {
            snprintf(buf, 32, "%s+%zu", name(2, i), at);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return buf;
}

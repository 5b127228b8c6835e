#include "config.h" /* memfd_create, F_ADD_SEALS */

#include "runtime/ckpt/slots.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "runtime/base/io.h"
#include "runtime/ckpt/checksum.h"

#define MEMFD "ddp-snapshots"
#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define HEAD_BYTES 4096 /* a page, so that data begin with one */

/* In its page; the slots' data are behind both. */
struct head {
    uint64_t check; /* of all that follows; its bytes come last */
    uint64_t key;
    struct slots_seal seal;
};
_Static_assert(sizeof(struct head) <= HEAD_BYTES, "a head has a page");

static size_t data_bytes(size_t n_bytes)
{
    return (n_bytes + HEAD_BYTES - 1) / HEAD_BYTES * HEAD_BYTES;
}

size_t slots_bytes(size_t n_bytes)
{
    return SLOTS_N * (HEAD_BYTES + data_bytes(n_bytes));
}

static struct head *head(const struct slots *s, int i)
{
    return (struct head *)(s->map + (size_t)i * HEAD_BYTES);
}

char *slots_data(const struct slots *s, int i)
{
    return s->map + SLOTS_N * HEAD_BYTES + (size_t)i * data_bytes(s->bytes);
}

static uint64_t check_of(const struct head *h)
{
    return checksum_bytes(&h->key, sizeof *h - offsetof(struct head, key));
}

void slots_clear(struct slots *s, int i)
{
    struct head *h = head(s, i);
    h->key = ~s->key;
    h->check = ~check_of(h);
    atomic_thread_fence(memory_order_seq_cst); /* data may be written now */
}

void slots_seal(struct slots *s, int i, const struct slots_seal *seal)
{
    struct head *h = head(s, i);
    h->seal = *seal;
    h->key = s->key;
    atomic_thread_fence(memory_order_seq_cst);
    h->check = check_of(h);
}

bool slots_read(const struct slots *s, int i, struct slots_seal *ret)
{
    const struct head *h = head(s, i);
    if (h->key != s->key || h->check != check_of(h))
        return false;
    *ret = h->seal;
    return true;
}

bool slots_are_foreign(const struct slots *s)
{
    bool is_foreign = false;
    for (int i = 0; i < SLOTS_N; i++) {
        const struct head *h = head(s, i);
        bool is_own = h->key == s->key || h->key == ~s->key, is_cleared = h->check == ~check_of(h);
        is_foreign = is_foreign || (!is_own && !is_cleared); /* a seal may be of another size there: not checked */
    }
    return is_foreign;
}

static bool map(struct slots *ret, int fd, size_t n_bytes, uint64_t key)
{
    void *p = mmap(NULL, slots_bytes(n_bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return false;
    *ret = (struct slots){.map = p, .fd = fd, .bytes = n_bytes, .key = key};
    return true;
}

int slots_make(struct slots *ret, size_t n_bytes, uint64_t key, ddp_error_t *errp)
{
    int fd = memfd_create(MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || io_grow(fd, slots_bytes(n_bytes)) < 0 || fcntl(fd, F_ADD_SEALS, SIZE_SEALS | F_SEAL_SEAL) < 0 ||
        !map(ret, fd, n_bytes, key)) {
        error_errno(errp, "no memory for two snapshots of %zu bytes", n_bytes);
        io_close(fd);
        return -1;
    }
    memset(ret->map, 0, slots_bytes(n_bytes));
    for (int i = 0; i < SLOTS_N; i++)
        slots_clear(ret, i);
    return 0;
}

bool slots_adopt(struct slots *ret, int fd, size_t n_bytes, uint64_t key)
{
    struct stat st;
    int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & SIZE_SEALS) == SIZE_SEALS && fstat(fd, &st) == 0 &&
           (size_t)st.st_size == slots_bytes(n_bytes) && map(ret, fd, n_bytes, key);
}

int slots_close(struct slots *s)
{
    int fd = s->map ? s->fd : -1;
    if (s->map)
        munmap(s->map, slots_bytes(s->bytes));
    *s = (struct slots){.fd = -1};
    return fd;
}

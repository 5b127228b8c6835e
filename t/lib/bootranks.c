#include "t/lib/bootranks.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pmix/boot_wire.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"

char bootranks_token[2 * BOOT_TOKEN_BYTES + 1];
struct report *bootranks_report;

int bootranks_open(void **state)
{
    (void)state;
    size_t n_bytes = BOOTRANKS_MAX * sizeof *bootranks_report;
    void *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bootranks_report = p;
    return p == MAP_FAILED ? -1 : 0;
}

boot_server_t *bootranks_serve(const char *addr, int size)
{
    ddp_error_t e;
    assert_int_equal(io_random_hex(bootranks_token, BOOT_TOKEN_BYTES, &e), 0);
    boot_server_t *s = boot_server_create(addr, bootranks_token, size, &e);
    if (!s)
        fail_msg("%s", e.text);
    return s;
}

boot_server_t *bootranks_serve_unix(int size)
{
    char name[64] = "unix:@ddp-t-";
    assert_int_equal(io_random_hex(name + strlen(name), 16, NULL), 0);
    return bootranks_serve(name, size);
}

void bootranks_set_env(const char *addr, int rank, int size)
{
    char text[16];
    setenv("DDP_BOOT", "local", 1);
    setenv("DDP_BOOT_ADDR", addr, 1);
    setenv("DDP_BOOT_TOKEN", bootranks_token, 1);
    snprintf(text, sizeof text, "%d", rank);
    setenv("DDP_RANK", text, 1);
    snprintf(text, sizeof text, "%d", size);
    setenv("DDP_SIZE", text, 1);
}

pid_t bootranks_start(const boot_server_t *s, int rank, int size, struct report *r, bootranks_f *f)
{
    memset(r, 0, sizeof *r);
    r->rc = -99;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bootranks_set_env(boot_server_addr(s), rank, size);
        f(rank, size, r);
        _exit(0);
    }
    return pid;
}

void bootranks_drive(boot_server_t *s, pid_t *pid, int n)
{
    uint64_t deadline = deadline_in(PATIENCE_S);
    ddp_error_t e;
    for (int left = n; left > 0;) {
        if (boot_server_step(s, 10, &e) < 0)
            fail_msg("%s", e.text);
        for (int i = 0; i < n; i++)
            if (pid[i] && waitpid(pid[i], NULL, WNOHANG) == pid[i]) {
                pid[i] = 0;
                left--;
            }
        if (deadline_left_ns(deadline) == 0) {
            for (int i = 0; i < n; i++)
                if (pid[i])
                    kill(pid[i], SIGKILL);
            fail_msg("%d ranks did not end", left);
        }
    }
}

void bootranks_run(boot_server_t *s, int size, bootranks_f *f)
{
    pid_t pid[BOOTRANKS_MAX];
    for (int r = 0; r < size; r++)
        pid[r] = bootranks_start(s, r, size, &bootranks_report[r], f);
    bootranks_drive(s, pid, size);
}

void bootranks_assert_well(int size)
{
    for (int r = 0; r < size; r++)
        if (bootranks_report[r].rc != 0)
            fail_msg("rank %d of %d: rc %d: %s", r, size, bootranks_report[r].rc, bootranks_report[r].e.text);
}

int bootranks_call(const boot_server_t *s, int rank, int size)
{
    unsigned char hello[WIRE_HELLO_BODY];
    struct wire_addr a;
    assert_int_equal(wire_addr_parse(boot_server_addr(s), 0, &a, NULL), 0);
    int fd = wire_socket(&a, NULL);
    assert_int_equal(connect(fd, (struct sockaddr *)&a.sa, a.len), 0);
    memcpy(hello, WIRE_MAGIC, WIRE_MAGIC_LEN);
    wire_prove(bootranks_token, WIRE_HELLO, (char *)hello + WIRE_MAGIC_LEN);
    bytes_put32(hello + sizeof hello - 8, (uint32_t)rank);
    bytes_put32(hello + sizeof hello - 4, (uint32_t)size);
    bootranks_say(fd, WIRE_HELLO, hello, sizeof hello);
    return fd;
}

void bootranks_say(int fd, int type, const void *body, size_t n)
{
    unsigned char head[WIRE_HEAD];
    wire_head(head, (enum wire_type)type, n);
    assert_int_equal(io_send_all(fd, head, sizeof head, deadline_in(PATIENCE_S), "server", NULL), 0);
    assert_int_equal(io_send_all(fd, body, n, deadline_in(PATIENCE_S), "server", NULL), 0);
}

int bootranks_hear(boot_server_t *s, int fd, char body[256])
{
    unsigned char head[WIRE_HEAD];
    uint64_t deadline = deadline_in(PATIENCE_S);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (poll(&p, 1, 0) == 0 && deadline_left_ns(deadline) > 0)
        assert_int_equal(boot_server_step(s, 10, NULL), 0);
    if (io_recv_all(fd, head, sizeof head, deadline, "server", NULL) < 0)
        return 0;
    size_t n = bytes_get32(head) - 1;
    assert_true(n < 256);
    assert_int_equal(io_recv_all(fd, body, n, deadline, "server", NULL), 0);
    body[n] = 0;
    return head[4] == WIRE_PROOF ? bootranks_hear(s, fd, body) : head[4];
}

static unsigned char byte_of(int rank, size_t i)
{
    return (unsigned char)(rank * 37 + (int)(i % 251));
}

int bootranks_put(boot_t *b, const char *key, int rank, size_t n, ddp_error_t *e)
{
    static unsigned char data[BOOT_VALUE_MAX + 1];
    for (size_t i = 0; i < n; i++)
        data[i] = byte_of(rank, i);
    return boot_put(b, key, data, n, e);
}

static int check(boot_t *b, const char *key, int rank, size_t want, ddp_error_t *e)
{
    void *data;
    size_t n, bad = 0;
    if (boot_get(b, rank, key, &data, &n, deadline_in(PATIENCE_S), e) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        bad += ((unsigned char *)data)[i] != byte_of(rank, i);
    free(data);
    return n == want && !bad ? 0 : error_set(e, DDP_E_DATA, 1, "%s of %d: %zu bytes, %zu bad", key, rank, n, bad);
}

void bootranks_exchange(int rank, int size, struct report *r)
{
    static const struct {
        const char *key;
        size_t n;
    } values[] = {{"none", 0}, {"one", 1}, {"most", BOOT_VALUE_MAX}};
    boot_t *b = boot_open(deadline_in(PATIENCE_S), &r->e);
    r->rc = b && boot_rank(b) == rank && boot_size(b) == size ? 0 : -1;
    for (int i = 0; i < 3 && r->rc == 0; i++)
        r->rc = bootranks_put(b, values[i].key, rank, values[i].n, &r->e);
    for (int round = 0; round < 2 && r->rc == 0; round++)
        r->rc = boot_fence(b, deadline_in(PATIENCE_S), &r->e);
    for (int q = 0; q < size; q++)
        for (int i = 0; i < 3 && r->rc == 0; i++)
            r->rc = check(b, values[i].key, q, values[i].n, &r->e);
    boot_leave(b, NULL);
}

void bootranks_wait(boot_t *b, double timeout_s, struct report *r)
{
    uint64_t from = clock_ns();
    r->rc = boot_fence(b, deadline_in(timeout_s), &r->e);
    r->took_s = (double)(clock_ns() - from) / (double)NS_PER_S;
}

void bootranks_waits(int rank, int size, struct report *r)
{
    (void)rank;
    (void)size;
    boot_t *b = boot_open(deadline_in(PATIENCE_S), &r->e);
    if (b)
        bootranks_wait(b, 0.05, r);
    boot_leave(b, NULL);
}

void bootranks_only_opens(int rank, int size, struct report *r)
{
    (void)rank;
    (void)size;
    boot_t *b = boot_open(deadline_in(PATIENCE_S), &r->e);
    r->rc = b ? 0 : -1;
    boot_leave(b, NULL);
}


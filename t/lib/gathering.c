#include "t/unit/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "t/lib/gathering.h"

char node_log[8192], node_note[512];
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static void log_line(const char *line)
{
    pthread_mutex_lock(&log_lock);
    strcat(strcat(node_log, line), "\n");
    pthread_mutex_unlock(&log_lock);
}

static void note_line(const char *line)
{
    pthread_mutex_lock(&log_lock);
    snprintf(node_note, sizeof node_note, "%s", line);
    pthread_mutex_unlock(&log_lock);
}

void srun_begin(struct srun *s, double collect_s)
{
    ddp_error_t e = {0};
    node_log[0] = 0;
    *s = (struct srun){0};
    assert_int_equal(pipe(s->out), 0);
    s->gather = gather_create(&(struct gather_options){s->out[1], {0, 0}, collect_s}, &e);
    if (!s->gather || gather_start(s->gather, &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(gather_start(s->gather, &e), 0);
    snprintf(s->address, sizeof s->address, "%s", gather_address(s->gather));
}

const char *srun_end(struct srun *s)
{
    size_t n = 0;
    gather_destroy(s->gather);
    close(s->out[1]);
    for (ssize_t r; (r = read(s->out[0], s->printed + n, sizeof s->printed - 1 - n)) > 0;)
        n += (size_t)r;
    close(s->out[0]);
    return s->printed;
}

static const char *node_variable(const char *name, void *arg)
{
    const struct node *n = arg;
    if (!strcmp(name, GATHER_VARIABLE))
        return n->address;
    if (!strcmp(name, "SLURM_STEP_NODELIST"))
        return n->list;
    return strcmp(name, "SLURM_SRUN_COMM_HOST") ? NULL : n->host;
}

bool node_send(struct node *n)
{
    uint64_t deadline = deadline_in(n->wait_s > 0 ? n->wait_s : PATIENCE_S);
    struct gather_request r = {node_variable, n, n->name, deadline, log_line, note_line};
    n->is_printed = gather_send(&r, n->text);
    return n->is_printed;
}

static void *node_run(void *arg)
{
    node_send(arg);
    return NULL;
}

void node_begin(struct node *n, const char *address, const char *list, int number, const char *text)
{
    *n = (struct node){.address = address, .host = "127.0.0.1", .list = list, .text = text};
    snprintf(n->name, sizeof n->name, "n%d", number);
    assert_int_equal(pthread_create(&n->thread, NULL, node_run, n), 0);
}

bool node_end(struct node *n)
{
    assert_int_equal(pthread_join(n->thread, NULL), 0);
    return n->is_printed;
}

int knock(const char *address)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(address))};
    inet_pton(AF_INET, "127.0.0.1", &sa.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    return fd;
}

bool is_shut(int fd)
{
    char byte;
    ddp_error_t e;
    int rc = io_recv_all(fd, &byte, 1, deadline_in(PATIENCE_S), "srun", &e);
    close(fd);
    return rc < 0 && e.domain == DDP_E_PEER;
}

static unsigned char *put_head(unsigned char *p, const char *token, const uint32_t len[PART_COUNT])
{
    memcpy(p, token, TOKEN_LEN);
    p += TOKEN_LEN;
    for (int i = 0; i < PART_COUNT; i++, p += 4)
        bytes_put32(p, len[i]);
    return p;
}

void tell(int fd, const char *token, const uint32_t len[PART_COUNT], const char *body, size_t n)
{
    unsigned char m[HEAD_LEN + 256], *p = put_head(m, token, len);
    memcpy(p, body, n);
    assert_int_equal(io_send_all(fd, m, HEAD_LEN + n, deadline_in(PATIENCE_S), "srun", NULL), 0);
}

int say(const char *address, const char *token, const uint32_t len[PART_COUNT], const char *body, size_t n)
{
    int fd = knock(address);
    tell(fd, token, len, body, n);
    return fd;
}

void wait_for_srun(const char *address)
{
    char garbage[HEAD_LEN];
    memset(garbage, 0xa5, sizeof garbage);
    int fd = knock(address);
    assert_int_equal(io_send_all(fd, garbage, sizeof garbage, deadline_in(PATIENCE_S), "srun", NULL), 0);
    assert_true(is_shut(fd));
}

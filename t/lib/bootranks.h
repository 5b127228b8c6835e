/* bootranks.h - for tests of the `local` boot: real clients in processes of their own against a server that the test's
 * process drives. What fails fails the test (cmocka). */
#ifndef DDP_T_LIB_BOOTRANKS_H
#define DDP_T_LIB_BOOTRANKS_H

#include "t/unit/unit.h"

#include <sys/types.h>

#include "pmix/boot.h"
#include "pmix/boot_server.h"

enum { BOOTRANKS_MAX = 16 };
#define PATIENCE_S 30.0 /* no test waits that long unless something is broken */

/* What rank r tells the test's process: bootranks_report[r], in shared memory. */
struct report {
    int rc;
    double took_s;
    ddp_error_t e;
    volatile int may_go_on; /* set by the test's process */
};
extern struct report *bootranks_report;
extern char bootranks_token[2 * BOOT_TOKEN_BYTES + 1]; /* of the server that was made last */

int bootranks_open(void **state); /* setup of the group of tests */

boot_server_t *bootranks_serve(const char *addr, int size); /* with a new token */
boot_server_t *bootranks_serve_unix(int size);
void bootranks_set_env(const char *addr, int rank, int size);

/* What a rank does. */
typedef void bootranks_f(int rank, int size, struct report *r);

pid_t bootranks_start(const boot_server_t *s, int rank, int size, struct report *r, bootranks_f *f);
void bootranks_drive(boot_server_t *s, pid_t *pid, int n); /* until the n processes have ended */
void bootranks_run(boot_server_t *s, int size, bootranks_f *f);
void bootranks_assert_well(int size);

/* ---- a rank by hand, in the test's own process ---- */

int bootranks_call(const boot_server_t *s, int rank, int size); /* its connection: it has said hello */
void bootranks_say(int fd, int type, const void *body, size_t n);

/* The type of what the server answers, steps of its own included; its body's n bytes go to `body`. 0: it has closed. */
int bootranks_hear(boot_server_t *s, int fd, char body[256]);

/* ---- what several tests' ranks do ---- */

int bootranks_put(boot_t *b, const char *key, int rank, size_t n, ddp_error_t *e); /* n bytes that tell the rank */
void bootranks_wait(boot_t *b, double timeout_s, struct report *r);                /* a fence, reported */
bootranks_f bootranks_exchange;   /* values of several sizes, all checked */
bootranks_f bootranks_waits;      /* opens, and waits for 50 ms */
bootranks_f bootranks_only_opens;

#endif

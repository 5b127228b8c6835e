/* unit.h - what every unit test includes first: cmocka and the headers that it wants before itself. */
#ifndef DDP_T_UNIT_H
#define DDP_T_UNIT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/error.h"

/* The error's text contains `part`. */
#define assert_error_has(e, part)                                                                                      \
    do {                                                                                                               \
        if (!strstr((e).text, (part)))                                                                                 \
            fail_msg("error \"%s\" lacks \"%s\"", (e).text, (part));                                                   \
    } while (0)

/* In a test: the rest of it is not for who lacks something. Root, for whom contrib/deps installs all, has a test that
 * was skipped, which Debian 12's cmocka calls "not ok"; another user, who builds packages, one that has passed. */
#define unit_needs(has, what)                                                                                          \
    do {                                                                                                               \
        if (!(has) && geteuid() == 0)                                                                                  \
            skip();                                                                                                    \
        if (!(has)) {                                                                                                  \
            printf("# %s: not run, for want of %s\n", __func__, what);                                                 \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

/* For root: as a user that is none of ours. Of a unix socket the kernel notes who it was at connect, and at listen. */
#define unit_as_another_user(statement)                                                                                \
    do {                                                                                                               \
        assert_int_equal(seteuid(65534), 0);                                                                           \
        statement;                                                                                                     \
        assert_int_equal(seteuid(0), 0);                                                                               \
    } while (0)

/* An allocator that has none, as for json_set_alloc_funcs. */
static inline void *unit_no_memory(size_t n_bytes)
{
    (void)n_bytes;
    errno = ENOMEM;
    return NULL;
}

/* The descriptor that this process would get next: the same as before where none was lost. */
static inline int unit_next_descriptor(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

#define UNIT_MAIN(tests)                                                                                               \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return cmocka_run_group_tests(tests, NULL, NULL);                                                              \
    }

#endif

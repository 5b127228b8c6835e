/* boot_wire.h - the protocol of the `local` boot: its frames and its addresses. Private to pmix/.
 *
 * A frame is a length (4 bytes, little-endian: of all that follows), a type (1 byte) and a body. The client speaks,
 * the server answers HELLO, FENCE, GET and WHO with one frame each; PUT and BYE have no answer. ERROR can come
 * in place of any answer, but the first. Until a HELLO with the right proof the server believes nothing and says
 * nothing: a stranger sees its connection closed. The client believes nothing before the server's own proof: where a
 * server has ended, its port is anybody's. Both proofs follow from the token, which neither tells.
 *
 *   client                                         server
 *   HELLO  magic[8] proof[64] rank[4] size[4]      PROOF proof[64], at once, and then WELCOME
 *   PUT    key_len[1] key data
 *   FENCE                                          DONE, once every rank has sent FENCE
 *   GET    rank[4] key                             VALUE data
 *   WHO                                            LATE text: which ranks the fence waits for
 *   BYE    [text]: why, where the rank gives up
 *                                                  ERROR domain[4] code[4] text
 *
 * An address is unix:@NAME (abstract), unix:/PATH or tcp:HOST:PORT (HOST may be [IPv6]). Proofs go over TCP in the
 * clear: TCP is for networks whose traffic strangers cannot read. */
#ifndef DDP_PMIX_BOOT_WIRE_H
#define DDP_PMIX_BOOT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "pmix/boot.h"

#define WIRE_MAGIC "ddpboot2" /* 8 bytes; the last one is the version */
#define WIRE_MAGIC_LEN 8
#define WIRE_TOKEN_LEN 64     /* hexadecimal digits, of a proof, too */
#define WIRE_HEAD 5           /* length and type */
#define WIRE_HELLO_BODY (WIRE_MAGIC_LEN + WIRE_TOKEN_LEN + 8)
#define WIRE_BODY_MAX (1 + BOOT_KEY_MAX + BOOT_VALUE_MAX)
#define WIRE_SIZE_MAX (1 << 20) /* ranks */

enum wire_type {
    WIRE_HELLO = 1, WIRE_PUT, WIRE_FENCE, WIRE_GET, WIRE_WHO, WIRE_BYE, /* client */
    WIRE_WELCOME = 32, WIRE_DONE, WIRE_VALUE, WIRE_LATE, WIRE_ERROR, WIRE_PROOF /* server */
};

/* The head of a frame with a body of n bytes. */
void wire_head(unsigned char head[WIRE_HEAD], enum wire_type type, size_t body_n);

bool wire_token_ok(const char *token); /* 64 lower-case hexadecimal digits */

/* n words of 16 digits, which nobody can say who has not the key, 2 * SIPHASH_KEY_LEN hexadecimal digits. Of the text
 * WIRE_HASH_MAX bytes count. Pure. */
#define WIRE_HASH_MAX 1100
void wire_hash(const char *key, const char *text, int n, char *ret);

/* What shows who sends it in a HELLO, or a PROOF, that he has the token. Pure. */
void wire_prove(const char *token, enum wire_type type, char ret[WIRE_TOKEN_LEN + 1]);

struct wire_addr {
    struct sockaddr_storage sa;
    socklen_t len;
};

static inline bool wire_is_unix(const struct wire_addr *a)
{
    return a->sa.ss_family == AF_UNIX;
}

/* Parses an address. 0, or -1 with an error that names the text. Host names are resolved, until `deadline`
 * (clock.h). */
int wire_addr_parse(const char *text, uint64_t deadline, struct wire_addr *ret, ddp_error_t *errp);

/* A non-blocking, close-on-exec socket for the address, or -1. */
int wire_socket(const struct wire_addr *a, ddp_error_t *errp);

/* True if the other end of a unix socket runs under our uid; always true on TCP. */
bool wire_same_user(int fd, const struct wire_addr *a);

#endif

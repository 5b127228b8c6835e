/* impl.h - the protocol between srun and a task, and the server that gather.c's thread runs.
 *
 * A task sends the token, three lengths (bytes.h), and then three texts of these lengths: its node's name, the step's
 * node list, its table. srun answers with one byte when the table is printed, or closes the connection. */
#ifndef DDP_SPANK_GATHER_IMPL_H
#define DDP_SPANK_GATHER_IMPL_H

#include "spank/gather/gather.h"

#define TOKEN_BYTES 32
#define TOKEN_LEN (2 * TOKEN_BYTES) /* in hexadecimal, as it is sent */
#define HEAD_LEN (TOKEN_LEN + 12)
#define ANSWER_PRINTED 'P'

enum { PART_NODE, PART_LIST, PART_TEXT, PART_COUNT };

struct server_options {
    int listen_fd, stop_fd, out_fd; /* borrowed; stop_fd becomes readable when the server is to stop */
    double collect_s;
    char token[TOKEN_LEN + 1];
};

/* Serves until the table is printed, stop_fd is readable, or memory is short. */
void gather_serve(const struct server_options *o);

#endif

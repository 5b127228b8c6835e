/* door.h - where a program finds its guard (spank/guard), and what they say: an abstract unix socket, whose name the
 * guard's plugin gives to the program in DOOR_VARIABLE. Both look at the other's user. The program begins with
 * DOOR_HELLO, a group of another framework in it (pmix/boot.h: boot_given) with DOOR_HELLO_GROUP: that gets neither
 * card nor memory. Then both send frames (frame.h). Pure.
 *
 *   guard to program   DOOR_WELCOME  rank, size, the step's nodes: 4 bytes each
 *                      DOOR_CARD     rank 0's card (pmix/boot_host.h), once it is known
 *                      DOOR_DEATH    the step ends: the rank that died first, 4 bytes, and words
 *                      DOOR_KEEP     where programs may be started again, for each of DOOR_MEMORIES kinds of memory:
 *                                    the generation and the kind, 4 bytes each, and what the program of this number
 *                                    had kept in the generation before, as a descriptor, if any
 *   program to guard   DOOR_CARD     from rank 0
 *                      DOOR_CAUSE    whom libddp has found to be the cause of its failure: the rank, 4 bytes,
 *                                    and words
 *                      DOOR_KEEP     the kind, 4 bytes, and memory to be kept for the next generation, as a descriptor;
 *                                    none: nothing is */
#ifndef DDP_BASE_DOOR_H
#define DDP_BASE_DOOR_H

#include <sys/socket.h>
#include <sys/un.h>

#define DOOR_VARIABLE "DDP_GUARD_DOOR"
#define DOOR_HELLO "ddp guard door 1"
#define DOOR_HELLO_GROUP "ddp guard door g"
#define DOOR_HELLO_LEN 16
#define DOOR_HELLO_SAME 15 /* bytes of both */
#define DOOR_WELCOME_LEN 12
#define DOOR_NAME_MAX 32 /* bytes, with the 0 */
#define DOOR_MEMORIES 2  /* runtime/base/handover.h */

enum door_kind { DOOR_WELCOME, DOOR_CARD, DOOR_DEATH, DOOR_CAUSE, DOOR_KEEP };

#define DOOR_OF_RANK "rank"
#define DOOR_OF_NODE "node" /* where guards of a node find its leader (spank/guards) */

/* The name of a socket of a step's guards, which only who has the step's token (spank/guards) knows before somebody
 * listens there; those that he sees say nothing of others. Returns buf. */
const char *door_name(const char *token, const char *whose, int number, char buf[DOOR_NAME_MAX]);

/* The address of an abstract socket. Returns its length; 0: the name is too long. */
socklen_t door_address(const char *name, struct sockaddr_un *ret);

#endif

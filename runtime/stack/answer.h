/* answer.h - what ddp-waits says of a process: ANSWER_BYTES, of which what is behind the text is 0. */
#ifndef DDP_STACK_ANSWER_H
#define DDP_STACK_ANSWER_H

#define ANSWER_PROGRAM "ddp-waits" /* stands in ddp.so's folder */
#define ANSWER_BYTES 96
#define ANSWER_CALL 'c'  /* then: the calls of callname.h that its threads wait in: "gloo::allreduce" */
#define ANSWER_OTHER 'o' /* there is none; then: the C library's function that its first thread waits in, "" if none */
#define ANSWER_NONE '-'  /* a guard's, whose task has no program */

#endif

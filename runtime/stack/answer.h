/* answer.h - what ddp-waits says of processes: ANSWER_BYTES, of which what is behind the text is 0. */
#ifndef DDP_STACK_ANSWER_H
#define DDP_STACK_ANSWER_H

#define ANSWER_PROGRAM "ddp-waits" /* stands in ddp.so's folder */
#define ANSWER_BYTES 96
#define ANSWER_COLLECTIVE 'c' /* then: the collective that they wait in, "gloo::allreduce" */
#define ANSWER_CALL 'm'  /* then: other calls of callname.h, or several: "c10d::TCPStore", "MPI_Recv and MPI_Send" */
#define ANSWER_OTHER 'o' /* then: the C library's function that the first one waits in; "": none, or it is not known */
#define ANSWER_NONE '-'  /* a guard's, whose task has no program */

#endif

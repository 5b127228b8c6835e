/* callname.h - by its symbol, whether a function is a call in which ranks wait for each other. Pure. */
#ifndef DDP_STACK_CALLNAME_H
#define DDP_STACK_CALLNAME_H

#include <stddef.h>

enum callname {
    CALLNAME_NONE,
    CALLNAME_INNER,      /* below one, a collective mostly, whose own symbol may be missing: "gloo" */
    CALLNAME_MESSAGE,    /* others may rightly be in another: "MPI_Recv", "c10d::TCPStore" */
    CALLNAME_COLLECTIVE, /* all of a group must be in the same: "gloo::allreduce", "MPI_Bcast" */
};

/* symbol: as an ELF file has it, of gloo's, MPI's, NCCL's, PMIx's or OpenSHMEM's calls, or of PyTorch's stores and
 * messages. The name in buf has no arguments, nor the P of PMPI, and is cut where buf is too short; of CALLNAME_NONE
 * buf is as it was. */
enum callname callname_find(const char *symbol, char *buf, size_t size);

#endif

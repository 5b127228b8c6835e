/* network.h - a network of a unit test's own: others, and what is left of their connections for a minute, take no ports
 * there. */
#ifndef DDP_T_LIB_NETWORK_H
#define DDP_T_LIB_NETWORK_H

/* This process and those that it starts from then on, which have loopback's addresses alone. For root: another user
 * stays in the machine's. */
void network_enter_own(void);

#endif

#include "runtime/base/door.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *door_name(const char *token, int rank, char buf[DOOR_NAME_MAX])
{
    snprintf(buf, DOOR_NAME_MAX, "ddp-guard-%.*s-rank%d", DOOR_TOKEN_SHOWN, token, rank);
    return buf;
}

socklen_t door_address(const char *name, struct sockaddr_un *ret)
{
    size_t n = strlen(name);
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (n == 0 || n >= sizeof ret->sun_path)
        return 0;
    memcpy(ret->sun_path + 1, name, n);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

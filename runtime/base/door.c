#include "runtime/base/door.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/siphash.h"

const char *door_name(const char *token, const char *whose, int number, char buf[DOOR_NAME_MAX])
{
    unsigned char key[SIPHASH_KEY_LEN];
    char text[32];
    siphash_key(token, key);
    int n = snprintf(text, sizeof text, "%s %d", whose, number);
    snprintf(buf, DOOR_NAME_MAX, "ddp-guard-%016llx", (unsigned long long)siphash(key, text, (size_t)n));
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

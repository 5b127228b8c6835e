#include "spank/net/port.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/num.h"

int port_derive(const struct port_facts *f, struct port_range range)
{
    uint64_t n = (uint64_t)(range.max - range.min) + 1;
    uint64_t block = n < PORT_STEPS_PER_JOB ? n : PORT_STEPS_PER_JOB;
    n -= n % block;
    uint64_t slot = f->job * (block + 1) + f->draw * block + f->step + f->restart * (n / 2 + 1);
    return range.min + (int)(slot % n);
}

int port_derive_other(const struct port_facts *f, const char *what, int number, int n, struct port_range range)
{
    char text[64];
    struct port_facts other = *f;
    int length = snprintf(text, sizeof text, "%s %d %d %u", what, number, n, f->draw);
    other.draw = (uint32_t)siphash(f->key, text, (size_t)length);
    return port_derive(&other, range);
}

void port_take_secrets(struct port_facts *f, const char *draw, const char *token)
{
    f->draw = draw ? port_draw_parse(draw) : 0;
    if (token && strlen(token) >= (size_t)2 * SIPHASH_KEY_LEN)
        siphash_key(token, f->key);
}

uint32_t port_draw_parse(const char *text)
{
    uint64_t draw;
    return num_u64(text, UINT32_MAX, &draw) < 0 ? 0 : (uint32_t)draw;
}

int port_first_reserved(const char *text, int *ret, ddp_error_t *errp)
{
    char first[8] = "";
    size_t n = strcspn(text, "-,");
    if (n < sizeof first)
        memcpy(first, text, n);
    if (num_int(first, 1, 65535, ret) < 0)
        return error_set(errp, DDP_E_DATA, EINVAL, "SLURM_STEP_RESV_PORTS=%.64s does not begin with a port", text);
    return 0;
}

bool port_ephemeral_parse(const char *text, struct port_range *ret)
{
    struct port_range r;
    if (sscanf(text, "%d %d", &r.min, &r.max) != 2 || r.min < 0 || r.max < r.min || r.max > 65535)
        return false;
    *ret = r;
    return true;
}

bool port_in(int port, struct port_range range)
{
    return port >= range.min && port <= range.max;
}

bool port_is_ephemeral(int port, const struct port_ephemeral *e)
{
    return port_in(port, e->range) && !num_list_has(e->reserved, port, port);
}

#include "spank/keys/site.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/begins.h"
#include "runtime/base/io.h"
#include "runtime/base/json_read.h"
#include "spank/keys/stop_key.h"

static size_t line_at(const char *text, const char *p)
{
    size_t line = 1;
    for (; text < p; text++)
        line += *text == '\n';
    return line;
}

/* The line of "key" : in text[0..n); 1 where it was spelled with escapes. */
static size_t line_of(const char *text, size_t n, const char *key)
{
    const char *end = text + n;
    size_t len = strlen(key);
    for (const char *p = text; (p = memchr(p, '"', (size_t)(end - p))); p++) {
        const char *q = p + 1 + len;
        if (q >= end || memcmp(p + 1, key, len) || *q != '"')
            continue;
        for (q++; q < end && strchr(" \t\r\n", *q); q++)
            ;
        if (q < end && *q == ':')
            return line_at(text, p);
    }
    return 1;
}

static const char *const type_name[] = {
    [KNOB_BOOL] = "true or false", [KNOB_INT] = "a whole number",   [KNOB_DOUBLE] = "a number",
    [KNOB_ENUM] = "a string",      [KNOB_STRING] = "a string",    [KNOB_PATH] = "a string",
};

/* The value as knob_parse reads it, into buf; NULL: the JSON type is not the key's. */
static const char *value_text(const struct knob *k, const json_t *v, char *buf, size_t size)
{
    switch (k->type) {
    case KNOB_BOOL:
        return json_is_boolean(v) ? json_is_true(v) ? "on" : "off" : NULL;
    case KNOB_INT:
        if (!json_is_integer(v))
            return NULL;
        snprintf(buf, size, "%lld", (long long)json_integer_value(v));
        return buf;
    case KNOB_DOUBLE:
        if (!json_is_number(v))
            return NULL;
        snprintf(buf, size, "%.15g", json_number_value(v));
        return buf;
    case KNOB_ENUM:
    case KNOB_STRING:
    case KNOB_PATH:
        return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v) ? json_string_value(v) : NULL;
    }
    return NULL;
}

static int parse_key(const char *name, const json_t *v, const char *source, struct keys *o, ddp_error_t *errp)
{
    char text[64];
    const struct knob *k = knob_find(ddp_keys, KEY_COUNT, name);
    if (!k || strcmp(k->name, name))
        return keys_unknown(name, KEY_COUNT, DDP_E_DATA, source, "ddp.json(5) lists them", errp);
    const char *value = value_text(k, v, text, sizeof text);
    if (!value)
        return error_set(errp, DDP_E_DATA, EINVAL, "%s: %s: must be %s", source, name, type_name[k->type]);
    if (knob_parse(k, value, source, &o->key[k - ddp_keys], NULL) < 0) {
        char range[64];
        if (k->type == KNOB_STRING)
            return error_set(errp, DDP_E_DATA, E2BIG, "%s: %s: %.64s is too long: %zu bytes are allowed", source, name,
                             value, knob_text_max(k));
        return error_set(errp, DDP_E_DATA, EINVAL, "%s: %s: %.64s is not allowed; it may be %s", source, name, value,
                         knob_range(k, range, sizeof range));
    }
    o->key[k - ddp_keys].source = SITE_SOURCE;
    return 0;
}

/* A port as it would be with the default for what the file leaves out; 0: there is none. */
static int port_of(const struct keys *o, enum ddp_key key)
{
    return o->key[key].is_set ? (int)o->key[key].i : ddp_keys[key].def ? atoi(ddp_keys[key].def) : 0;
}

static int check_range(const struct keys *o, enum ddp_key min, enum ddp_key max, const char *text, size_t n,
                       const char *file, ddp_error_t *errp)
{
    int low = port_of(o, min), high = port_of(o, max);
    const char *names[] = {ddp_keys[min].name, ddp_keys[max].name}, *key = names[o->key[min].is_set ? 0 : 1];
    if (!low != !high)
        return error_set(errp, DDP_E_DATA, ERANGE, "%s:%zu: %s: %s and %s make one range; give both", file,
                         line_of(text, n, key), key, names[0], names[1]);
    if (low <= high)
        return 0;
    return error_set(errp, DDP_E_DATA, ERANGE, "%s:%zu: %s: %s (%d) is above %s (%d); give both", file,
                     line_of(text, n, key), key, names[0], low, names[1], high);
}

static int check_ports(const struct keys *o, const char *text, size_t n, const char *file, ddp_error_t *errp)
{
    return check_range(o, KEY_PORT_MIN, KEY_PORT_MAX, text, n, file, errp) < 0
               ? -1
               : check_range(o, KEY_SRUN_PORT_MIN, KEY_SRUN_PORT_MAX, text, n, file, errp);
}

static int check_stop(const struct keys *o, const char *text, size_t n, const char *file, ddp_error_t *errp)
{
    char source[160];
    struct stop_key stop;
    ddp_error_t e;
    snprintf(source, sizeof source, "%.120s:%zu", file, line_of(text, n, ddp_keys[KEY_STOP].name));
    if (!o->key[KEY_STOP].is_set || stop_key_parse(o->key[KEY_STOP].text, source, &stop, &e) == 0)
        return 0;
    return error_set(errp, DDP_E_DATA, EINVAL, "%s", e.text);
}

static int check_restarts(const struct keys *o, const char *text, size_t n, const char *file, ddp_error_t *errp)
{
    const char *key = ddp_keys[o->key[KEY_SPARES].i > 0 ? KEY_SPARES : KEY_MIN_NODES].name;
    if (!keys_are_elastic(o) || o->key[KEY_RESTARTS].i > 0)
        return 0;
    return error_set(errp, DDP_E_DATA, EINVAL, "%s:%zu: %s is for programs that are started again: give restarts, too",
                     file, line_of(text, n, key), key);
}

static int parse_object(const json_t *root, const char *text, size_t n, const char *file, struct keys *o,
                        ddp_error_t *errp)
{
    const char *name;
    json_t *v;
    if (!json_is_object(root))
        return error_set(errp, DDP_E_DATA, EINVAL, "%s:1: must be one JSON object: { \"KEY\": VALUE, ... }", file);
    json_object_foreach((json_t *)root, name, v) {
        char source[160];
        snprintf(source, sizeof source, "%.120s:%zu", file, line_of(text, n, name));
        if (parse_key(name, v, source, o, errp) < 0)
            return -1;
    }
    if (check_stop(o, text, n, file, errp) < 0 || check_restarts(o, text, n, file, errp) < 0)
        return -1;
    return check_ports(o, text, n, file, errp);
}

int site_parse(const char *text, size_t n, const char *file, struct keys *ret, ddp_error_t *errp)
{
    json_error_t je;
    struct keys o = {.mode = DDP_MODE_UNSET};
    if (n > SITE_BYTES_MAX)
        return error_set(errp, DDP_E_DATA, EFBIG, "%s: longer than %d bytes", file, SITE_BYTES_MAX);
    json_t *root = json_read(text, n, JSON_REJECT_DUPLICATES, &je);
    if (!root && errno == ENOMEM)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "%s: %s", file, je.text);
    if (!root)
        return error_set(errp, DDP_E_DATA, EINVAL, "%s:%d: not JSON: %s", file, je.line > 0 ? je.line : 1, je.text);
    int rc = parse_object(root, text, n, file, &o, errp);
    json_decref(root);
    if (rc == 0)
        *ret = o;
    return rc;
}

static int check_owner(int fd, const char *file, ddp_error_t *errp)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_errno(errp, "site file %s", file);
    if (!S_ISREG(st.st_mode))
        return error_set(errp, DDP_E_DATA, EINVAL, "site file %s is not a regular file", file);
    if (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)))
        return error_set(errp, DDP_E_DATA, EPERM,
                         "site file %s must belong to root and be writable by root alone: chown root, chmod 644", file);
    return 0;
}

int site_load(const char *file, struct keys *ret, bool *ret_missing, ddp_error_t *errp)
{
    int rc = -1;
    char *text = NULL;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT) {
        *ret_missing = true;
        return 0;
    }
    if (fd < 0)
        return error_errno(errp, "site file %s", file);
    if (check_owner(fd, file, errp) < 0)
        goto out;
    text = malloc(SITE_BYTES_MAX + 1);
    ssize_t n = text ? io_read_up_to(fd, text, SITE_BYTES_MAX + 1) : -1;
    if (n < 0) {
        error_errno(errp, "site file %s", file);
        goto out;
    }
    rc = site_parse(text, (size_t)n, file, ret, errp);
    if (rc == 0)
        *ret_missing = false;
out:
    free(text);
    io_close(fd);
    return rc;
}

const char *site_argument(const char *text)
{
    static const char key[] = "site=";
    const char *path = text + strlen(key);
    return begins(text, key) && *path == '/' && strlen(path) < PATH_MAX ? path : NULL;
}

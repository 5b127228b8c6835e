/* site.h - the site's policy: one JSON object, its keys those of keys.h; the argument that names its file. Pure, except
 * for site_load.
 *
 *   { "bind": "none", "port_min": 21000, "port_max": 21999 }
 *
 * Strict: an unknown key, a wrong type, a value out of range, a key given twice or text after the object is an error
 * that names file, line and key. on|off keys take true and false, numbers are JSON numbers, other values are
 * strings. */
#ifndef DDP_SPANK_KEYS_SITE_H
#define DDP_SPANK_KEYS_SITE_H

#include <stdbool.h>
#include <stddef.h>

#include "spank/keys/keys.h"

#define SITE_BYTES_MAX 65536

/* Parses text[0..n), called `file` in errors, into *ret (mode stays DDP_MODE_UNSET; the source of every key is "site
 * file"). 0, or -1 with DDP_E_DATA and *ret untouched. */
int site_parse(const char *text, size_t n, const char *file, struct keys *ret, ddp_error_t *errp);

/* Reads and parses the file. *ret_missing: there is no such file, which is no error (*ret is then untouched), since
 * nodes of a configless cluster have none. Refuses a file that is not a regular file, is too long, does not belong to
 * root, or can be written by group or others, because then someone else than the site may have written it. */
int site_load(const char *file, struct keys *ret, bool *ret_missing, ddp_error_t *errp);

/* The path in an argument of ddp.so, "site=/PATH", borrowed from it; NULL: it is another argument, which is refused, or
 * its path has PATH_MAX bytes or more. */
const char *site_argument(const char *text);

#endif

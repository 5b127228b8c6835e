#include "topology/xml.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define SPACE " \t\r\n"

struct name {
    const char *text;
    size_t len;
};

struct reader {
    const char *start, *p, *end; /* *end is a NUL */
    const char *what;
    int major_max;
    FILE *out;
    struct name open[XML_DEPTH_MAX];
    size_t depth;
    bool has_root;
    ddp_error_t *errp;
};

static int bad(const struct reader *r, const char *why)
{
    size_t line = 1;
    for (const char *p = r->start; p < r->p; p++)
        line += *p == '\n';
    return error_set(r->errp, DDP_E_DATA, EINVAL, "%s is no topology that hwloc wrote: line %zu: %s", r->what, line,
                     why);
}

static void skip_space(struct reader *r)
{
    r->p += strspn(r->p, SPACE);
}

static bool take(struct reader *r, const char *token)
{
    size_t n = strlen(token);
    if (strncmp(r->p, token, n) != 0)
        return false;
    r->p += n;
    return true;
}

static int skip_past(struct reader *r, const char *token, const char *why)
{
    const char *at = strstr(r->p, token);
    if (!at)
        return bad(r, why);
    r->p = at + strlen(token);
    return 0;
}

static int read_name(struct reader *r, const char *characters, struct name *ret)
{
    *ret = (struct name){r->p, strspn(r->p, characters)};
    if (ret->len == 0)
        return bad(r, "a name belongs here, of letters that hwloc uses");
    r->p += ret->len;
    return 0;
}

static bool is_name(const struct name *name, const char *text)
{
    return strlen(text) == name->len && !memcmp(name->text, text, name->len);
}

/* ---- values of attributes ---- */

static void put_escaped(FILE *out, unsigned char c)
{
    switch (c) {
    case '"': fputs("&quot;", out); break;
    case '&': fputs("&amp;", out); break;
    case '<': fputs("&lt;", out); break;
    case '>': fputs("&gt;", out); break;
    case '\n': fputs("&#10;", out); break;
    case '\r': fputs("&#13;", out); break;
    case '\t': fputs("&#9;", out); break;
    default: putc_unlocked(c, out);
    }
}

static void put_utf8(FILE *out, unsigned long c)
{
    static const struct {
        unsigned long below;
        unsigned char lead;
    } form[] = {{0x80, 0}, {0x800, 0xc0}, {0x10000, 0xe0}, {0x110000, 0xf0}};
    size_t more = 0; /* bytes after the first */
    while (c >= form[more].below)
        more++;
    if (more == 0)
        put_escaped(out, (unsigned char)c);
    else
        putc_unlocked((int)(form[more].lead | c >> 6 * more), out);
    while (more-- > 0)
        putc_unlocked((int)(0x80 | (c >> 6 * more & 0x3f)), out);
}

/* At "&": a reference to a character. */
static int put_reference(struct reader *r)
{
    static const struct {
        const char *text;
        char c;
    } known[] = {{"&quot;", '"'}, {"&apos;", '\''}, {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (take(r, known[i].text)) {
            put_escaped(r->out, (unsigned char)known[i].c);
            return 0;
        }
    bool is_hex = !strncmp(r->p, "&#x", 3);
    const char *digits = r->p + (is_hex ? 3 : 2);
    size_t n = strspn(digits, is_hex ? "0123456789abcdefABCDEF" : "0123456789");
    if (strncmp(r->p, "&#", 2) != 0 || n == 0 || n > 7 || digits[n] != ';')
        return bad(r, "an unknown &reference;");
    unsigned long c = strtoul(digits, NULL, is_hex ? 16 : 10);
    if (c > 0x10ffff || (c < ' ' && c != '\n' && c != '\r' && c != '\t'))
        return bad(r, "a &reference; to no character");
    put_utf8(r->out, c);
    r->p = digits + n + 1;
    return 0;
}

static int copy_value(struct reader *r)
{
    char quote = *r->p;
    if (quote != '"' && quote != '\'')
        return bad(r, "the value of an attribute belongs in quotes");
    fputs("=\"", r->out);
    for (r->p++; *r->p != quote;) {
        if (r->p == r->end || *r->p == '<')
            return bad(r, "the quotes of a value are not closed");
        if (*r->p != '&')
            put_escaped(r->out, (unsigned char)*r->p++);
        else if (put_reference(r) < 0)
            return -1;
    }
    r->p++;
    putc_unlocked('"', r->out);
    return 0;
}

static int copy_attribute(struct reader *r)
{
    struct name name;
    if (read_name(r, LOWER "_", &name) < 0)
        return -1;
    skip_space(r);
    if (!take(r, "="))
        return bad(r, "an attribute has no value");
    skip_space(r);
    fprintf(r->out, " %.*s", (int)name.len, name.text);
    return copy_value(r);
}

/* ---- elements ---- */

/* At the attributes of the outermost element: hwloc looks for its version="2.0", or none (hwloc 1), and nothing
 * else. */
static int copy_root(struct reader *r)
{
    int major, minor, n = 0;
    skip_space(r);
    if (*r->p == '>')
        return 0;
    if (sscanf(r->p, "version = %*1[\"']%3d.%3d%n", &major, &minor, &n) != 2 || n == 0 || major < 0 || minor < 0 ||
        (r->p[n] != '"' && r->p[n] != '\''))
        return bad(r, "<topology> has another attribute than version=\"2.0\"");
    if (major > r->major_max)
        return error_set(r->errp, DDP_E_DATA, EINVAL,
                         "%s is of hwloc %d.%d's format, and the hwloc here reads %d's: write it with lstopo"
                         " --export-xml-flags v2", r->what, major, minor, r->major_max);
    r->p += n + 1;
    skip_space(r);
    fprintf(r->out, " version=\"%d.%d\"", major, minor);
    return 0;
}

static int open_element(struct reader *r)
{
    struct name name;
    if (read_name(r, LOWER "0123456789_", &name) < 0)
        return -1;
    if (r->depth == 0 && (r->has_root || !is_name(&name, "topology")))
        return bad(r, "a record is one <topology>");
    if (r->depth == XML_DEPTH_MAX)
        return bad(r, "more elements within elements than any machine has");
    fprintf(r->out, "<%.*s", (int)name.len, name.text);
    if (r->depth == 0 && copy_root(r) < 0)
        return -1;
    r->has_root = true;
    while (*r->p && strchr(SPACE, *r->p)) {
        skip_space(r);
        if (*r->p == '>' || *r->p == '/')
            break;
        if (copy_attribute(r) < 0)
            return -1;
    }
    if (r->depth > 0 && take(r, "/>")) {
        fputs("/>\n", r->out);
        return 0;
    }
    if (!take(r, ">"))
        return bad(r, "an element's beginning does not end in >");
    r->open[r->depth++] = name;
    putc_unlocked('>', r->out);
    return 0;
}

static int close_element(struct reader *r)
{
    struct name name;
    if (read_name(r, LOWER "0123456789_", &name) < 0)
        return -1;
    skip_space(r);
    const struct name *open = r->depth > 0 ? &r->open[r->depth - 1] : NULL;
    if (!open || open->len != name.len || memcmp(open->text, name.text, name.len) != 0 || !take(r, ">"))
        return bad(r, "an element ends that is not the last one begun");
    r->depth--;
    fprintf(r->out, "</%.*s>\n", (int)name.len, name.text);
    return 0;
}

/* White space between elements is dropped; other text (of <indexes>) stays as it is, since its length is stated. */
static int copy_text(struct reader *r)
{
    size_t n = strcspn(r->p, "<");
    if (strspn(r->p, SPACE) < n) {
        if (r->depth < 2)
            return bad(r, "text outside of the machine");
        fwrite(r->p, 1, n, r->out);
    }
    r->p += n;
    return 0;
}

static int copy_markup(struct reader *r)
{
    if (take(r, "<!--"))
        return skip_past(r, "-->", "a comment does not end");
    if (take(r, "<?"))
        return skip_past(r, "?>", "a <? does not end");
    if (take(r, "<!DOCTYPE")) {
        r->p += strcspn(r->p, ">[");
        return *r->p == '>' ? (r->p++, 0) : bad(r, "a DOCTYPE with a part of its own");
    }
    if (take(r, "</"))
        return close_element(r);
    r->p++;
    return open_element(r);
}

static int copy_all(struct reader *r)
{
    take(r, "\xef\xbb\xbf");
    for (const char *p = r->p; p < r->end; p++)
        if ((unsigned char)*p < ' ' && !memchr(SPACE, *p, sizeof SPACE - 1)) {
            r->p = p;
            return bad(r, "a control character");
        }
    while (r->p < r->end)
        if ((*r->p == '<' ? copy_markup(r) : copy_text(r)) < 0)
            return -1;
    return r->has_root && r->depth == 0 ? 0 : bad(r, r->has_root ? "the file ends too soon" : "there is no <topology>");
}

static char *tidy(const char *text, size_t n, const char *what, int major_max, size_t *ret_n, ddp_error_t *errp)
{
    char *copy = NULL;
    size_t size = 0;
    struct reader r = {.start = text, .p = text, .end = text + n, .what = what, .major_max = major_max, .errp = errp};
    r.out = open_memstream(&copy, &size);
    int rc = r.out ? copy_all(&r) : 0;
    bool is_whole = r.out && !ferror(r.out);
    if (r.out && fclose(r.out) != 0)
        is_whole = false;
    if (rc == 0 && !is_whole)
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "%s: no memory to read it", what);
    if (rc < 0 || !is_whole) {
        free(copy);
        return NULL;
    }
    *ret_n = size + 1;
    return copy;
}

char *xml_tidy(const char *text, size_t n, const char *what, int major_max, size_t *ret_n, ddp_error_t *errp)
{
    char *ended = malloc(n + 1);
    if (!ended) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "%s: no memory to read it", what);
        return NULL;
    }
    memcpy(ended, text, n);
    ended[n] = 0;
    char *copy = tidy(ended, n, what, major_max, ret_n, errp);
    free(ended);
    return copy;
}

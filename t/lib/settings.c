/* settings - what the manual pages must say of the settings, from the tables that the code reads: lines of a page, an
 * item's tag and the end of its text, with tabs between. A tag that ends with "=" is followed by some name of a
 * value. */
#include <stdio.h>
#include <string.h>

#include "runtime/core/config.h"
#include "spank/keys/keys.h"

/* "on", or as a JSON value. */
static void put_default(const struct knob *k, bool is_json)
{
    if (!k->def)
        return;
    if (is_json && k->type == KNOB_BOOL)
        printf(" Default: %s.", strcmp(k->def, "on") ? "false" : "true");
    else if (is_json && k->type == KNOB_ENUM)
        printf(" Default: \"%s\".", k->def);
    else
        printf(" Default: %s.", k->def);
}

static void put_values(const struct knob *k)
{
    if (k->type == KNOB_INT || k->type == KNOB_DOUBLE)
        printf(" From %.10g to %.10g.", k->min, k->max);
    if (k->type == KNOB_STRING && !k->def)
        printf(" At most %zu bytes.", knob_text_max(k));
}

/* "auto|none" as JSON values. */
static void put_json_values(const struct knob *k)
{
    const char *choices = k->type == KNOB_ENUM ? k->choices : "";
    if (k->type == KNOB_BOOL)
        printf(" true or false.");
    for (const char *p = choices; *p; p += strcspn(p, "|"), p += *p == '|')
        printf("%s\"%.*s\"%s", p == choices ? " " : strchr(p, '|') ? ", " : " or ", (int)strcspn(p, "|"), p,
               strchr(p, '|') ? "" : ".");
    put_values(k);
}

static const char *choices(const struct knob *k)
{
    return k->type == KNOB_BOOL ? "on|off" : k->type == KNOB_ENUM ? k->choices : "";
}

int main(void)
{
    for (size_t i = 0; i < config_n_knobs; i++) {
        const struct knob *k = &config_knobs[i];
        printf("libddp.7\t%s, --ddp-%s=%s\t", k->env, k->name, choices(k));
        put_values(k);
        put_default(k, false);
        puts("");
    }
    for (const struct knob *k = ddp_keys; k < ddp_keys + KEY_USER_COUNT; k++) {
        printf("spank_ddp.8\t%s, %s=%s\t", k->env, k->name, choices(k));
        put_values(k);
        put_default(k, false);
        puts("");
    }
    for (const struct knob *k = ddp_keys; k < ddp_keys + KEY_COUNT; k++) {
        printf("ddp.json.5\t%s\t", k->name);
        put_json_values(k);
        put_default(k, true);
        puts("");
    }
    return 0;
}

/* config_json.h - config.json beside a model's weights, as `transformers` writes and reads it for GPT-2 (class
 * GPT2Config): so a checkpoint's folder loads into GPT2LMHeadModel, and a released GPT-2's into this trainer. */
#ifndef DDP_RUNTIME_TRAIN_CONFIG_JSON_H
#define DDP_RUNTIME_TRAIN_CONFIG_JSON_H

#include <stddef.h>

#include "runtime/base/error.h"
#include "runtime/train/model.h"

#define CONFIG_JSON_NAME "config.json"
#define CONFIG_JSON_MAX_BYTES 65536 /* more is not read */

/* The text for a model of these sizes; the same sizes give the same bytes. malloc, the caller frees. NULL: no
 * memory. */
char *config_json_make(const struct model_config *c);

/* Checks that text[0..n), which may come from anyone, describes a model of these sizes, with the layers that this
 * trainer has; a size that is 0 in *c becomes that of the text. A member that is missing has GPT2Config's default. 0,
 * or -1: the error names `name`, the member and the cure. Pure. */
int config_json_match(const char *text, size_t n, const char *name, struct model_config *c, ddp_error_t *errp);

/* The same for the file DIR/config.json. */
int config_json_match_folder(const char *dir, struct model_config *c, ddp_error_t *errp);

#endif

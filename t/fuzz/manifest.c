/* Fuzz target: manifests, as they are, and with the checksum that their bytes have. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/manifest_impl.h"
#include "t/fuzz/fuzz.h"

/* What was read: sound, and the same when it is written and read again. */
static void use(const struct manifest *m)
{
    size_t n, again_n;
    struct manifest back;
    for (size_t i = 0; i < m->n_files; i++)
        PROMISE(files_is_plain_name(m->file[i].name) && m->file[i].head_bytes <= m->file[i].n_bytes);
    for (size_t i = 0; i < m->n_tensors; i++) {
        const struct files_tensor *at = &m->tensor[i].at;
        PROMISE(at->file >= 0 && (size_t)at->file < m->n_files && at->t.name[0]);
        PROMISE(at->at_bytes >= m->file[at->file].head_bytes);
        PROMISE(at->t.n_bytes <= m->file[at->file].n_bytes - at->at_bytes);
        PROMISE(at->t.first == at->at_bytes - m->file[at->file].head_bytes);
    }
    char *text = manifest_encode(m, &n);
    PROMISE(text && manifest_decode(text, n, &back, NULL) == 0);
    char *again = manifest_encode(&back, &again_n);
    PROMISE(again && again_n == n && !memcmp(text, again, n));
    manifest_clear(&back);
    free(text);
    free(again);
}

static void try(const char *text, size_t n)
{
    struct manifest m = {.n_files = 77};
    ddp_error_t e = {0};
    if (manifest_decode(text, n, &m, &e) < 0) {
        PROMISE(e.text[0] && e.domain == DDP_E_DATA && m.n_files == 77);
        return;
    }
    use(&m);
    manifest_clear(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const size_t last = strlen(MANIFEST_LAST);
    size_t body = n >= MANIFEST_TAIL_BYTES ? n - MANIFEST_TAIL_BYTES : 0;
    char *text = malloc(n + last + 64), *whole;
    if (!text)
        return 0;
    if (n)
        memcpy(text, data, n);
    try(text, n);
    if (body < last || memcmp(text + body - last, MANIFEST_LAST, last))
        memcpy(text + body, MANIFEST_LAST, last), body += last;
    body += (size_t)sprintf(text + body, "\"%016" PRIx64 "\"\n}\n", checksum_bytes(text, body));
    whole = realloc(text, body); /* exactly: a read beyond it is seen */
    if (whole)
        try(whole, body);
    free(whole ? whole : text);
    return 0;
}

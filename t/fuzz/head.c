/* Fuzz target: heads of safetensors files. The input is a whole file, or the JSON of a head, which is then given its
 * length and as many bytes of data as its largest number says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/bytes.h"
#include "runtime/ckpt/safetensors.h"
#include "t/fuzz/fuzz.h"

static void assert_same(const struct st_head *a, const struct st_head *b)
{
    PROMISE(a->n == b->n && a->data_bytes == b->data_bytes);
    for (size_t i = 0; i < a->n; i++) {
        const struct st_tensor *x = &a->tensor[i], *y = &b->tensor[i];
        PROMISE(!strcmp(x->name, y->name) && x->dtype == y->dtype && x->ndim == y->ndim);
        PROMISE(!memcmp(x->shape, y->shape, sizeof x->shape) && x->first == y->first && x->n_bytes == y->n_bytes);
    }
}

/* What was read: sound, and the same when it is written and read again. */
static void use(const struct st_head *h)
{
    struct st_head back;
    uint64_t end = 0, n_bytes;
    size_t n;
    for (size_t i = 0; i < h->n; end += h->tensor[i++].n_bytes) {
        PROMISE(st_check_name(h->tensor[i].name, NULL) == 0 && h->tensor[i].first == end);
        PROMISE(st_bytes(&h->tensor[i], &n_bytes) == 0 && n_bytes == h->tensor[i].n_bytes);
    }
    PROMISE(end == h->data_bytes);
    char *head = st_encode(h->tensor, h->n, &n, NULL);
    PROMISE(head && n % ST_DATA_ALIGN == 0);
    PROMISE(st_decode(head, n, n + end, &back, NULL) == 0);
    assert_same(h, &back);
    st_clear(&back);
    free(head);
}

static void try(const char *head, size_t n, uint64_t file_bytes)
{
    struct st_head h = {.n = 77};
    ddp_error_t e = {0};
    if (st_decode(head, n, file_bytes, &h, &e) < 0) {
        PROMISE(e.text[0] && e.domain == DDP_E_DATA && h.n == 77);
        return;
    }
    use(&h);
    st_clear(&h);
}

static uint64_t largest_number(const uint8_t *data, size_t n)
{
    uint64_t most = 0, v = 0;
    for (size_t i = 0; i < n; i++) {
        v = data[i] >= '0' && data[i] <= '9' && v < (uint64_t)1 << 59 ? v * 10 + (data[i] - (uint64_t)'0') : 0;
        if (v > most)
            most = v;
    }
    return most;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n >= 8) {
        size_t head = st_head_bytes(data, n, NULL);
        PROMISE(head == 0 || (head >= 10 && head <= n));
        if (head)
            try((const char *)data, head, n);
    }
    unsigned char *file = malloc(8 + n); /* exactly: a read beyond it is seen */
    if (!file)
        return 0;
    bytes_put32(file, (uint32_t)n);
    bytes_put32(file + 4, 0);
    if (n)
        memcpy(file + 8, data, n);
    try((char *)file, 8 + n, 8 + n + largest_number(data, n));
    free(file);
    return 0;
}

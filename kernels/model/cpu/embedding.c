#include "kernels/model/embedding.h"

#include "kernels/cpu/dispatch.h"
#include "kernels/model/cpu/pool.h"

#define COLUMN_TILE 128

struct job {
    float *out, *dwte, *dwpe;
    const float *wte, *wpe, *dout;
    const int32_t *tokens;
    const struct embedding_shape *s;
};

CPU_DISPATCH static void forward_sequence(void *arg, size_t b, int worker)
{
    const struct job *j = arg;
    size_t w = j->s->width;
    (void)worker;
    for (size_t t = 0; t < j->s->length; t++) {
        const float *token = j->wte + (size_t)j->tokens[b * j->s->token_stride + t] * w, *position = j->wpe + t * w;
        float *out = j->out + (b * j->s->length + t) * w;
        for (size_t i = 0; i < w; i++)
            out[i] = token[i] + position[i];
    }
}

/* By columns: rows with the same token add to the same place. */
CPU_DISPATCH static void backward_columns(void *arg, size_t task, int worker)
{
    const struct job *j = arg;
    size_t w = j->s->width, begin = task * COLUMN_TILE, end = begin + COLUMN_TILE < w ? begin + COLUMN_TILE : w;
    (void)worker;
    for (size_t b = 0; b < j->s->batch; b++)
        for (size_t t = 0; t < j->s->length; t++) {
            float *dtoken = j->dwte + (size_t)j->tokens[b * j->s->token_stride + t] * w, *dposition = j->dwpe + t * w;
            const float *dout = j->dout + (b * j->s->length + t) * w;
            for (size_t i = begin; i < end; i++) {
                dtoken[i] += dout[i];
                dposition[i] += dout[i];
            }
        }
}

void kernel_embedding_forward(float *out, const int32_t *tokens, const float *wte, const float *wpe,
                              const struct embedding_shape *s)
{
    struct job j = {.out = out, .wte = wte, .wpe = wpe, .tokens = tokens, .s = s};
    pool_run(s->batch, forward_sequence, &j);
}

void kernel_embedding_backward(float *dwte, float *dwpe, const float *dout, const int32_t *tokens,
                               const struct embedding_shape *s)
{
    struct job j = {.dwte = dwte, .dwpe = dwpe, .dout = dout, .tokens = tokens, .s = s};
    pool_run((s->width + COLUMN_TILE - 1) / COLUMN_TILE, backward_columns, &j);
}

#include "kernels/model/layernorm.h"

#include <math.h>

#include "kernels/cpu/dispatch.h"
#include "kernels/model/cpu/inline.h"
#include "kernels/model/cpu/lanes.h"
#include "kernels/model/cpu/pool.h"

#define ROW_TILE 64
#define COLUMN_TILE 128

struct job {
    float *out, *mean, *rstd;        /* forward writes */
    float *din, *dweight, *dbias;    /* backward adds to */
    const float *in, *weight, *bias, *dout;
    size_t rows, width;
    bool accumulate;
};

KERNEL_INLINE size_t tile_end(size_t begin, size_t tile, size_t n)
{
    return begin + tile < n ? begin + tile : n;
}

KERNEL_INLINE float squares_around(const float *x, float mean, size_t n)
{
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += (x[i + l] - mean) * (x[i + l] - mean);
    for (int l = 0; i < n; i++, l++)
        lane[l] += (x[i] - mean) * (x[i] - mean);
    return lanes_total(lane);
}

CPU_DISPATCH static void forward_rows(void *arg, size_t task, int worker)
{
    const struct job *j = arg;
    size_t w = j->width;
    (void)worker;
    for (size_t r = task * ROW_TILE; r < tile_end(task * ROW_TILE, ROW_TILE, j->rows); r++) {
        const float *x = j->in + r * w;
        float *y = j->out + r * w;
        float mean = lanes_sum(x, w) / (float)w;
        float rstd = 1.0f / sqrtf(squares_around(x, mean, w) / (float)w + LAYERNORM_EPS);
        for (size_t i = 0; i < w; i++)
            y[i] = (x[i] - mean) * rstd * j->weight[i] + j->bias[i];
        j->mean[r] = mean;
        j->rstd[r] = rstd;
    }
}

void kernel_layernorm_forward(float *out, float *mean, float *rstd, const float *in, const float *weight,
                              const float *bias, size_t rows, size_t width)
{
    struct job j = {.out = out, .mean = mean, .rstd = rstd, .in = in, .weight = weight, .bias = bias, .rows = rows,
                    .width = width};
    pool_run((rows + ROW_TILE - 1) / ROW_TILE, forward_rows, &j);
}

/* With n = (in - mean) rstd and g = dout weight: din += rstd (g - mean(g) - n mean(g n)). */
CPU_DISPATCH static void backward_rows(void *arg, size_t task, int worker)
{
    const struct job *j = arg;
    size_t w = j->width;
    (void)worker;
    for (size_t r = task * ROW_TILE; r < tile_end(task * ROW_TILE, ROW_TILE, j->rows); r++) {
        const float *x = j->in + r * w, *dy = j->dout + r * w, *weight = j->weight;
        float *dx = j->din + r * w;
        float mean = j->mean[r], rstd = j->rstd[r];
        float lane_g[LANES] = {0}, lane_gn[LANES] = {0};
        size_t i = 0;
        for (; i + LANES <= w; i += LANES)
            for (int l = 0; l < LANES; l++) {
                float g = dy[i + l] * weight[i + l];
                lane_g[l] += g;
                lane_gn[l] += g * ((x[i + l] - mean) * rstd);
            }
        for (int l = 0; i < w; i++, l++) {
            float g = dy[i] * weight[i];
            lane_g[l] += g;
            lane_gn[l] += g * ((x[i] - mean) * rstd);
        }
        float mean_g = lanes_total(lane_g) / (float)w, mean_gn = lanes_total(lane_gn) / (float)w;
        if (j->accumulate)
            for (i = 0; i < w; i++)
                dx[i] += rstd * (dy[i] * weight[i] - mean_g - (x[i] - mean) * rstd * mean_gn);
        else
            for (i = 0; i < w; i++)
                dx[i] = rstd * (dy[i] * weight[i] - mean_g - (x[i] - mean) * rstd * mean_gn);
    }
}

CPU_DISPATCH static void backward_columns(void *arg, size_t task, int worker)
{
    const struct job *j = arg;
    size_t w = j->width, begin = task * COLUMN_TILE, end = tile_end(begin, COLUMN_TILE, w);
    float *dweight = j->dweight, *dbias = j->dbias;
    (void)worker;
    for (size_t r = 0; r < j->rows; r++) {
        const float *x = j->in + r * w, *dy = j->dout + r * w;
        float mean = j->mean[r], rstd = j->rstd[r];
        for (size_t i = begin; i < end; i++) {
            dweight[i] += dy[i] * ((x[i] - mean) * rstd);
            dbias[i] += dy[i];
        }
    }
}

void kernel_layernorm_backward(float *din, float *dweight, float *dbias, const float *dout, const float *in,
                               const float *mean, const float *rstd, const float *weight, size_t rows, size_t width,
                               bool accumulate)
{
    struct job j = {.mean = (float *)mean, .rstd = (float *)rstd, .din = din, .dweight = dweight, .dbias = dbias,
                    .in = in, .weight = weight, .dout = dout, .rows = rows, .width = width,
                    .accumulate = accumulate};
    pool_run((width + COLUMN_TILE - 1) / COLUMN_TILE, backward_columns, &j);
    pool_run((rows + ROW_TILE - 1) / ROW_TILE, backward_rows, &j);
}

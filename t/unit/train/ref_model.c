#include "t/unit/train/ref_model.h"

#include <math.h>
#include <stdlib.h>

static void norm(double *y, const double *x, const double *w, const double *b, size_t n)
{
    double mean = 0, var = 0;
    for (size_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) / sqrt(var + 1e-5) * w[i] + b[i];
}

static void linear(double *y, const double *x, const double *w, const double *b, size_t n_in, size_t n_out)
{
    for (size_t o = 0; o < n_out; o++) {
        y[o] = b[o];
        for (size_t i = 0; i < n_in; i++)
            y[o] += x[i] * w[i * n_out + o];
    }
}

/* y[t] for one sequence: heads one after the other, each query against the keys up to it. */
static void attend(double *y, const double *qkv, const struct ref_config *c)
{
    size_t w = c->width, d = w / c->heads;
    double *p = calloc(c->context, sizeof *p);
    for (size_t h = 0; h < c->heads; h++)
        for (size_t t = 0; t < c->context; t++) {
            double sum = 0;
            for (size_t u = 0; u <= t; u++) {
                p[u] = 0;
                for (size_t i = 0; i < d; i++)
                    p[u] += qkv[t * 3 * w + h * d + i] * qkv[u * 3 * w + w + h * d + i];
                p[u] = exp(p[u] / sqrt((double)d));
                sum += p[u];
            }
            for (size_t i = 0; i < d; i++) {
                double v = 0;
                for (size_t u = 0; u <= t; u++)
                    v += p[u] / sum * qkv[u * 3 * w + 2 * w + h * d + i];
                y[t * w + h * d + i] = v;
            }
        }
    free(p);
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static void block(double *x, double *const *p, const struct ref_config *c)
{
    size_t w = c->width;
    double *tmp = calloc(4 * w, sizeof *tmp), *out = calloc(w, sizeof *out);
    double *qkv = calloc(c->context * 3 * w, sizeof *qkv), *att = calloc(c->context * w, sizeof *att);
    for (size_t t = 0; t < c->context; t++) {
        norm(tmp, x + t * w, p[0], p[1], w);
        linear(qkv + t * 3 * w, tmp, p[2], p[3], w, 3 * w);
    }
    attend(att, qkv, c);
    for (size_t t = 0; t < c->context; t++) {
        double *xt = x + t * w;
        linear(out, att + t * w, p[4], p[5], w, w);
        for (size_t i = 0; i < w; i++)
            xt[i] += out[i];
        norm(out, xt, p[6], p[7], w);
        linear(tmp, out, p[8], p[9], w, 4 * w);
        for (size_t i = 0; i < 4 * w; i++)
            tmp[i] = gelu(tmp[i]);
        linear(out, tmp, p[10], p[11], 4 * w, w);
        for (size_t i = 0; i < w; i++)
            xt[i] += out[i];
    }
    free(tmp);
    free(out);
    free(qkv);
    free(att);
}

static double position_loss(const double *x, const double *wte, int32_t target, const struct ref_config *c)
{
    double sum = 0, wanted = 0;
    for (size_t v = 0; v < c->vocab; v++) {
        double logit = 0;
        for (size_t i = 0; i < c->width; i++)
            logit += x[i] * wte[v * c->width + i];
        sum += exp(logit);
        if (v == (size_t)target)
            wanted = logit;
    }
    return log(sum) - wanted;
}

double ref_loss(const struct ref_config *c, double *const *param, const int32_t *tokens, size_t n)
{
    size_t w = c->width;
    double loss = 0, *x = calloc(c->context * w, sizeof *x), *y = calloc(w, sizeof *y);
    double *const *last = param + 2 + 12 * c->layers;
    for (size_t b = 0; b < n; b++) {
        const int32_t *s = tokens + b * (c->context + 1);
        for (size_t t = 0; t < c->context; t++)
            for (size_t i = 0; i < w; i++)
                x[t * w + i] = param[0][(size_t)s[t] * w + i] + param[1][t * w + i];
        for (size_t l = 0; l < c->layers; l++)
            block(x, param + 2 + 12 * l, c);
        for (size_t t = 0; t < c->context; t++) {
            norm(y, x + t * w, last[0], last[1], w);
            loss += position_loss(y, param[0], s[t + 1], c);
        }
    }
    free(x);
    free(y);
    return loss;
}

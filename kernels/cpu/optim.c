#include "kernels/optim.h"

#include "kernels/cpu/dispatch.h"

enum { LANES = 8 };

CPU_DISPATCH
double kernel_block_sum_squares(const float *x, size_t n)
{
    double lane[LANES] = {0};
    size_t whole = n - n % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)x[i + l] * x[i + l];
    for (size_t i = whole; i < n; i++)
        lane[i - whole] += (double)x[i] * x[i];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

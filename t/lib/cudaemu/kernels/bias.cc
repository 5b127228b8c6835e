#include "kernels/cuda/bias.cu"

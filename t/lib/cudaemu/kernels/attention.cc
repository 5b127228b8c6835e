#include "kernels/cuda/attention.cu"

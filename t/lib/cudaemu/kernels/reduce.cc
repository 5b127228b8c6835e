#include "kernels/cuda/reduce.cu"

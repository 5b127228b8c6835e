#include "kernels/cuda/gelu.cu"

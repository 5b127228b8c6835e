#include "kernels/cuda/layernorm.cu"

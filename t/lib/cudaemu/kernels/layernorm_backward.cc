#include "kernels/model/cuda/layernorm_backward.cu"

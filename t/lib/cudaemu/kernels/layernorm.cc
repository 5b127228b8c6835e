#include "kernels/model/cuda/layernorm.cu"

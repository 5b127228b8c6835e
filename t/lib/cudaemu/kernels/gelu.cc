#include "kernels/model/cuda/gelu.cu"

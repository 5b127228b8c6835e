#include "kernels/cuda/cast.cu"

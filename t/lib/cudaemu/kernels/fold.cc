#include "kernels/cuda/fold.cu"

#include "kernels/cuda/embedding.cu"

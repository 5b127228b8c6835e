#include "kernels/model/cuda/embedding.cu"

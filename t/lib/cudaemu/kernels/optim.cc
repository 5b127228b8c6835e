#include "kernels/cuda/optim.cu"

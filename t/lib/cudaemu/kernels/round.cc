#include "kernels/cuda/round.cu"

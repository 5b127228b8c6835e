#include "kernels/model/cuda/bias.cu"

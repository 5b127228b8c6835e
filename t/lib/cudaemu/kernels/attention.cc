#include "kernels/model/cuda/attention.cu"

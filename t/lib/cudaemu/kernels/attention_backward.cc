#include "kernels/cuda/attention_backward.cu"

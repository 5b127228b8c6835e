#include "kernels/model/cuda/attention_backward.cu"

#include "kernels/model/cuda/attention_wgmma_backward.cu"

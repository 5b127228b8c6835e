#include "kernels/model/cuda/attention_wgmma.cu"

#include "kernels/cuda/attention_f32.cu"

#include "kernels/model/cuda/attention_f32.cu"

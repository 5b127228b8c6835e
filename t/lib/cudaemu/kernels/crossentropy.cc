#include "kernels/cuda/crossentropy.cu"

#include "kernels/model/cuda/crossentropy.cu"

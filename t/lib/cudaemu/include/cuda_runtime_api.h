/* cuda_runtime_api.h - for C sources that want CUDA's header, on machines that lack it. */
#include "t/lib/cudaemu/runtime.h"

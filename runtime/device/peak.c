/* peak.c - what GPUs can do at most, for the model FLOP/s utilisation. */
#include <string.h>

#include "runtime/device/device.h"

/* Dense bfloat16 with float32 accumulation, in TFLOP/s, as NVIDIA's data sheets of these products say; where a sheet
 * has the figure "with sparsity" only, half of it. Names are those that the driver gives, whole: variants of a GPU
 * (bus, memory, MIG slices) differ in speed, and a name that is not here has no figure.
 *
 * Compared in November 2026, not with the sheets themselves, which were out of reach, but with those who quote them by
 * name; what nobody was found to quote (H200 NVL) was left out:
 *   A100, H100, H200, L40S, B200  pytorch/torchtitan, torchtitan/tools/utils.py: nvidia.com/en-us/data-center/a100,
 *                                 h100, h200; resources.nvidia.com l40s-datasheet-28413; nvdam.widen.net
 *                                 blackwell-datasheet-3384703
 *   A10, A30, A40                 tables of several programs: nvidia.com/en-us/data-center/products/a10-gpu, a30-gpu;
 *                                 images.nvidia.com nvidia-a40-datasheet.pdf ("with FP32 accumulate")
 *   L4, L40                       copies of the products' tables at resellers */
static const struct {
    const char *name;
    double tflops;
} peaks[] = {
    {"NVIDIA A100-SXM4-40GB", 312},
    {"NVIDIA A100-SXM4-80GB", 312},
    {"NVIDIA A100-PCIE-40GB", 312},
    {"NVIDIA A100 80GB PCIe", 312},
    {"NVIDIA A10", 125},
    {"NVIDIA A30", 165},
    {"NVIDIA A40", 149.7},
    {"NVIDIA L4", 121},              /* 242 with sparsity */
    {"NVIDIA L40", 181.05},
    {"NVIDIA L40S", 362.05},
    {"NVIDIA H100 80GB HBM3", 989},  /* SXM: 1979 with sparsity */
    {"NVIDIA H100 PCIe", 756},       /* 1513 */
    {"NVIDIA H100 NVL", 835},        /* 1671 */
    {"NVIDIA H200", 989},            /* SXM: 1979 */
    {"NVIDIA B200", 2250},           /* on HGX B200: 4500 */
};

double device_peak(const char *name)
{
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++)
        if (!strcmp(peaks[i].name, name))
            return peaks[i].tflops * 1e12;
    return 0;
}

#include <stdio.h>

#include "topology/load_impl.h"

/* GPUs that clusters have; numbers from pci-ids.ucw.cz. */
static const struct {
    uint16_t vendor_id, device_id;
    const char *name;
} models[] = {
    {0x10de, 0x15f8, "NVIDIA P100 PCIe 16GB"},
    {0x10de, 0x15f9, "NVIDIA P100 SXM2 16GB"},
    {0x10de, 0x1db1, "NVIDIA V100 SXM2 16GB"},
    {0x10de, 0x1db4, "NVIDIA V100 PCIe 16GB"},
    {0x10de, 0x1db5, "NVIDIA V100 SXM2 32GB"},
    {0x10de, 0x1db6, "NVIDIA V100 PCIe 32GB"},
    {0x10de, 0x1db8, "NVIDIA V100 SXM3 32GB"},
    {0x10de, 0x1eb8, "NVIDIA T4"},
    {0x10de, 0x20b0, "NVIDIA A100 SXM4 40GB"},
    {0x10de, 0x20b2, "NVIDIA A100 SXM4 80GB"},
    {0x10de, 0x20b3, "NVIDIA A100 SXM 64GB"},
    {0x10de, 0x20b5, "NVIDIA A100 PCIe 80GB"},
    {0x10de, 0x20b7, "NVIDIA A30"},
    {0x10de, 0x20f1, "NVIDIA A100 PCIe 40GB"},
    {0x10de, 0x2235, "NVIDIA A40"},
    {0x10de, 0x2236, "NVIDIA A10"},
    {0x10de, 0x2321, "NVIDIA H100L 94GB"},
    {0x10de, 0x2330, "NVIDIA H100 SXM5 80GB"},
    {0x10de, 0x2331, "NVIDIA H100 PCIe"},
    {0x10de, 0x2335, "NVIDIA H200 SXM 141GB"},
    {0x10de, 0x2339, "NVIDIA H100 SXM5 94GB"},
    {0x10de, 0x233b, "NVIDIA H200 NVL"},
    {0x10de, 0x2342, "NVIDIA GH200"},
    {0x10de, 0x26b5, "NVIDIA L40"},
    {0x10de, 0x26b9, "NVIDIA L40S"},
    {0x10de, 0x27b8, "NVIDIA L4"},
    {0x10de, 0x2901, "NVIDIA B200"},
    {0x10de, 0x2941, "NVIDIA GB200"},
    {0x10de, 0x3182, "NVIDIA B300 SXM6"},
    {0x10de, 0x31c2, "NVIDIA GB300"},
    {0x1002, 0x66a1, "AMD Instinct MI50"},
    {0x1002, 0x738c, "AMD Instinct MI100"},
    {0x1002, 0x7408, "AMD Instinct MI250X"},
    {0x1002, 0x740c, "AMD Instinct MI250X"},
    {0x1002, 0x740f, "AMD Instinct MI210"},
    {0x1002, 0x74a0, "AMD Instinct MI300A"},
    {0x1002, 0x74a1, "AMD Instinct MI300X"},
    {0x1002, 0x74a5, "AMD Instinct MI325X"},
    {0x1002, 0x75a0, "AMD Instinct MI350X"},
    {0x1002, 0x75a3, "AMD Instinct MI355X"},
};

void model_name(const struct inventory_pci *pci, const char *given, char *buf, size_t size)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (models[i].vendor_id == pci->vendor_id && models[i].device_id == pci->device_id)
            given = models[i].name;
    if (given)
        snprintf(buf, size, "%s", given);
    else
        snprintf(buf, size, "%s GPU %04x", pci->vendor_id == PCI_NVIDIA ? "NVIDIA" : "AMD", pci->device_id);
}

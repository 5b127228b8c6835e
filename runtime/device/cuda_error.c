/* cuda_error.c - what CUDA's errors mean, and the cure. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/device/cuda_impl.h"

#define BUG "this is a bug; compute-sanitizer finds the place"
#define LOST "the GPU failed or fell off the bus: see Xid in the kernel's log (dmesg), and drain the node"

/* Numbers stand where older CUDAs lack the name. FATAL: as CUDA's documentation says, the process must end before the
 * device can be used again. */
enum { FATAL = 1 };
static const struct {
    int code;
    int flags;
    const char *meaning;
} meanings[] = {
    {cudaErrorMemoryAllocation, 0, "out of memory; other processes on this GPU may hold it: see nvidia-smi"},
    {cudaErrorInvalidValue, 0, "an argument is out of range; this is a bug"},
    {cudaErrorInitializationError, 0, "the driver cannot start: try nvidia-smi on this node"},
    {cudaErrorInsufficientDriver, 0, "the driver is older than this build's CUDA: update it"},
    {cudaErrorStubLibrary, 0, "libcuda.so is a stub, not the driver's: take stubs/ out of LD_LIBRARY_PATH"},
    {cudaErrorDevicesUnavailable, 0,
     "the GPU is busy or closed to this process: another process has it in exclusive mode, or it is a MIG slice in "
     "use: see nvidia-smi, or take another GPU"},
    {cudaErrorNoDevice, 0, "no GPU is visible"},
    {cudaErrorInvalidDevice, 0, "there is no such GPU: see CUDA_VISIBLE_DEVICES"},
    {cudaErrorDeviceUninitialized, FATAL, "the GPU's context is gone (a MIG slice without instance?): see nvidia-smi"},
    {cudaErrorNoKernelImageForDevice, 0, "this build has no code for this GPU: configure for its compute capability"},
    {cudaErrorUnsupportedPtxVersion, 0, "the driver is older than this build's CUDA: update it"},
    {cudaErrorECCUncorrectable, FATAL, "an uncorrectable memory error (ECC): see Xid in the kernel's log (dmesg), and "
                                       "drain the node"},
    {cudaErrorNvlinkUncorrectable, FATAL, "an uncorrectable NVLink error: " LOST},
    {226 /* cudaErrorContained, CUDA 12.8 */, FATAL, "a memory error that hit this process: start it again"},
    {911 /* cudaErrorExternalDevice, CUDA 12.1 */, FATAL,
     "another GPU of this job failed: see Xid in the kernel's log (dmesg)"},
    {cudaErrorIllegalAddress, FATAL, "a kernel read or wrote beyond its memory: " BUG},
    {cudaErrorMisalignedAddress, FATAL, "a kernel read or wrote at a misaligned address: " BUG},
    {cudaErrorInvalidAddressSpace, FATAL, "a kernel read or wrote in a wrong memory: " BUG},
    {cudaErrorIllegalInstruction, FATAL, "a kernel ran into an illegal instruction: " BUG},
    {cudaErrorHardwareStackError, FATAL, "a kernel's stack is corrupt: " BUG},
    {cudaErrorInvalidPc, FATAL, "a kernel's program counter is corrupt: " BUG},
    {cudaErrorAssert, FATAL, "an assertion in a kernel failed: " BUG},
    {cudaErrorLaunchFailure, FATAL, "a kernel crashed, or the GPU fell off the bus: see Xid in the kernel's log "
                                    "(dmesg)"},
    {cudaErrorLaunchTimeout, FATAL, "a kernel ran too long for a GPU that drives a display: take another"},
    {cudaErrorLaunchOutOfResources, 0, "a kernel wants more registers or shared memory than this GPU has; " BUG},
    {cudaErrorContextIsDestroyed, FATAL, "the GPU's context is gone: " LOST},
    {cudaErrorSystemNotReady, 0, "the GPUs' fabric is not ready: start nvidia-fabricmanager on this node"},
    {cudaErrorSystemDriverMismatch, 0, "libcuda and the kernel's driver differ in version: reboot the node after the "
                                       "update, or use the libcuda of its driver"},
    {cudaErrorCompatNotSupportedOnDevice, 0, "CUDA's compatibility package does not serve this GPU: update the driver"},
    {cudaErrorMpsConnectionFailed, FATAL, "the MPS server does not answer: restart nvidia-cuda-mps-control"},
    {810 /* cudaErrorMpsClientTerminated, CUDA 11.8 */, FATAL,
     "MPS ended this process's work because another one's failed"},
    {cudaErrorUnknown, FATAL, LOST},
};

void cuda_explain(int code, struct device_fault *ret)
{
    *ret = (struct device_fault){.name = cudaGetErrorName((cudaError_t)code)};
    ret->meaning = cudaGetErrorString((cudaError_t)code);
    ret->is_no_memory = code == cudaErrorMemoryAllocation;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].code == code) {
            ret->meaning = meanings[i].meaning;
            ret->is_fatal = meanings[i].flags & FATAL;
        }
}

int cuda_refuse(int code, const char *call, ddp_error_t *errp)
{
    struct device_fault f;
    cuda_explain(code, &f);
    return error_set(errp, DDP_E_SYSTEM, EIO, "%s: %s: %s", call, f.name, f.meaning);
}

static void too_old(int driver, ddp_error_t *errp)
{
    int runtime = 0;
    (void)cudaRuntimeGetVersion(&runtime);
    error_set(errp, DDP_E_SYSTEM, ENODEV, "the NVIDIA driver is too old: it serves CUDA up to %d.%d, and this build "
              "needs %d.%d: update the driver, or configure --with-cuda=PREFIX of an older CUDA",
              driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

void cuda_explain_absence(int code, ddp_error_t *errp)
{
    int driver = 0;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (cudaDriverGetVersion(&driver) != cudaSuccess)
        driver = 0;
    if (driver == 0)
        error_set(errp, DDP_E_SYSTEM, ENODEV, "there is no NVIDIA driver on this machine");
    else if (code == cudaErrorInsufficientDriver)
        too_old(driver, errp);
    else if (code != cudaSuccess && code != cudaErrorNoDevice)
        cuda_refuse(code, "cudaGetDeviceCount", errp);
    else if (visible)
        error_set(errp, DDP_E_SYSTEM, ENODEV, "CUDA_VISIBLE_DEVICES=%.60s shows no GPU to this process", visible);
    else
        error_set(errp, DDP_E_SYSTEM, ENODEV, "the driver knows no GPU that this process may use: ask for one "
                  "(--gpus), or see nvidia-smi (MIG without an instance?)");
}

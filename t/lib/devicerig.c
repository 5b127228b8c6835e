#include "t/lib/devicerig.h"

#include "t/unit/unit.h"

#ifdef DDP_CUDA_EMULATED
#include "t/lib/cudaemu/script.h"

static void begin(int which)
{
    setenv("EMU_STREAMS", which == RIG_LATE_GPU ? "deferred" : "now", 1);
    cudaemu_reset();
}

static void end(void)
{
    struct cudaemu_live l = cudaemu_live();
    assert_int_equal(l.device_bytes, 0);
    assert_int_equal(l.allocations + l.host_allocations + l.streams + l.events, 0);
}
#else
static void begin(int which)
{
    (void)which;
}

static void end(void) /* a GPU does not count what is left */
{
}
#endif

void rig_need(void)
{
    if (device_cuda_count(NULL) == 0) {
        printf("1..0 # SKIP needs a GPU\n");
        exit(0);
    }
}

device_t *rig_open(int which)
{
    ddp_error_t e = {0};
    begin(which);
    device_t *d = device_open(0, 3, &e);
    if (!d)
        fail_msg("%s", e.text);
    return d;
}

void rig_close(device_t *d)
{
    device_close(d);
    end();
}

/* The emulator's wgmma (t/lib/cudaemu/wgmma.cc): what it computes, against plain loops, and what it refuses. */
extern "C" {
#include "t/unit/unit.h"
}

#include <math.h>

#include "kernels/cuda/wgmma.h"
#include "t/lib/cudaemu/emu.h"
#include "t/lib/cudaemu/script.h"

/* b, 64 x 64 in global memory, as a tile. */
static void copy_tile(uint16_t *tile, const uint16_t *b)
{
    for (unsigned i = threadIdx.x; i < 64 * 8; i += 128)
        cp_async_16(tile + i / 8 * 64 + (i % 8 ^ i / 8 % 8) * 8, b + i * 8, 16);
    cp_async_commit();
    cp_async_wait(0);
    async_proxy_fence();
    __syncthreads();
}

/* Rows 16 w and on of a, 64 x 64, for warp w; columns from 16 k on. */
static void load(uint32_t (&f)[4][4], const uint16_t *a)
{
    unsigned warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (unsigned k = 0; k < 4; k++)
        for (unsigned i = 0; i < 4; i++)
            memcpy(&f[k][i], a + (warp * 16 + g + i % 2 * 8) * 64 + k * 16 + i / 2 * 8 + 2 * t, 4);
}

static void store(float *d, const float (&s)[8][4])
{
    unsigned warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (unsigned j = 0; j < 8; j++)
        for (unsigned i = 0; i < 4; i++)
            d[(warp * 16 + g + i / 2 * 8) * 64 + j * 8 + 2 * t + i % 2] = s[j][i];
}

/* d = a b^T (bfloat16), then d += a b (float16, another group), then d += a b^T with a as a tile. */
static __global__ void multiply(float *d, const uint16_t *a, const uint16_t *b, const uint16_t *a16,
                                const uint16_t *b16)
{
    CUDA_SHARED_ARRAY(float, unused, 5);
    CUDA_SHARED_TILES(uint16_t, tiles, 3 * 64 * 64);
    uint32_t f[4][4], f16[4][4];
    float s[8][4];
    unused[0] = 0;
    copy_tile(tiles, b);
    copy_tile(tiles + 64 * 64, b16);
    copy_tile(tiles + 2 * 64 * 64, a);
    load(f, a);
    load(f16, a16);
    uint64_t at = wgmma_descriptor(tiles), at16 = wgmma_descriptor(tiles + 64 * 64);
    uint64_t at_a = wgmma_descriptor(tiles + 2 * 64 * 64);
    wgmma_fence(f, f16);
    wgmma_bf16<false, false>(s, f[0], wgmma_rows(at, 0));
    for (unsigned k = 1; k < 4; k++)
        wgmma_bf16<false, true>(s, f[k], wgmma_rows(at, k));
    wgmma_commit();
    for (unsigned k = 0; k < 4; k++)
        wgmma_f16<true, true>(s, f16[k], wgmma_columns(at16, k));
    wgmma_commit();
    for (unsigned k = 0; k < 4; k++)
        wgmma_bf16<false, true>(s, wgmma_rows(at_a, k), wgmma_rows(at, k));
    wgmma_commit();
    wgmma_wait(0, s);
    store(d, s);
}

static void products_are_right(void **)
{
    enum { N = 64 * 64 };
    alignas(16) static uint16_t a[N], b[N], a16[N], b16[N];
    static float fa[N], fb[N], d[N];
    for (int i = 0; i < N; i++) {
        fa[i] = (float)(i * 7 % 23 - 11), fb[i] = (float)(i * 5 % 19 - 9);
        a[i] = bf16_store(fa[i]), a16[i] = f16_store(fa[i]);
        b[i] = bf16_store(fb[i]), b16[i] = f16_store(fb[i]);
    }
    for (int order = EMU_FORWARD; order <= EMU_RANDOM; order++) {
        emu_set_order((enum emu_order)order, 9);
        assert_int_equal(CUDA_LAUNCH(multiply, 1, 128, 0, NULL, d, a, b, a16, b16), 0);
        for (int i = 0; i < 64; i++)
            for (int j = 0; j < 64; j++) {
                float want = 0;
                for (int k = 0; k < 64; k++)
                    want += fa[i * 64 + k] * (2 * fb[j * 64 + k] + fb[k * 64 + j]);
                assert_true(d[i * 64 + j] == want);
            }
    }
    emu_set_order(EMU_FORWARD, 0);
}

/* ---- mistakes ---- */

enum mistake {
    NONE, A_NOT_FENCED, A_WRITTEN_AFTER_FENCE, D_NOT_FENCED, SUMS_WRITTEN, SUMS_READ, SUMS_FENCED, A_CHANGED, B_CHANGED,
    NO_PROXY_FENCE, NOT_WAITED, WAITED_FOR_TOO_LITTLE, A_WARP_LESS, ONE_DESCRIPTOR_DIFFERS, NO_SWIZZLE, BEHIND_ALL,
    HALF_A_GROUP, A_TILE_CHANGED, ONE_A_TILE_DIFFERS, A_TILE_NOT_FENCED, NO_BARRIER, TILE_OVERWRITTEN,
    A_TILE_OVERWRITTEN, NO_FENCE, N_MISTAKES
};

static __global__ void mistaken(int what, float *d, const uint16_t *b)
{
    CUDA_SHARED_TILES(uint16_t, tile, 2 * 64 * 64);
    uint16_t *a_tile = tile + 64 * 64;
    uint32_t f[4][4] = {};
    float s[8][4] = {};
    copy_tile(tile, b);
    copy_tile(a_tile, b);
    if (what == NO_PROXY_FENCE || what == A_TILE_NOT_FENCED) {
        if (threadIdx.x == 77)
            cp_async_16((what == NO_PROXY_FENCE ? tile : a_tile) + 64 * 15, b, 16);
        cp_async_commit();
        cp_async_wait(0);
        __syncthreads();
    }
    if (what == NO_BARRIER) {
        if (threadIdx.x == 77)
            cp_async_16(tile + 64 * 15, b, 16);
        cp_async_commit();
        cp_async_wait(0);
        async_proxy_fence();
    }
    uint64_t at = wgmma_columns(wgmma_descriptor(tile), 0);
    at ^= what == NO_SWIZZLE ? 1ull << 62 : what == ONE_DESCRIPTOR_DIFFERS && threadIdx.x == 99 ? 1 : 0;
    at += what == BEHIND_ALL ? 15 * 1024 / 16 : 0;
    if (what == D_NOT_FENCED)
        wgmma_fence(f);
    else if (what != A_NOT_FENCED)
        wgmma_fence(s, f);
    if (what == A_NOT_FENCED)
        wgmma_fence(s);
    if (what == NO_FENCE)
        wgmma_wait(0, s);
    if (what == A_WRITTEN_AFTER_FENCE)
        f[0][1] = 1;
    if (what == A_WARP_LESS && threadIdx.x >= 96)
        return;
    uint64_t at_a = wgmma_rows(wgmma_descriptor(a_tile), what == ONE_A_TILE_DIFFERS && threadIdx.x == 99 ? 1 : 0);
    if (what >= A_TILE_CHANGED)
        wgmma_bf16<true, true>(s, at_a, at);
    else
        wgmma_bf16<true, true>(s, f[0], at);
    wgmma_commit();
    if (what == SUMS_WRITTEN)
        s[3][1] += 1;
    if (what == SUMS_READ)
        *d = s[3][1];
    if (what == SUMS_FENCED)
        wgmma_fence(s);
    if (what == A_CHANGED)
        f[0][2] = 1;
    if (what == B_CHANGED && threadIdx.x == 5)
        tile[64 * 7] ^= 1;
    if (what == A_TILE_CHANGED && threadIdx.x == 5)
        a_tile[0] ^= 1;
    if (what == NOT_WAITED)
        return;
    wgmma_wait(1, f);
    if (what == WAITED_FOR_TOO_LITTLE)
        wgmma_wait(1, s);
    wgmma_wait(0, s);
    if (what != SUMS_READ)
        *d = s[0][0];
    if (what == NONE)
        __syncthreads();
    if (threadIdx.x == 5 && (what == NONE || what == TILE_OVERWRITTEN))
        tile[0] ^= 1;
    if (threadIdx.x == 5 && what == A_TILE_OVERWRITTEN)
        a_tile[0] ^= 1;
}

static void mistakes_are_named(void **)
{
    static const char *const want[N_MISTAKES] = {
        [NONE] = "",
        [A_NOT_FENCED] = "with a not fenced since it was written",
        [A_WRITTEN_AFTER_FENCE] = "with a not fenced since it was written",
        [D_NOT_FENCED] = "with d not fenced since it was written",
        [SUMS_WRITTEN] = "wrote sums before the wait in",
        [SUMS_READ] = NULL, /* and are NaN */
        [SUMS_FENCED] = "fences sums in",
        [A_CHANGED] = "changed the registers of the wgmma in",
        [B_CHANGED] = "whose shared memory has changed since",
        [NO_PROXY_FENCE] = "reads what thread (77, 0, 0) copied in the wgmma in",
        [NOT_WAITED] = "ends before the wgmma in",
        [WAITED_FOR_TOO_LITTLE] = "names sums in",
        [A_WARP_LESS] = "where thread (96, 0, 0) never comes: it has ended",
        [ONE_DESCRIPTOR_DIFFERS] = "another descriptor than others of its warpgroup",
        [NO_SWIZZLE] = "which is not one of 128-byte swizzle",
        [BEHIND_ALL] = "where there is nothing",
        [HALF_A_GROUP] = "its warpgroup lacks warps",
        [A_TILE_CHANGED] = "whose shared memory has changed since",
        [ONE_A_TILE_DIFFERS] = "another descriptor than others of its warpgroup",
        [A_TILE_NOT_FENCED] = "reads what thread (77, 0, 0) copied in the wgmma in",
        [NO_BARRIER] = "without a barrier since",
        [TILE_OVERWRITTEN] = "has read, without a barrier between",
        [A_TILE_OVERWRITTEN] = "has read, without a barrier between",
        [NO_FENCE] = "without a fence since it waited",
    };
    alignas(16) static uint16_t b[64 * 64];
    for (int what = NONE; what < N_MISTAKES; what++) {
        float d = 0;
        int rc = CUDA_LAUNCH(mistaken, 1, what == HALF_A_GROUP ? 96 : 128, 0, NULL, what, &d, b);
        cudaemu_reset();
        if (!want[what])
            assert_true(isnan(d));
        else if (!*want[what])
            assert_int_equal(rc, 0);
        else {
            if (rc != cudaErrorLaunchFailure)
                fail_msg("mistake %d is not seen", what);
            if (!strstr(emu_error(), want[what]))
                fail_msg("mistake %d: %s", what, emu_error());
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(products_are_right),
    cmocka_unit_test(mistakes_are_named),
};

int main()
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What the lanes of a warp do together, and cp.async. The fragments' layouts are those of the PTX ISA:
 * "Matrix multiply-accumulate operation using mma instruction", m16n8k16, and "Warp-level matrix load instruction:
 * ldmatrix". */
#include "t/lib/cudaemu/block.h"

static void ballot(emu_thread *lane, uint32_t mask)
{
    uint64_t result = 0;
    for (int l = 0; l < EMU_WARP; l++)
        if (mask >> l & 1)
            result |= lane[l].wait->value << l;
    for (int l = 0; l < EMU_WARP; l++)
        if (mask >> l & 1)
            lane[l].wait->result = result;
}

static int shuffle(emu_thread *lane, uint32_t mask)
{
    for (int l = 0; l < EMU_WARP; l++) {
        if (!(mask >> l & 1))
            continue;
        emu_wait *w = lane[l].wait;
        if (w->from < 0 || w->from >= EMU_WARP || !(mask >> w->from & 1)) {
            emu_complain(&lane[l], "reads lane %d in a shuffle in %s:%d, which is not in the mask 0x%08x", w->from,
                         w->file, w->line, mask);
            return -1;
        }
        w->result = lane[w->from].wait->value;
    }
    return 0;
}

typedef float load_f(uint16_t);

static float half_of(load_f *load, uint32_t pair, int which)
{
    return load((uint16_t)(pair >> 16 * which));
}

/* Lane l: group g = l / 4, t = l % 4. a holds rows g and g + 8 (registers 0, 2 and 1, 3), columns 2t, 2t + 1 and those
 * 8 to the right (registers 0, 1 and 2, 3); b rows 2t, 2t + 1 and those 8 below, of column g; c and d rows g and g + 8,
 * columns 2t, 2t + 1. */
static void mma(emu_thread *lane, load_f *load)
{
    float a[16][16], b[16][8], d[16][8];
    for (int l = 0; l < EMU_WARP; l++) {
        const emu_wait *w = lane[l].wait;
        int g = l / 4, t = l % 4;
        for (int r = 0; r < 4; r++)
            for (int h = 0; h < 2; h++)
                a[g + r % 2 * 8][2 * t + h + r / 2 * 8] = half_of(load, w->a[r], h);
        for (int r = 0; r < 2; r++)
            for (int h = 0; h < 2; h++)
                b[2 * t + h + r * 8][g] = half_of(load, w->b[r], h);
        for (int r = 0; r < 4; r++)
            d[g + r / 2 * 8][2 * t + r % 2] = w->c[r];
    }
    for (int i = 0; i < 16; i++) {
        double sum[8];
        for (int j = 0; j < 8; j++)
            sum[j] = d[i][j];
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 8; j++)
                sum[j] += (double)a[i][k] * b[k][j];
        for (int j = 0; j < 8; j++)
            d[i][j] = (float)sum[j];
    }
    for (int l = 0; l < EMU_WARP; l++)
        for (int r = 0; r < 4; r++)
            lane[l].wait->d[r] = d[l / 4 + r / 2 * 8][2 * (l % 4) + r % 2];
}

static int ldmatrix(emu_thread *lane, bool trans)
{
    uint16_t m[4][8][8];
    for (int l = 0; l < EMU_WARP; l++) {
        const emu_wait *w = lane[l].wait;
        if ((uintptr_t)w->row % 16) {
            emu_complain(&lane[l], "gives ldmatrix in %s:%d an address that is not 16-byte aligned", w->file, w->line);
            return -1;
        }
        memcpy(m[l / 8][l % 8], w->row, sizeof m[0][0]);
    }
    for (int l = 0; l < EMU_WARP; l++)
        for (int j = 0; j < 4; j++) {
            int row = l / 4, at = 2 * (l % 4);
            uint32_t low = trans ? m[j][at][row] : m[j][row][at];
            uint32_t high = trans ? m[j][at + 1][row] : m[j][row][at + 1];
            lane[l].wait->r[j] = high << 16 | low;
        }
    return 0;
}

int emu_warp_do(emu_thread *lane)
{
    const emu_wait *w = emu_now.running->wait;
    switch (w->op) {
    case EMU_SHUFFLE:
        return shuffle(lane, w->mask);
    case EMU_BALLOT:
        ballot(lane, w->mask);
        return 0;
    case EMU_MMA_BF16:
        mma(lane, bf16_load);
        return 0;
    case EMU_MMA_F16:
        mma(lane, f16_load);
        return 0;
    case EMU_LDMATRIX:
    case EMU_LDMATRIX_TRANS:
        return ldmatrix(lane, w->op == EMU_LDMATRIX_TRANS);
    default:
        return 0;
    }
}

/* ---- cp.async: copied when waited for ---- */

void cp_async_16(void *smem, const void *gmem, unsigned bytes, const char *file, int line)
{
    emu_thread *t = emu_now.running;
    if ((uintptr_t)smem % 16 || (uintptr_t)gmem % 16) {
        emu_complain(t, "gives cp_async_16 in %s:%d an address that is not 16-byte aligned", file, line);
        fiber_suspend(&t->fiber);
    }
    if (bytes > 16) {
        emu_complain(t, "asks cp_async_16 in %s:%d for %u bytes", file, line, bytes);
        fiber_suspend(&t->fiber);
    }
    t->copies.push_back({smem, gmem, bytes, t->n_groups});
}

void cp_async_commit()
{
    emu_now.running->n_groups++;
}

void cp_async_wait(int n)
{
    emu_thread *t = emu_now.running;
    size_t done = 0;
    while (done < t->copies.size() && t->copies[done].group < t->n_groups - n) {
        const emu_copy *c = &t->copies[done++];
        memset(c->to, 0, 16);
        if (c->bytes)
            memcpy(c->to, c->from, c->bytes);
        t->unfenced.push_back(c->to);
    }
    t->copies.erase(t->copies.begin(), t->copies.begin() + (std::ptrdiff_t)done);
}

void async_proxy_fence()
{
    emu_thread *t = emu_now.running;
    t->unmet.insert(t->unmet.end(), t->unfenced.begin(), t->unfenced.end());
    t->unfenced.clear();
}

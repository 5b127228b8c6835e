/* tensors.h - collectives of tensors: those that libddp has, and those that are made of these. They wait. */
#ifndef SLURM_DDP_TENSORS_H
#define SLURM_DDP_TENSORS_H

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "libddp.h"

using at::Tensor;
using c10d::ReduceOp;
using Tensors = std::vector<Tensor>;

static const struct {
    at::ScalarType torch;
    ddp_dtype ddp;
} TYPES[] = {{at::kFloat, DDP_F32}, {at::kDouble, DDP_F64}, {at::kBFloat16, DDP_BF16},
             {at::kHalf, DDP_F16},  {at::kInt, DDP_I32},    {at::kLong, DDP_I64}};

static inline int type_of(const Tensor &t)
{
    for (auto &row : TYPES)
        if (row.torch == t.scalar_type())
            return row.ddp;
    return -1;
}

static inline int op_of(ReduceOp::RedOpType op)
{
    return op == ReduceOp::SUM ? DDP_SUM : op == ReduceOp::MIN ? DDP_MIN : op == ReduceOp::MAX ? DDP_MAX : -1;
}

static inline void check_tensor(const Tensor &t)
{
    expect(t.device().is_cpu(), "a tensor is on " + t.device().str() + ": it moves tensors of the CPU; take "
           "init_process_group(\"cpu:ddp,cuda:nccl\") for both");
    expect(t.layout() == at::kStrided, "sparse tensors are not supported: use dense ones, or gloo");
}

static inline void check_tensors(const Tensors &list)
{
    for (auto &t : list)
        check_tensor(t);
}

/* Each element of what is written has memory of its own: else PyTorch would refuse to copy results back, when the other
 * ranks have been served. */
static inline void check_outputs(const Tensors &list)
{
    for (auto &t : list)
        expect(at::has_internal_overlap(t) != at::MemOverlap::Yes, "elements of a tensor share memory, as expand() "
               "makes them: take .contiguous() of it");
}

static inline const Tensor &only(const Tensors &list)
{
    expect(list.size() == 1, "it takes one tensor a rank");
    check_tensor(list[0]);
    return list[0];
}

/* t's numbers in a row; where they are not, a copy, which put_back returns to t. Of what a rank only reads elements may
 * share memory: those of its row do not. */
static inline Tensor row_of(const Tensor &t)
{
    return t.contiguous();
}

static inline void put_back(const Tensor &t, const Tensor &row)
{
    if (!row.is_same(t))
        t.copy_(row);
}

/* What moves only is bytes; libddp counts in elements, of two bytes at least. An odd number of bytes is announced by a
 * call with none, which is free, so that it is not taken for the even number above on a rank that has that. */
static inline void bcast(void *d, const Tensor &t, int root)
{
    ddp_error e;
    Tensor row = row_of(t);
    size_t n = row.nbytes();
    if (n % 2 == 0) {
        check(ddp.bcast(d, row.data_ptr(), n / 2, DDP_F16, root, &e) == 0, e);
    } else {
        std::vector<uint16_t> odd(n / 2 + 1);
        memcpy(odd.data(), row.data_ptr(), n);
        for (size_t n_elems : {size_t{0}, odd.size()})
            check(ddp.bcast(d, odd.data(), n_elems, DDP_F16, root, &e) == 0, e);
        memcpy(row.data_ptr(), odd.data(), n);
    }
    put_back(t, row);
}

/* out, in a row: every rank's `in`. */
static inline void gather_row(void *d, const Tensor &in, const Tensor &out, int size)
{
    ddp_error e;
    Tensor row = row_of(in);
    size_t n = row.nbytes();
    if (n % 2 == 0) {
        check(ddp.allgather(d, row.data_ptr(), n / 2, DDP_F16, out.data_ptr(), &e) == 0, e);
        return;
    }
    std::vector<uint16_t> mine(n / 2 + 1), all(mine.size() * static_cast<size_t>(size));
    memcpy(mine.data(), row.data_ptr(), n);
    for (size_t n_elems : {size_t{0}, mine.size()})
        check(ddp.allgather(d, mine.data(), n_elems, DDP_F16, all.data(), &e) == 0, e);
    char *to = static_cast<char *>(out.data_ptr());
    for (size_t at = 0; at < all.size(); at += mine.size(), to += n)
        memcpy(to, &all[at], n);
}

static inline Tensor gather(void *d, const Tensor &in, int size)
{
    std::vector<int64_t> shape = in.sizes().vec();
    shape.insert(shape.begin(), size);
    Tensor out = at::empty(shape, in.options());
    gather_row(d, in, out, size);
    return out;
}

static inline void apply(const Tensor &t, const Tensor &other, ReduceOp::RedOpType op)
{
    switch (op) {
    case ReduceOp::PRODUCT: t.mul_(other); break;
    case ReduceOp::BAND: t.bitwise_and_(other); break;
    case ReduceOp::BOR: t.bitwise_or_(other); break;
    case ReduceOp::BXOR: t.bitwise_xor_(other); break;
    default: expect(false, "this ReduceOp is not supported: SUM, AVG, MIN, MAX, PRODUCT, BAND, BOR and BXOR are");
    }
}

/* What libddp sums of itself: its types, in a row. */
static inline bool is_plain(const Tensor &t, ReduceOp::RedOpType op)
{
    return t.is_contiguous() && type_of(t) >= 0 && (op_of(op) >= 0 || (op == ReduceOp::AVG && t.is_floating_point()));
}

/* t = op over all ranks' t. */
static inline void reduce_all(void *d, const Tensor &t, ReduceOp::RedOpType op, int size)
{
    if (is_plain(t, op)) {
        ddp_error e;
        bool is_mean = op == ReduceOp::AVG;
        void *work = ddp.allreduce(d, t.data_ptr(), static_cast<size_t>(t.numel()), type_of(t),
                                   is_mean ? DDP_SUM : op_of(op), &e);
        check(work && ddp.wait(work, &e) == 0, e);
        if (is_mean)
            t.div_(size);
    } else if (type_of(t) >= 0 && is_plain(row_of(t), op)) {
        Tensor row = row_of(t);
        reduce_all(d, row, op, size);
        put_back(t, row);
    } else if (t.is_complex() && (op == ReduceOp::SUM || op == ReduceOp::AVG)) {
        Tensor pairs = at::view_as_real(row_of(t)).clone();
        reduce_all(d, pairs, op, size);
        t.copy_(at::view_as_complex(pairs));
    } else if (at::isIntegralType(t.scalar_type(), true) && t.element_size() < 8 && op_of(op) >= 0) {
        Tensor wide = t.to(t.element_size() < 4 ? at::kInt : at::kLong);
        reduce_all(d, wide, op, size);
        t.copy_(wide);
    } else if (at::isIntegralType(t.scalar_type(), true) && op == ReduceOp::SUM) { /* uint64: int64's, bit for bit */
        Tensor row = row_of(t), bits = row.view(at::kLong);
        reduce_all(d, bits, op, size);
        put_back(t, row);
    } else { /* none of libddp's: each rank does it to all */
        expect(op != ReduceOp::AVG && op_of(op) < 0, std::string("it cannot reduce tensors of ") +
               c10::toString(t.scalar_type()) + " by this ReduceOp");
        Tensor all = gather(d, t, size);
        is_midway = false;
        Tensor sum = all[0].clone();
        for (int r = 1; r < size; r++)
            apply(sum, all[r], op);
        t.copy_(sum);
    }
}

/* The root's t = op over all ranks' t, which elsewhere stay as they are: there a piece at a time is summed in memory
 * that is the same for all. */
static inline void reduce_to(void *d, const Tensor &t, ReduceOp::RedOpType op, int size, bool is_root)
{
    constexpr int64_t PIECE = 1 << 20;
    Tensor row = row_of(t);
    if (!is_plain(row, op)) {
        reduce_all(d, is_root ? t : t.clone(), op, size);
        return;
    }
    Tensor all = row.view(-1), sum = is_root ? all : at::empty({std::min(PIECE, row.numel())}, row.options());
    for (int64_t at = 0; at < all.numel(); at += PIECE) {
        Tensor piece = all.narrow(0, at, std::min(PIECE, all.numel() - at));
        reduce_all(d, is_root ? piece : sum.narrow(0, 0, piece.numel()).copy_(piece), op, size);
    }
    if (is_root)
        put_back(t, row);
}

/* out = op over all ranks' parts of `in` for this rank. How out lies in memory may differ between ranks: what is called
 * of libddp follows from type, shape and op alone. */
static inline void reduce_part(void *d, const Tensor &in, const Tensor &out, ReduceOp::RedOpType op, int rank, int size)
{
    ddp_error e;
    Tensor row = row_of(in);
    if (is_plain(row, op)) {
        Tensor part = row_of(out);
        bool is_mean = op == ReduceOp::AVG;
        check(ddp.reduce_scatter(d, row.data_ptr(), static_cast<size_t>(out.numel()), type_of(row),
                                 is_mean ? DDP_SUM : op_of(op), part.data_ptr(), &e) == 0, e);
        if (is_mean)
            part.div_(size);
        put_back(out, part);
        return;
    }
    Tensor all = row.clone();
    reduce_all(d, all, op, size);
    out.copy_(all.view(-1).narrow(0, rank * out.numel(), out.numel()).view(out.sizes()));
}

/* Each rank gives each rank a tensor: in[r] goes to rank r. An undefined one is none. `out` may be `in`, or have the
 * memory of it: what this rank gives is then put aside before anything comes. */
static inline void exchange(void *d, const Tensors &out, const Tensors &in)
{
    size_t size = in.size();
    Tensors given(size), taken(size);
    std::vector<const void *> from(size);
    std::vector<void *> to(size);
    std::vector<size_t> n_from(size), n_to(size);
    for (size_t r = 0; r < size; r++) {
        auto is_same = [&](const Tensor &t) { return t.defined() && t.is_alias_of(in[r]); };
        if (in[r].defined()) {
            bool is_shared = std::any_of(out.begin(), out.end(), is_same);
            given[r] = is_shared ? in[r].clone(at::MemoryFormat::Contiguous) : row_of(in[r]);
            from[r] = given[r].data_ptr();
            n_from[r] = given[r].nbytes();
        }
        if (out[r].defined()) {
            taken[r] = row_of(out[r]);
            to[r] = taken[r].data_ptr();
            n_to[r] = taken[r].nbytes();
        }
    }
    ddp_error e, broken;
    int rc = ddp.alltoall(d, from.data(), n_from.data(), to.data(), n_to.data(), &e);
    expect(rc == 0 || ddp.check(d, &broken) < 0, e.text); /* which all ranks are told alike */
    check(rc == 0, e);
    for (size_t r = 0; r < size; r++)
        if (out[r].defined())
            put_back(out[r], taken[r]);
}

#endif

/* group.cpp - a process group of PyTorch's over libddp: collectives of tensors in the processor's memory. Compiled by
 * torch.py against the PyTorch that is installed, 1.13 or 2.
 *
 * A group has one lane (lane.h) for its collectives and, from the first send or receive on, one for each pair of ranks,
 * direction and tag, so that messages wait for nothing but each other. */
#include <atomic>
#include <map>
#include <set>
#include <tuple>

#include <pybind11/chrono.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/utils/pybind.h>

#include "lane.h"
#include "tensors.h"

#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
using Base = c10d::Backend;
#else
using Base = c10d::ProcessGroup;
#endif

/* Whether the caller goes on before the work is over; an older PyTorch does not say, so that it may. */
template <class Options> static auto async_of(const Options &o, int) -> decltype(bool(o.asyncOp))
{
    return o.asyncOp;
}

template <class Options> static bool async_of(const Options &, long)
{
    return true;
}

template <class Options> static bool is_async(const Options &o)
{
    return async_of(o, 0);
}

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

static std::mutex groups_lock;
static std::set<class Group *> groups;

class Group : public Base {
  public:
    explicit Group(Members m) : Base(m.rank, m.size), members_(std::move(m))
    {
        members_.prefix = "all/";
        members_.halt = std::make_shared<Halt>();
        lane_ = Lane::make([m = members_] { return communicator(m); },
                           [halt = members_.halt](const std::string &why) { halt->set(why); });
        lane_->open();
        lane_->start();
        std::lock_guard<std::mutex> guard(groups_lock);
        groups.insert(this);
    }

    /* By Python, with the GIL in some PyTorches: a thread that is joined here may want it, to let go of a tensor. */
    ~Group() override
    {
        std::unique_ptr<py::gil_scoped_release> no_gil;
        if (Py_IsInitialized() && PyGILState_Check())
            no_gil = std::make_unique<py::gil_scoped_release>();
        {
            std::lock_guard<std::mutex> guard(groups_lock);
            groups.erase(this);
        }
        close();
    }

    const std::string getBackendName() const override
    {
        return "ddp";
    }

    void close()
    {
        members_.halt->set("backend ddp: the process group was destroyed");
        {
            std::lock_guard<std::mutex> guard(pairs_lock_);
            is_closed_ = true;
        }
        for (auto &lane : lanes())
            lane->close();
    }

    void stop(const std::string &why)
    {
        members_.halt->set(why);
        for (auto &lane : lanes())
            lane->abort(why.c_str());
    }

    WorkPtr allreduce(Tensors &list, const c10d::AllreduceOptions &o = {}) override
    {
        auto op = kind(o.reduceOp);
        check_tensors(list);
        return start(OpType::ALLREDUCE, "ddp:all_reduce", list, list, is_async(o), [list, op, size = size_](void *d) {
            for (auto &t : list)
                reduce_all(d, t, op, size);
        });
    }

    WorkPtr allreduce_coalesced(Tensors &list, const c10d::AllreduceCoalescedOptions &o = {}) override
    {
        return allreduce(list, o);
    }

    WorkPtr broadcast(Tensors &list, const c10d::BroadcastOptions &o = {}) override
    {
        int root = static_cast<int>(o.rootRank);
        Tensors of{root == rank_ ? row_of(only(list)) : only(list)};
        return start(OpType::BROADCAST, "ddp:broadcast", list, of, is_async(o),
                     [of, root](void *d) { bcast(d, of[0], root); });
    }

    WorkPtr reduce(Tensors &list, const c10d::ReduceOptions &o = {}) override
    {
        auto op = kind(o.reduceOp);
        bool is_root = o.rootRank == rank_;
        Tensors of{is_root ? only(list) : row_of(only(list))};
        return start(OpType::REDUCE, "ddp:reduce", list, of, is_async(o), [=, size = size_](void *d) {
            reduce_to(d, of[0], op, size, is_root);
        });
    }

    WorkPtr allgather(std::vector<Tensors> &outs, Tensors &ins, const c10d::AllgatherOptions &o = {}) override
    {
        Tensors in{only(ins)}, out = list_of(outs, in[0]);
        return start(OpType::ALLGATHER, "ddp:all_gather", in, out, is_async(o), [=, size = size_](void *d) {
            Tensor all = ::gather(d, in[0], size);
            for (int r = 0; r < size; r++)
                out[static_cast<size_t>(r)].copy_(all[r]);
        });
    }

    WorkPtr _allgather_base(Tensor &out, Tensor &in, const c10d::AllgatherOptions &o = {}) override
    {
        Tensors outs{out}, ins{in};
        return allgather_into_tensor_coalesced_(outs, ins, is_async(o));
    }

    WorkPtr _reduce_scatter_base(Tensor &out, Tensor &in, const c10d::ReduceScatterOptions &o = {}) override
    {
        Tensors outs{out}, ins{in};
        return reduce_scatter_tensor_coalesced_(outs, ins, kind(o.reduceOp), is_async(o));
    }

    /* Not virtual in every PyTorch. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsuggest-override"
    void abort()
    {
        stop("the process group was aborted");
    }

    void shutdown()
    {
        close();
    }

    WorkPtr allgather_into_tensor_coalesced(Tensors &outs, Tensors &ins, const c10d::AllgatherOptions &o = {})
    {
        return allgather_into_tensor_coalesced_(outs, ins, is_async(o));
    }

    WorkPtr reduce_scatter_tensor_coalesced(Tensors &outs, Tensors &ins,
                                            const c10d::ReduceScatterOptions &o = {})
    {
        return reduce_scatter_tensor_coalesced_(outs, ins, kind(o.reduceOp), is_async(o));
    }
#pragma GCC diagnostic pop

    WorkPtr reduce_scatter(Tensors &outs, std::vector<Tensors> &ins, const c10d::ReduceScatterOptions &o = {}) override
    {
        Tensors out{only(outs)}, in = list_of(ins, out[0]);
        auto op = kind(o.reduceOp);
        return start(OpType::REDUCE_SCATTER, "ddp:reduce_scatter", in, out, is_async(o),
                     [=, rank = rank_, size = size_](void *d) {
                         reduce_part(d, at::stack(in), out[0], op, rank, size);
                     });
    }

    WorkPtr gather(std::vector<Tensors> &outs, Tensors &ins, const c10d::GatherOptions &o = {}) override
    {
        Tensors in{only(ins)}, out, all = roots(in[0], o.rootRank);
        if (o.rootRank == rank_)
            out = list_of(outs, in[0]);
        return start(OpType::GATHER, "ddp:gather", in, out, is_async(o),
                     [=, to = out.empty() ? nobodys() : out](void *d) { exchange(d, to, all); });
    }

    WorkPtr scatter(Tensors &outs, std::vector<Tensors> &ins, const c10d::ScatterOptions &o = {}) override
    {
        Tensors out{only(outs)}, in, all = roots(out[0], o.rootRank);
        if (o.rootRank == rank_)
            in = list_of(ins, out[0]);
        return start(OpType::SCATTER, "ddp:scatter", in, out, is_async(o),
                     [=, from = in.empty() ? nobodys() : in](void *d) { exchange(d, all, from); });
    }

    WorkPtr alltoall_base(Tensor &out, Tensor &in, std::vector<int64_t> &out_splits, std::vector<int64_t> &in_splits,
                          const c10d::AllToAllOptions &o = {}) override
    {
        Tensors to = cut(out, out_splits), from = cut(in, in_splits);
        check_outputs({out}); /* parts of it may overlap each other only */
        return alltoall(to, from, o);
    }

    WorkPtr alltoall(Tensors &outs, Tensors &ins, const c10d::AllToAllOptions &o = {}) override
    {
        Tensors out = outs, in = ins;
        check_tensors(out);
        check_tensors(in);
        expect(out.size() == in.size() && static_cast<int>(in.size()) == size_, "all_to_all takes a tensor for each "
               "rank, and one of each");
        return start(OpType::ALLTOALL, "ddp:all_to_all", in, out, is_async(o),
                     [=](void *d) { exchange(d, out, in); });
    }

    WorkPtr barrier(const c10d::BarrierOptions &o = {}) override
    {
        return start(OpType::BARRIER, "ddp:barrier", {}, {}, is_async(o), [](void *d) {
            ddp_error e;
            check(ddp.barrier(d, &e) == 0, e);
        });
    }

    WorkPtr send(Tensors &list, int to, int tag) override
    {
        Tensors of{row_of(only(list))};
        return start_on(pair(rank_, to, tag), OpType::SEND, "ddp:send", list, of, true,
                        [of](void *d) { bcast(d, of[0], 0); });
    }

    WorkPtr recv(Tensors &list, int from, int tag) override
    {
        only(list);
        return start_on(pair(from, rank_, tag), OpType::RECV, "ddp:recv", list, list, true,
                        [list](void *d) { bcast(d, list[0], 0); });
    }

    WorkPtr recvAnysource(Tensors &, int) override
    {
        expect(false, "recv needs the rank that sends: src=");
        return {};
    }

#if TORCH_VERSION_MAJOR < 2
    void setSequenceNumberForGroup() override {}
#endif
    uint64_t getSequenceNumberForGroup() override
    {
        return n_started_;
    }

  private:
    using Kind = ReduceOp::RedOpType;

    static Kind kind(const ReduceOp &op)
    {
        return static_cast<Kind>(op);
    }

    /* The one list of a tensor for each rank, each with as many elements as `one`. */
    Tensors list_of(const std::vector<Tensors> &lists, const Tensor &one)
    {
        expect(lists.size() == 1 && static_cast<int>(lists[0].size()) == size_, "it takes a tensor for each rank");
        for (auto &t : lists[0]) {
            check_tensor(t);
            expect(t.sizes() == one.sizes() && t.scalar_type() == one.scalar_type(), "the tensors of the list differ "
                   "in shape or type from the one that goes with them");
        }
        return lists[0];
    }

    Tensors nobodys()
    {
        return Tensors(static_cast<size_t>(size_));
    }

    Tensors roots(const Tensor &t, int64_t root)
    {
        expect(root >= 0 && root < size_, "root " + std::to_string(root) + " is not one of " + std::to_string(size_) +
               " ranks");
        Tensors all = nobodys();
        all[static_cast<size_t>(root)] = t;
        return all;
    }

    static void check_pairs(const Tensors &outs, const Tensors &ins)
    {
        expect(outs.size() == ins.size(), "it takes an output for each input");
    }

    Tensors cut(const Tensor &t, const std::vector<int64_t> &splits)
    {
        check_tensor(t);
        if (!splits.empty())
            return t.split_with_sizes(splits, 0);
        expect(t.dim() > 0 && t.size(0) % size_ == 0, "the first dimension is not a multiple of the number of ranks");
        if (t.size(0) == 0) /* split would give one part */
            return Tensors(static_cast<size_t>(size_), t);
        return t.split(t.size(0) / size_, 0);
    }

    WorkPtr allgather_into_tensor_coalesced_(const Tensors &outs, const Tensors &ins, bool async)
    {
        check_pairs(outs, ins);
        for (size_t i = 0; i < ins.size(); i++) {
            check_tensor(ins[i]);
            check_tensor(outs[i]);
            expect(outs[i].is_contiguous() && outs[i].numel() == ins[i].numel() * size_ &&
                   outs[i].scalar_type() == ins[i].scalar_type(), "all_gather_into_tensor: the output is not "
                   "contiguous, of the input's type, and as many times the input as there are ranks");
        }
        return start(OpType::_ALLGATHER_BASE, "ddp:all_gather_into_tensor", ins, outs, async,
                     [=, size = size_](void *d) {
            for (size_t i = 0; i < ins.size(); i++)
                gather_row(d, ins[i], outs[i], size);
        });
    }

    WorkPtr reduce_scatter_tensor_coalesced_(const Tensors &outs, const Tensors &ins, Kind op, bool async)
    {
        check_pairs(outs, ins);
        for (size_t i = 0; i < ins.size(); i++) {
            check_tensor(ins[i]);
            check_tensor(outs[i]);
            expect(ins[i].numel() == outs[i].numel() * size_ && outs[i].scalar_type() == ins[i].scalar_type(),
                   "reduce_scatter_tensor: the input is not of the output's type, and as many times the output as "
                   "there are ranks");
        }
        return start(OpType::_REDUCE_SCATTER_BASE, "ddp:reduce_scatter_tensor", ins, outs, async,
                     [=, rank = rank_, size = size_](void *d) {
            for (size_t i = 0; i < ins.size(); i++)
                reduce_part(d, ins[i], outs[i], op, rank, size);
        });
    }

    /* A forked child has the parent's connections, and would take its place in them. */
    void check_process()
    {
        expect(pid_ == getpid(), "this process is a child that a rank has forked, and is none itself: a group is used "
               "by the process that made it");
    }

    std::shared_ptr<Lane> pair(int from, int to, int tag)
    {
        check_process();
        expect(from >= 0 && from < size_ && to >= 0 && to < size_ && from != to, "no message from rank " +
               std::to_string(from) + " to " + std::to_string(to) + " of " + std::to_string(size_));
        std::lock_guard<std::mutex> guard(pairs_lock_);
        if (is_closed_)
            fail("backend ddp: the process group was destroyed");
        auto key = std::make_tuple(from, to, tag);
        auto found = pairs_.find(key);
        if (found != pairs_.end())
            return found->second;
        Members m = members_;
        m.prefix = "pair/" + std::to_string(from) + "/" + std::to_string(to) + "/" + std::to_string(tag) + "/";
        m.name = "rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                 (m.name.empty() ? "" : ", " + m.name);
        m.what = "the first message from rank " + std::to_string(from) + " to rank " + std::to_string(to);
        m.late = "rank " + std::to_string(rank_ == from ? to : from) + " did not come before the deadline";
        m.check_group = [group = lane_] { group->check(); };
        m.rank = rank_ != from;
        m.size = 2;
        auto lane = Lane::make([m] { return communicator(m); });
        lane->start();
        pairs_[key] = lane;
        return lane;
    }

    std::vector<std::shared_ptr<Lane>> lanes()
    {
        std::vector<std::shared_ptr<Lane>> all{lane_};
        std::lock_guard<std::mutex> guard(pairs_lock_);
        for (auto &[key, lane] : pairs_)
            all.push_back(lane);
        return all;
    }

    WorkPtr start(OpType type, const char *title, const Tensors &in, const Tensors &out, bool async,
                  std::function<void(void *)> run)
    {
        check_process();
        return start_on(lane_, type, title, in, out, async, std::move(run));
    }

    WorkPtr start_on(const std::shared_ptr<Lane> &lane, OpType type, const char *title, const Tensors &in,
                     const Tensors &out, bool async, std::function<void(void *)> run)
    {
        check_outputs(out);
        auto job = c10::make_intrusive<Job>(lane, rank_, type, title, in, out, std::move(run));
        n_started_++;
        lane->submit(job, async);
        return job;
    }

    Members members_;
    pid_t pid_ = getpid();
    std::shared_ptr<Lane> lane_;
    std::mutex pairs_lock_; /* of the two below */
    bool is_closed_ = false;
    std::map<std::tuple<int, int, int>, std::shared_ptr<Lane>> pairs_;
    std::atomic<uint64_t> n_started_{0};
};

static void for_all_groups(const std::function<void(Group *)> &f)
{
    std::lock_guard<std::mutex> guard(groups_lock);
    for (Group *g : groups)
        f(g);
}

/* A store outlives its groups, where something still holds one or torchrun has it: the keys of an earlier group of that
 * name, which may be there, are others. All ranks count alike, since they open the same groups. */
static c10::intrusive_ptr<Base> create(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                                       milliseconds timeout, const std::string &node, const std::string &name)
{
    auto turn = store->add("turn/" + std::to_string(rank), 1);
    auto own = c10::make_intrusive<c10d::PrefixStore>(std::to_string(turn), store);
    return c10::make_intrusive<Group>(Members{own, "", node, name, rank, size, timeout, {}});
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    py::call_guard<py::gil_scoped_release> no_gil;
    m.def("use_library", &use_library);
    m.def("create", &create, no_gil);
    m.def("close_all", [] { for_all_groups([](Group *g) { g->close(); }); }, no_gil);
    m.def("abort_all", [](const std::string &why) { for_all_groups([&](Group *g) { g->stop(why); }); }, no_gil);
}

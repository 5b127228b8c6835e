/* libddp.h - libddp for group.cpp: its calls, its errors as exceptions, and a communicator over PyTorch's store. */
#ifndef SLURM_DDP_LIBDDP_H
#define SLURM_DDP_LIBDDP_H

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/version.h>

using std::chrono::milliseconds;

/* ---- libddp, as in ddp.h: this file needs no header of it, and takes its functions from the library that the package
 * has opened ---- */

struct ddp_error {
    int domain, code;
    char text[256];
};
enum { DDP_E_BOOT = 3 };
enum ddp_dtype { DDP_F32, DDP_F64, DDP_BF16, DDP_F16, DDP_I32, DDP_I64 };
enum ddp_op { DDP_SUM, DDP_MIN, DDP_MAX };
struct ddp_group {
    int rank, size;
    const char *node, *name;
    double timeout_s;
    void *ctx;
    int (*put)(void *, const char *, const void *, size_t, ddp_error *);
    long (*get)(void *, const char *, void *, size_t, double, ddp_error *);
};
static struct {
    void *(*group)(const ddp_group *, size_t, ddp_error *);
    void (*finalize)(void *);
    void (*abort)(void *, int, const char *);
    int (*check)(const void *, ddp_error *);
    int (*barrier)(void *, ddp_error *);
    int (*bcast)(void *, void *, size_t, int, int, ddp_error *);
    int (*allgather)(void *, const void *, size_t, int, void *, ddp_error *);
    int (*alltoall)(void *, const void *const *, const size_t *, void *const *, const size_t *, ddp_error *);
    int (*reduce_scatter)(void *, const void *, size_t, int, int, void *, ddp_error *);
    void *(*allreduce)(void *, void *, size_t, int, int, ddp_error *);
    int (*wait)(void *, ddp_error *);
} ddp;

static inline void use_library(uintptr_t handle)
{
    auto find = [&](auto &function, const char *name) {
        function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(reinterpret_cast<void *>(handle), name));
        if (!function)
            throw std::runtime_error(std::string("libddp has no ") + name + ": it is older than this package: install "
                                     "one as new");
    };
    find(ddp.group, "ddp_group_sized");
    find(ddp.finalize, "ddp_finalize");
    find(ddp.abort, "ddp_abort");
    find(ddp.check, "ddp_check");
    find(ddp.barrier, "ddp_barrier");
    find(ddp.bcast, "ddp_bcast");
    find(ddp.allgather, "ddp_allgather");
    find(ddp.alltoall, "ddp_alltoall");
    find(ddp.reduce_scatter, "ddp_reduce_scatter");
    find(ddp.allreduce, "ddp_allreduce");
    find(ddp.wait, "ddp_wait");
}

/* ---- errors ---- */

/* Of a collective: torch.distributed.DistBackendError, a RuntimeError. */
[[noreturn]] static inline void fail(const std::string &text)
{
#if TORCH_VERSION_MAJOR >= 2
    throw c10::DistBackendError({__func__, __FILE__, 0}, text);
#else
    throw std::runtime_error(text);
#endif
}

static inline std::string first_line(const std::exception &e)
{
    std::string text = e.what();
    return text.substr(0, text.find('\n'));
}

/* Of the caller: something that cannot be done. */
static inline void expect(bool is_so, const std::string &text)
{
    if (!is_so)
        throw std::invalid_argument("backend ddp: " + text);
}

/* Set by this thread's first call of libddp for a work, cleared where what follows cannot leave other ranks waiting. */
static inline thread_local bool is_midway = false;

static inline void check(bool is_good, const ddp_error &e)
{
    is_midway = true;
    if (!is_good)
        fail(e.text);
}

/* ---- a communicator ---- */

/* Why communicators of a group that are being opened shall give up, once that is set. */
class Halt {
  public:
    void set(const std::string &why)
    {
        std::lock_guard<std::mutex> guard(lock_);
        if (why_.empty())
            why_ = why;
    }

    void check()
    {
        std::lock_guard<std::mutex> guard(lock_);
        if (!why_.empty())
            throw std::runtime_error(why_);
    }

  private:
    std::mutex lock_;
    std::string why_;
};

/* Who the ranks of one are. Its keys in the store begin with `prefix`. */
struct Members {
    c10::intrusive_ptr<c10d::Store> store;
    std::string prefix, node, name;
    int rank, size;
    milliseconds timeout;
    std::shared_ptr<Halt> halt;
    std::function<void()> check_group; /* of a pair: throws where its group has failed */
    std::string what;                  /* of a pair: what it is for, with numbers in the group; it failed */
    std::string why;                   /* for this reason */
    std::string late = "not before the deadline"; /* the reason where nobody comes */
};

/* Throws where there is nothing left to wait for. */
static inline void check_hope(const Members &m)
{
    m.halt->check();
    if (m.check_group)
        m.check_group();
}

/* Calls f on the store. One that fails has most often gone with its rank: a moment later the communicator of the group
 * knows which one that was. */
template <class F> static auto in_store(const Members &m, F f)
{
    try {
        return f(*m.store);
    } catch (const std::exception &) {
        for (int i = 0; i < 50 && m.check_group; i++) { /* for a second */
            check_hope(m);
            std::this_thread::sleep_for(milliseconds(20));
        }
        throw;
    }
}

static inline void refuse(Members *m, ddp_error *e, const std::exception &why)
{
    m->why = first_line(why);
    e->domain = DDP_E_BOOT;
    e->code = EPROTO;
    snprintf(e->text, sizeof e->text, "%s", m->why.c_str());
}

static inline int store_put(void *ctx, const char *key, const void *data, size_t n, ddp_error *e)
{
    auto *m = static_cast<Members *>(ctx);
    try {
        auto *bytes = static_cast<const uint8_t *>(data);
        in_store(*m, [&](c10d::Store &s) { s.set(m->prefix + key, std::vector<uint8_t>(bytes, bytes + n)); });
        return 0;
    } catch (const std::exception &why) {
        refuse(m, e, why);
        return -1;
    }
}

/* By looking again and again: while a thread waits in a store, it keeps all others of its process out. */
static inline void wait_for(const Members &m, const std::string &key, double timeout_s)
{
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
    for (milliseconds pause(1);; pause = std::min(pause * 2, milliseconds(20))) {
        check_hope(m);
        if (in_store(m, [&](c10d::Store &s) { return s.check({key}); }))
            return;
        if (std::chrono::steady_clock::now() > end)
            throw std::runtime_error(m.late);
        std::this_thread::sleep_for(pause);
    }
}

static inline long store_get(void *ctx, const char *key, void *data, size_t size, double timeout_s, ddp_error *e)
{
    auto *m = static_cast<Members *>(ctx);
    try {
        wait_for(*m, m->prefix + key, timeout_s);
        std::vector<uint8_t> value = in_store(*m, [&](c10d::Store &s) { return s.get(m->prefix + key); });
        memcpy(data, value.data(), std::min(size, value.size()));
        return static_cast<long>(value.size());
    } catch (const std::exception &why) {
        refuse(m, e, why);
        return -1;
    }
}

static inline void *communicator(Members m)
{
    ddp_error e{};
    ddp_group g{m.rank, m.size, m.node.c_str(), m.name.empty() ? nullptr : m.name.c_str(),
                static_cast<double>(m.timeout.count()) / 1000, &m, store_put, store_get};
    void *d = ddp.group(&g, sizeof g, &e);
    if (!d && !m.what.empty() && !m.why.empty())
        fail(m.what + ": " + m.why);
    check(d != nullptr, e);
    return d;
}

#endif

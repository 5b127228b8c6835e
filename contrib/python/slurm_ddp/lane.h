/* lane.h - a communicator with a queue of works, which are carried out in order by whoever waits for one, else by the
 * lane's thread. */
#ifndef SLURM_DDP_LANE_H
#define SLURM_DDP_LANE_H

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/ThreadLocalState.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "libddp.h"

using c10d::OpType;
using Tensors = std::vector<at::Tensor>;

class Lane;

/* One collective, in flight or over. `run` is given the lane's communicator. */
class Job : public c10d::Work {
  public:
    Job(std::shared_ptr<Lane> lane, int rank, OpType type, const char *title, const Tensors &in, Tensors out,
        std::function<void(void *)> run)
        : Work(rank, type, title, in), lane_(std::move(lane)), out_(std::move(out)), run_(std::move(run))
    {
    }

    bool wait(milliseconds timeout = kNoTimeout) override;

    Tensors result() override
    {
        return out_;
    }

    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override
    {
        std::lock_guard<std::mutex> guard(future_lock_);
        if (!future_) {
            future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
            if (isCompleted())
                tell(*future_);
        }
        return future_;
    }

    /* d is nullptr where the lane is broken, for the reason `why`. */
    void carry_out(void *d, std::exception_ptr why)
    {
        if (!why) {
            try {
                at::ThreadLocalStateGuard as_the_caller(state_);
                at::NoGradGuard no_grad;
                run_(d);
            } catch (...) {
                why = std::current_exception();
            }
        }
        run_ = nullptr;
        finish(why);
    }

    /* Afterwards: tells the future, if somebody has asked for it. Its callbacks may wait for other works of the lane;
     * before_callbacks is called first where there may be some. */
    void complete(const std::function<void()> &before_callbacks = [] {})
    {
        c10::intrusive_ptr<Future> future;
        {
            std::lock_guard<std::mutex> guard(future_lock_);
            future = future_;
        }
        if (!future || future->completed())
            return;
        before_callbacks();
        tell(*future);
    }

  private:
    using Future = c10::ivalue::Future;

    void tell(Future &future)
    {
        if (exception())
            future.setError(exception());
        else
            future.markCompleted(c10::IValue(out_));
    }

    std::shared_ptr<Lane> lane_;
    Tensors out_;
    std::function<void(void *)> run_;
    at::ThreadLocalState state_; /* of the caller: inference_mode and the like */
    std::mutex future_lock_;
    c10::intrusive_ptr<Future> future_;
};

class Lane : public std::enable_shared_from_this<Lane> {
  public:
    /* Opened by its first work, where that is not to be waited for: `open` may have to wait for another rank. When the
     * lane breaks, on_break is told why. In a forked child, which has neither its threads nor its connections, it is
     * never freed: that would wait for threads that wait for a work. */
    static std::shared_ptr<Lane> make(std::function<void *()> open,
                                      std::function<void(const std::string &)> on_break = {})
    {
        return {new Lane(std::move(open), std::move(on_break)), [](Lane *lane) {
            if (lane->pid_ == getpid())
                delete lane;
        }};
    }

    void start()
    {
        std::lock_guard<std::mutex> guard(lock_);
        add_thread();
    }

    void open()
    {
        if (d_)
            return;
        void *d = open_();
        std::lock_guard<std::mutex> guard(lock_);
        d_ = d;
        if (!why_.empty())
            ddp.abort(d_, 1, why_.c_str());
    }

    void submit(const c10::intrusive_ptr<Job> &job, bool is_async)
    {
        std::lock_guard<std::mutex> guard(lock_);
        if (is_closed_)
            fail("backend ddp: the process group was destroyed");
        queue_.push_back(job);
        if (is_async) /* else the caller waits, and so carries it out */
            changed_.notify_one();
    }

    /* Carries out works, or waits until another thread has: until `last` is over, or the lane is closed. */
    void drive(Job *last)
    {
        std::unique_lock<std::mutex> lock(lock_);
        while (last ? !last->isCompleted() : !is_closed_) {
            if (running_ || queue_.empty()) {
                changed_.wait(lock);
                continue;
            }
            auto job = std::move(queue_.front());
            queue_.pop_front();
            running_ = job.get();
            lock.unlock();
            run(*job);
            lock.lock();
            running_ = nullptr;
            changed_.notify_all();
            lock.unlock();
            complete(*job, !last);
            job.reset();
            lock.lock();
        }
    }

    /* What is in flight fails, here and on the other ranks. */
    void abort(const char *why)
    {
        std::lock_guard<std::mutex> guard(lock_);
        abort_locked(why);
    }

    /* Throws where it has failed, whether or not a work has said so. */
    void check()
    {
        ddp_error e;
        std::lock_guard<std::mutex> guard(lock_);
        if (d_ && ddp.check(d_, &e) < 0)
            throw std::runtime_error(e.text);
    }

    void close()
    {
        if (pid_ != getpid())
            return;
        std::unique_lock<std::mutex> lock(lock_);
        if (is_closed_)
            return;
        is_closed_ = true;
        auto left = std::move(queue_);
        queue_.clear();
        bool is_over = !running_ || running_->isCompleted(); /* who has waited for one may come before it is put away */
        if (!is_over || !left.empty())
            abort_locked("the process group was destroyed with works in flight");
        lock.unlock();
        for (auto &job : left)
            job->carry_out(nullptr, reason("backend ddp: the process group was destroyed"));
        lock.lock();
        changed_.notify_all();
        lock.unlock();
        for (auto &job : left)
            job->complete();
        for (auto &thread : threads_) /* none is added to a closed lane */
            thread.join();
        lock.lock();
        changed_.wait(lock, [this] { return !running_; }); /* another thread that waits for a work carries one out */
        ddp.finalize(d_);
        d_ = nullptr;
    }

  private:
    Lane(std::function<void *()> open, std::function<void(const std::string &)> on_break)
        : open_(std::move(open)), on_break_(std::move(on_break)), pid_(getpid())
    {
    }

    ~Lane()
    {
        close();
    }

    static std::exception_ptr reason(const std::string &text)
    {
        try {
            fail(text);
        } catch (...) {
            return std::current_exception();
        }
    }

    /* Where there can be no other one the lane is of no use, which the other ranks are told, too. */
    void add_thread()
    {
        try {
            threads_.emplace_back([this] { drive(nullptr); });
        } catch (const std::system_error &e) {
            auto why = "backend ddp: thread for works (ulimit -u, ulimit -v): " + e.code().message();
            abort_locked(why.c_str());
            fail(why);
        }
        n_free_++;
    }

    void abort_locked(const char *why)
    {
        why_ = why;
        if (d_)
            ddp.abort(d_, 1, why);
    }

    /* Works that come after that fail for the same reason. */
    void check_aborted()
    {
        std::lock_guard<std::mutex> guard(lock_);
        if (!why_.empty())
            fail(why_);
    }

    /* While one of the lane's threads is in callbacks, which may wait for works, another carries those out. */
    void complete(Job &job, bool is_own_thread)
    {
        bool is_away = false;
        job.complete([&] {
            std::lock_guard<std::mutex> guard(lock_);
            if (!is_own_thread || is_closed_)
                return;
            is_away = true;
            if (--n_free_ == 0) {
                try {
                    add_thread();
                } catch (...) { /* the next work says so */
                }
            }
        });
        std::lock_guard<std::mutex> guard(lock_);
        n_free_ += is_away;
    }

    /* After a collective that failed, the others fail for its reason. One that an exception of another kind has ended
     * in mid-protocol fails on the other ranks, too. */
    void run(Job &job)
    {
        if (broken_) {
            job.carry_out(nullptr, broken_);
            return;
        }
        try {
            open();
            check_aborted();
        } catch (...) {
            broken_ = std::current_exception();
        }
        is_midway = false;
        job.carry_out(d_, broken_);
        if (!broken_ && !job.isSuccess() && (is_midway || is_backend_error(job.exception()))) {
            broken_ = job.exception();
            if (!is_backend_error(broken_))
                abort(text_of(broken_).c_str());
        }
        if (broken_ && on_break_)
            on_break_(text_of(broken_));
    }

    static std::string text_of(const std::exception_ptr &e)
    {
        try {
            std::rethrow_exception(e);
        } catch (const std::exception &why) {
            return first_line(why);
        } catch (...) {
            return "an exception";
        }
    }

    static bool is_backend_error(const std::exception_ptr &e)
    {
        try {
            std::rethrow_exception(e);
#if TORCH_VERSION_MAJOR >= 2
        } catch (const c10::DistBackendError &) {
#else
        } catch (const std::runtime_error &) {
#endif
            return true;
        } catch (...) {
            return false;
        }
    }

    std::function<void *()> open_;
    std::function<void(const std::string &)> on_break_;
    pid_t pid_;
    void *d_ = nullptr;
    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<c10::intrusive_ptr<Job>> queue_;
    Job *running_ = nullptr;
    bool is_closed_ = false;
    std::exception_ptr broken_;
    std::string why_;                 /* it was aborted */
    std::vector<std::thread> threads_;
    int n_free_ = 0;                  /* of them, those that are not in callbacks */
};

bool Job::wait(milliseconds timeout)
{
    if (timeout == kNoTimeout || timeout == milliseconds(-1))
        lane_->drive(this);
    return Work::wait(timeout);
}

#endif

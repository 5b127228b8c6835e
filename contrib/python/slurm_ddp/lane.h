/* lane.h - a communicator with a queue of works, which are carried out in order by whoever waits for one, else by the
 * lane's thread. */
#ifndef SLURM_DDP_LANE_H
#define SLURM_DDP_LANE_H

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include <ATen/ATen.h>
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
        : Work(rank, type, title, in), lane_(std::move(lane)), out_(std::move(out)), run_(std::move(run)),
          future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get())))
    {
    }

    bool wait(milliseconds timeout = kNoTimeout) override;

    Tensors result() override
    {
        return out_;
    }

    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override
    {
        return future_;
    }

    /* d is nullptr where the lane is broken, for the reason `why`. */
    void carry_out(void *d, std::exception_ptr why)
    {
        if (!why) {
            try {
                at::NoGradGuard no_grad;
                run_(d);
            } catch (...) {
                why = std::current_exception();
            }
        }
        run_ = nullptr;
        finish(why);
        if (why)
            future_->setError(why);
        else
            future_->markCompleted(c10::IValue(out_));
    }

  private:
    std::shared_ptr<Lane> lane_;
    Tensors out_;
    std::function<void(void *)> run_;
    c10::intrusive_ptr<c10::ivalue::Future> future_;
};

class Lane : public std::enable_shared_from_this<Lane> {
  public:
    /* Opened by its first work, where that is not to be waited for: `open` may have to wait for another rank. */
    explicit Lane(std::function<void *()> open) : open_(std::move(open)), pid_(getpid()) {}

    ~Lane()
    {
        close();
    }

    void start()
    {
        thread_ = std::thread([this] { drive(nullptr); });
    }

    void open()
    {
        if (!d_)
            d_ = open_();
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
            if (is_running_ || queue_.empty()) {
                changed_.wait(lock);
                continue;
            }
            auto job = std::move(queue_.front());
            queue_.pop_front();
            is_running_ = true;
            lock.unlock();
            run(*job);
            job.reset();
            lock.lock();
            is_running_ = false;
            changed_.notify_all();
        }
    }

    /* What is in flight fails, here and on the other ranks. */
    void abort(const char *why)
    {
        std::lock_guard<std::mutex> guard(lock_);
        if (d_)
            ddp.abort(d_, 1, why);
    }

    void close()
    {
        if (pid_ != getpid()) { /* a forked child: neither thread nor connections are its own */
            if (thread_.joinable())
                thread_.detach();
            return;
        }
        std::unique_lock<std::mutex> lock(lock_);
        if (is_closed_)
            return;
        is_closed_ = true;
        auto left = std::move(queue_);
        queue_.clear();
        if (d_ && (is_running_ || !left.empty()))
            ddp.abort(d_, 1, "the process group was destroyed with works in flight");
        changed_.notify_all();
        lock.unlock();
        if (thread_.joinable())
            thread_.join();
        for (auto &job : left)
            job->carry_out(nullptr, reason("backend ddp: the process group was destroyed"));
        lock.lock();
        changed_.wait(lock, [this] { return !is_running_; }); /* another thread that waits for a work carries one out */
        ddp.finalize(d_);
        d_ = nullptr;
    }

  private:
    static std::exception_ptr reason(const std::string &text)
    {
        try {
            fail(text);
        } catch (...) {
            return std::current_exception();
        }
    }

    /* After a collective that failed, the others fail for its reason. */
    void run(Job &job)
    {
        try {
            if (!broken_)
                open();
        } catch (...) {
            broken_ = std::current_exception();
        }
        job.carry_out(d_, broken_);
        if (!broken_ && !job.isSuccess() && is_backend_error(job.exception()))
            broken_ = job.exception();
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
    pid_t pid_;
    void *d_ = nullptr;
    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<c10::intrusive_ptr<Job>> queue_;
    bool is_running_ = false, is_closed_ = false;
    std::exception_ptr broken_;
    std::thread thread_;
};

bool Job::wait(milliseconds timeout)
{
    if (timeout == kNoTimeout || timeout == milliseconds(-1))
        lane_->drive(this);
    return Work::wait(timeout);
}

#endif

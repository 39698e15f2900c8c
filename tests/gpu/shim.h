// Enough of CUDA to compile kernels without barriers for the host. One host thread plays many device threads: one after
// another in an order drawn from a seed, or as fibers that are preempted at every atomic operation.
#pragma once
#include <cmath>
#include <cstring>
#include <thread>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__

struct Dim3 {
    unsigned x, y, z;
};
static thread_local Dim3 threadIdx, blockIdx, blockDim, gridDim;

struct Random {  // xorshift; <random> would double the time to compile
    unsigned state;
    unsigned operator()() {
        state ^= state << 13;
        state ^= state >> 17;
        return state ^= state << 5;
    }
};

// How a launch is played: `first` blocks are skipped, so that the far end of a huge launch can be looked at.
struct Launch {
    unsigned grid, block, seed, workers, first, fibers;
};

struct Fiber {
    ucontext_t here;
    std::vector<char> stack;
    unsigned number = 0;
    bool running = false;
};
struct Fibers {
    ucontext_t home;
    Random random;
    Fiber* now = nullptr;
    void (*run)(void*) = nullptr;
    void* kernel = nullptr;
};
static thread_local Fibers* fibers = nullptr;

static inline void preempt() {
    if (fibers && fibers->random() % 2) swapcontext(&fibers->now->here, &fibers->home);
}

static inline void fiber_body() {
    fibers->run(fibers->kernel);
    fibers->now->running = false;
    setcontext(&fibers->home);
}

static inline void place(const Launch& how, unsigned number) {
    gridDim = {how.first + how.grid, 1, 1};
    blockDim = {how.block, 1, 1};
    blockIdx = {how.first + number / how.block, 0, 0};
    threadIdx = {number % how.block, 0, 0};
}

template <class Kernel>
void play_fibers(const Launch& how, const std::vector<unsigned>& order, Kernel kernel) {
    Fibers all;
    all.random = {how.seed * 2654435761u + 1};
    all.kernel = &kernel;
    all.run = [](void* k) { (*(Kernel*)k)(); };
    fibers = &all;
    static thread_local std::vector<Fiber> live(48);  // kept: making their stacks takes longer than most launches
    size_t next = 0, running = 0;
    for (;;) {
        for (auto& f : live) {
            if (f.running || next == order.size()) continue;
            f.stack.resize(32 << 10);
            f.number = order[next++];
            f.running = true;
            getcontext(&f.here);
            f.here.uc_stack.ss_sp = f.stack.data();
            f.here.uc_stack.ss_size = f.stack.size();
            f.here.uc_link = nullptr;
            makecontext(&f.here, fiber_body, 0);
        }
        running = 0;
        for (auto& f : live) running += f.running;
        if (!running) break;
        size_t pick = all.random() % running;
        for (auto& f : live)
            if (f.running && pick-- == 0) {
                all.now = &f;
                place(how, f.number);
                swapcontext(&all.home, &f.here);
                break;
            }
    }
    fibers = nullptr;
}

// Runs `kernel()` for every device thread of a launch.
template <class Kernel>
void play(const Launch& how, Kernel kernel) {
    std::vector<unsigned> order((size_t)how.grid * how.block);
    Random random{how.seed * 2654435761u + 1};
    for (size_t k = 0; k < order.size(); ++k) {
        const size_t other = random() % (k + 1);
        order[k] = order[other];
        order[other] = (unsigned)k;
    }
    if (how.fibers) return play_fibers(how, order, kernel);
    auto part = [&](unsigned w) {
        for (size_t k = w; k < order.size(); k += how.workers) {
            place(how, order[k]);
            kernel();
        }
    };
    std::vector<std::thread> threads;
    for (unsigned w = 1; w < how.workers; ++w) threads.emplace_back(part, w);
    part(0);
    for (auto& t : threads) t.join();
}

// Atomic operations, and the load that sees what other threads wrote.
template <class T>
T atomicCAS(T* p, T expected, T wanted) {
    preempt();
    __atomic_compare_exchange_n(p, &expected, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    preempt();
    return expected;
}
template <class T>
T atomicAdd(T* p, T v) {
    preempt();
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
template <class T>
T atomicMin(T* p, T v) {
    preempt();
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (v < old && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
template <class T>
T __ldcg(const T* p) {
    preempt();
    T v = __atomic_load_n(p, __ATOMIC_RELAXED);
    preempt();
    return v;
}
static inline float __uint_as_float(unsigned bits) {
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

// Enough of CUDA to compile kernels without barriers or atomics for the host. One host thread plays many device threads.
#pragma once
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline

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

// Runs `kernel()` for every device thread of a launch, in an order drawn from `seed`, on `workers` host threads.
template <class Kernel>
void play(unsigned grid, unsigned block, unsigned seed, unsigned workers, Kernel kernel) {
    std::vector<unsigned> order((size_t)grid * block);
    Random random{seed * 2654435761u + 1};
    for (size_t k = 0; k < order.size(); ++k) {
        const size_t other = random() % (k + 1);
        order[k] = order[other];
        order[other] = (unsigned)k;
    }
    auto part = [&](unsigned w) {
        gridDim = {grid, 1, 1};
        blockDim = {block, 1, 1};
        for (size_t k = w; k < order.size(); k += workers) {
            blockIdx = {order[k] / block, 0, 0};
            threadIdx = {order[k] % block, 0, 0};
            kernel();
        }
    };
    std::vector<std::thread> threads;
    for (unsigned w = 1; w < workers; ++w) threads.emplace_back(part, w);
    part(0);
    for (auto& t : threads) t.join();
}

// Runs every kernel of rows.cu on small exact-sized arrays from several host threads; for sanitizer builds.
#include "shim.h"
#include SOURCE

int main() {
    const int n = 37, slots = 3, unique = 11, width = 9, low = 2, dim = 5, pad = 4, block = 32;
    Random rng{1};
    std::vector<float> values(unique * width), gradient(unique * width), y(n * slots * dim), pooled(n * dim);
    std::vector<int> inverse(n * slots), order(n * slots), sample(n * slots), kept(n), winner(n * dim);
    std::vector<long long> offsets(n + 1), starts(unique + 1);
    for (auto& v : values) v = (float)(rng() % 1000) / 100;
    for (auto& r : inverse) r = (int)(rng() % (unique + 1)) - 1;
    for (int i = 0; i <= n; ++i) offsets[i] = (long long)i * slots;
    for (int p = 0; p < n * slots; ++p) sample[p] = p / slots;
    size_t at = 0;
    for (int r = -1; r <= unique; ++r) {
        if (r >= 0) starts[r] = (long long)at;
        for (int p = 0; p < n * slots; ++p)
            if (inverse[p] == r) order[at++] = p;
    }
    auto blocks = [&](long long count) { return (unsigned)((count + block - 1) / block); };
    for (unsigned seed = 0; seed < 20; ++seed) {
        long long count = (long long)n * slots * dim;
        play(blocks(count), block, seed, 4, [&] {
            gather_rows(values.data(), width, low, dim, inverse.data(), pad, y.data(), slots * dim, slots, count);
        });
        for (int mode = NONE; mode <= MAX; ++mode) {
            count = (long long)n * dim;
            if (mode != NONE)
                play(blocks(count), block, seed, 4, [&] {
                    pool_rows(values.data(), width, low, dim, inverse.data(), offsets.data(), pad, mode, pooled.data(),
                              dim, kept.data(), winner.data(), count);
                });
            const float* dy = mode == NONE ? y.data() : pooled.data();
            const long long stride = mode == NONE ? slots * dim : dim;
            count = (long long)unique * dim;
            play(blocks(count), block, seed, 4, [&] {
                scatter_rows(gradient.data(), width, low, dim, order.data(), starts.data(), pad, mode, sample.data(),
                             kept.data(), winner.data(), dy, stride, slots, count);
            });
        }
    }
    return 0;
}

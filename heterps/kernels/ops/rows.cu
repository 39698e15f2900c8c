// Pulled rows to positions of the batch, and their gradients back to rows.
//
// No atomics, no barriers, no shared memory: every thread writes numbers that no other thread touches. Backward walks the
// positions of a row in the order of the batch (they are sorted by row first, stably), so sums have the same bits as the
// CPU loops and as any other launch. Compile with --fmad=false to keep it so.
//
// A row number below zero, or equal to `pad`, is padding: zeros forward, nothing backward.

#define NONE 0
#define SUM 1
#define MEAN 2
#define MAX 3

static __device__ __forceinline__ long long thread_number() {
    return (long long)blockIdx.x * blockDim.x + threadIdx.x;
}

// One thread per position and column. Sample i of y starts at i * stride and has `slots` rows of `dim` numbers.
extern "C" __global__ void gather_rows(const float* values, int width, int low, int dim, const int* inverse, int pad,
                                       float* y, long long stride, int slots, long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    const long long p = i / dim;
    const int d = (int)(i % dim);
    const int row = inverse[p];
    const bool padding = row < 0 || row == pad;
    y[(p / slots) * stride + (p % slots) * dim + d] = padding ? 0.0f : values[(long long)row * width + low + d];
}

// One thread per sample and column. Leaves the number of rows that counted in `kept`, and for MAX the winning position.
extern "C" __global__ void pool_rows(const float* values, int width, int low, int dim, const int* inverse,
                                     const long long* offsets, int pad, int mode, float* y, long long stride, int* kept,
                                     int* winner, long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    const long long s = i / dim;
    const int d = (int)(i % dim);
    float total = 0.0f;
    int rows = 0, best = -1;
    for (long long p = offsets[s]; p < offsets[s + 1]; ++p) {
        const int row = inverse[p];
        if (row < 0 || row == pad) continue;
        const float v = values[(long long)row * width + low + d];
        if (mode != MAX) {
            total += v;
        } else if (best < 0 || v > total) {
            total = v;
            best = (int)p;
        }
        ++rows;
    }
    if (mode == MEAN && rows > 1) total /= (float)rows;
    y[s * stride + d] = total;
    if (mode == MAX) winner[i] = best;
    if (d == 0) kept[s] = rows;
}

// One thread per row and column. Positions of row r are order[starts[r]] .. order[starts[r + 1] - 1], ascending.
extern "C" __global__ void scatter_rows(float* gradient, int width, int low, int dim, const int* order,
                                        const long long* starts, int pad, int mode, const int* sample, const int* kept,
                                        const int* winner, const float* dy, long long stride, int slots,
                                        long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    const long long row = i / dim;
    const int d = (int)(i % dim);
    if (row == pad) return;
    float total = gradient[row * width + low + d];
    for (long long k = starts[row]; k < starts[row + 1]; ++k) {
        const long long p = order[k];
        if (mode == NONE) {
            total += dy[(p / slots) * stride + (p % slots) * dim + d];
            continue;
        }
        const long long s = sample[p];
        const float g = dy[s * stride + d];
        if (mode == SUM) total += g;
        if (mode == MEAN) total += g / (float)(kept[s] > 1 ? kept[s] : 1);
        if (mode == MAX && winner[s * dim + d] == p) total += g;
    }
    gradient[row * width + low + d] = total;
}

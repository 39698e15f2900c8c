// Passes over a batch that array functions would take several launches for. Float32.
//
// No atomics, no barriers: every number is written by one thread, and sums have a fixed shape, so that bits repeat on
// any device. Compile with --fmad=false.

typedef unsigned long long u64;

static __device__ __forceinline__ long long thread_number() {
    return (long long)blockIdx.x * blockDim.x + threadIdx.x;
}

// y = max(y + bias, 0) or y + bias, in place; rows of y lie `stride` apart. NaN stays NaN.
extern "C" __global__ void add_bias(float* y, long long stride, const float* bias, int width, int relu, long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    const int column = (int)(i % width);
    float* at = y + (i / width) * stride + column;
    const float v = *at + bias[column];
    *at = relu && v < 0.0f ? 0.0f : v;
}

// dz = 0 where y is not positive, in place.
extern "C" __global__ void relu_slope(float* dz, long long dz_stride, const float* y, long long y_stride, int width,
                                      long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    const long long row = i / width, column = i % width;
    if (y[row * y_stride + column] <= 0.0f) dz[row * dz_stride + column] = 0.0f;
}

// Sums of columns in two steps: one thread per column and chunk of rows, then one thread per column over the chunks.
extern "C" __global__ void sum_columns(const float* a, long long stride, long long rows, int width, long long chunk,
                                       float* sums, long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    const long long column = i % width, first = (i / width) * chunk;
    const long long last = first + chunk < rows ? first + chunk : rows;
    float total = 0.0f;
    for (long long row = first; row < last; ++row) total += a[row * stride + column];
    sums[i] = total;
}

// y = x * factor where the number drawn for its position reaches the threshold, else 0 (kernels/random.py).
extern "C" __global__ void drop(const float* x, float* y, u64 seed, u64 threshold, float factor, long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    u64 z = seed + (u64)(i + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    y[i] = (z >> 32) >= threshold ? x[i] * factor : 0.0f;
}

// Probabilities, and the loss of samples t, t + lanes, ... added up in double precision: one thread per lane.
extern "C" __global__ void logloss(const float* z, const float* label, const float* weight, int weighted, float* p,
                                   double* partial, int lanes, long long n) {
    const long long lane = thread_number();
    if (lane >= lanes) return;
    double total = 0.0;
    for (long long i = lane; i < n; i += lanes) {
        const double x = z[i], e = exp(-fabs(x));
        p[i] = (float)(x >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e));
        const double loss = fmax(x, 0.0) - x * (double)label[i] + log1p(e);
        total += weighted ? loss * (double)weight[i] : loss;
    }
    partial[lane] = total;
}

// The mean of all lanes, by one thread in the order of the lanes.
extern "C" __global__ void mean_of_lanes(const double* partial, int lanes, float* y, long long n) {
    if (thread_number() != 0) return;
    double total = 0.0;
    for (int lane = 0; lane < lanes; ++lane) total += partial[lane];
    *y = (float)(total / (double)(n > 0 ? n : 1));
}

// (p - label) w / n.
extern "C" __global__ void logloss_slope(const float* p, const float* label, const float* weight, int weighted, float* dz,
                                         float scale, long long n) {
    const long long i = thread_number();
    if (i >= n) return;
    const float g = (p[i] - label[i]) * scale;
    dz[i] = weighted ? g * weight[i] : g;
}

// Dot products of pairs (1,0), (2,0), (2,1), ...: one thread per sample and pair. z is [n, fields, dim], samples of y lie
// `stride` apart.
extern "C" __global__ void dot_pairs(const float* z, long long z_stride, int dim, int pairs, float* y, long long stride,
                                     long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    const long long sample = i / pairs;
    const int pair = (int)(i % pairs);
    int left = (int)((1.0f + sqrtf(1.0f + 8.0f * (float)pair)) * 0.5f);  // may be one off; mended below
    while ((long long)left * (left - 1) / 2 > pair) --left;
    while ((long long)left * (left + 1) / 2 <= pair) ++left;
    const long long right = pair - (long long)left * (left - 1) / 2;
    const float *a = z + sample * z_stride + (long long)left * dim, *b = z + sample * z_stride + right * dim;
    float total = 0.0f;
    for (int d = 0; d < dim; ++d) total += a[d] * b[d];
    y[sample * stride + pair] = total;
}

// dz[field] = sum over the other fields of the pair's gradient times their vector: one thread per sample, field, column.
extern "C" __global__ void dot_pairs_slope(const float* z, long long z_stride, int fields, int dim, const float* dy,
                                           long long stride, float* dz, long long dz_stride, long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    const int d = (int)(i % dim);
    const int field = (int)(i / dim % fields);
    const long long sample = i / dim / fields;
    const float* g = dy + sample * stride;
    float total = 0.0f;
    for (int other = 0; other < fields; ++other) {
        if (other == field) continue;
        const long long high = other > field ? other : field, low = other > field ? field : other;
        total += g[high * (high - 1) / 2 + low] * z[sample * z_stride + (long long)other * dim + d];
    }
    dz[sample * dz_stride + (long long)field * dim + d] = total;
}

// Rows of a group in device memory: an index by id (open addressing), values out, gradients in.
//
// The only atomics are on integers: a compare-and-swap claims a place of the index, and counters count. Which place an id
// gets may depend on the order of threads; its row number, its values and everything else do not. Every float is
// written by one thread, and sums go over positions in the order of the batch. Compile with --fmad=false: rules then have
// the bits of the CPU loops (tables/loops/update.py).

typedef unsigned long long u64;
#define FREE 0xFFFFFFFFFFFFFFFFull  // a place without an id; also never a legal id

static __device__ __forceinline__ long long thread_number() {
    return (long long)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ u64 mix(u64 x) {  // tables/hashing.py
    u64 z = x + 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// Upper bits: the lower ones chose the logical shard, so on one host they are all alike.
static __device__ __forceinline__ u64 home(u64 id, u64 mask) { return (mix(id) >> 32) & mask; }

// rows[i] = the row of ids[i], -1 if it has none. counts[0] += ids without a row, counts[1] += reserved ids.
extern "C" __global__ void find_rows(const u64* keys, const int* places, u64 mask, const u64* ids, int* rows, int* counts,
                                     long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    const u64 id = ids[i];
    int row = -1;
    u64 at = home(id, mask);
    for (u64 probe = 0; probe <= mask && id != FREE; ++probe) {
        const u64 key = keys[at];
        if (key == FREE) break;
        if (key == id) {
            row = places[at];
            break;
        }
        at = (at + 1) & mask;
    }
    rows[i] = row;
    if (row < 0) atomicAdd(&counts[0], 1);
    if (id == FREE) atomicAdd(&counts[1], 1);
}

// Enters ids, each once and none of them known, with their rows; those with a negative row are left out.
// counts[2] += ids for which there was no place.
extern "C" __global__ void insert_ids(u64* keys, int* places, u64 mask, const u64* ids, const int* rows, int* counts,
                                      long long count) {
    const long long i = thread_number();
    if (i >= count || rows[i] < 0) return;
    u64 at = home(ids[i], mask);
    for (u64 probe = 0; probe <= mask; ++probe) {
        if (__ldcg(&keys[at]) == FREE && atomicCAS(&keys[at], FREE, ids[i]) == FREE) {
            places[at] = rows[i];
            return;
        }
        at = (at + 1) & mask;
    }
    atomicAdd(&counts[2], 1);
}

// First values of new rows (specs/initialisers.py): one thread per row; code 0 uniform, 1 normal.
extern "C" __global__ void draw_values(float* words, long long stride, const int* rows, const u64* ids, int column, int n,
                                       int code, double a, double b, u64 key, long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    const u64 base = mix(ids[i] ^ key);
    float* out = words + rows[i] * stride + column;
    for (int j = 0; j < n; j += 2) {
        const u64 bits = mix(base + (u64)j);
        double first = ((double)(bits & 0xFFFFFFFFull) + 0.5) * (1.0 / 4294967296.0);
        double second = ((double)(bits >> 32) + 0.5) * (1.0 / 4294967296.0);
        if (code == 0) {
            first = a + (b - a) * first;
            second = a + (b - a) * second;
        } else {
            const double radius = b * sqrt(-2.0 * log(first)), angle = 6.283185307179586 * second;
            first = a + radius * cos(angle);
            second = a + radius * sin(angle);
        }
        out[j] = (float)first;
        if (j + 1 < n) out[j + 1] = (float)second;
    }
}

// One thread per row and column; zeros for rows below zero.
extern "C" __global__ void read_values(const float* words, long long stride, int width, const int* rows, float* values,
                                       long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    const long long row = rows[i / width];
    values[i] = row < 0 ? 0.0f : words[row * stride + i % width];
}

// One thread per id and column: gradients of the positions of an id, added in the order of the batch.
extern "C" __global__ void merge_gradients(const float* gradients, int width, const int* order, const long long* starts,
                                           float* merged, long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    const long long id = i / width, column = i % width;
    float total = 0.0f;
    for (long long k = starts[id]; k < starts[id + 1]; ++k) total += gradients[(long long)order[k] * width + column];
    merged[i] = total;
}

// rows[i] = -1 where the gradient of row i has a number that is not finite; counts[0] += such rows.
extern "C" __global__ void skip_rows(const float* gradients, int width, int* rows, int* counts, long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    bool good = true;
    for (int j = 0; j < width; ++j) good = good && fabsf(gradients[i * width + j]) <= 3.402823466e38f;
    if (good) return;
    rows[i] = -1;
    atomicAdd(&counts[0], 1);
}

// The rules. p: lower and upper bound, then the rule's numbers. w: n values, s: slots, g: n gradients.

static __device__ __forceinline__ float bound(const float* p, float w) { return w < p[0] ? p[0] : w > p[1] ? p[1] : w; }

static __device__ __forceinline__ float sum_squares(const float* g, int n) {
    float t[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    const int whole = n & ~7;
    for (int j = 0; j < whole; ++j) t[j & 7] += g[j] * g[j];
    for (int j = whole; j < n; ++j) t[0] += g[j] * g[j];
    return ((t[0] + t[4]) + (t[1] + t[5])) + ((t[2] + t[6]) + (t[3] + t[7]));
}

static __device__ __forceinline__ void step_by(const float* p, float* w, const float* g, int n, float rate) {
    for (int j = 0; j < n; ++j) w[j] = bound(p, w[j] - rate * g[j]);
}

static __device__ __forceinline__ float inverse_of(const float* p, float scale) {
    return p[4] > 0.0f && scale > 0.0f ? 1.0f / scale : 1.0f;
}

static __device__ void adagrad(const float* p, float* w, float* s, const float* g, int n, float scale) {
    const float initial = p[3], inverse = inverse_of(p, scale);
    const float rate = p[2] * inverse * sqrtf(initial / (initial + s[0]));
    s[0] += sum_squares(g, n) * inverse * inverse / (float)n;
    step_by(p, w, g, n, rate);
}

static __device__ void std_adagrad(const float* p, float* w, float* s, const float* g, int n, float scale) {
    const float rate = p[2], initial = p[3], inverse = inverse_of(p, scale);
    for (int j = 0; j < n; ++j) {
        const float x = g[j] * inverse, total = s[j];
        s[j] = total + x * x;
        w[j] = bound(p, w[j] - rate * x * sqrtf(initial / (initial + total)));
    }
}

static __device__ void element_adagrad(const float* p, float* w, float* s, const float* g, int n) {
    for (int j = 0; j < n; ++j) {
        const float total = s[j] + g[j] * g[j];
        s[j] = total;
        w[j] = bound(p, w[j] - p[2] * g[j] / (sqrtf(total) + p[3]));
    }
}

static __device__ void row_wise_adagrad(const float* p, float* w, float* s, const float* g, int n) {
    const float total = s[0] + sum_squares(g, n) / (float)n;
    s[0] = total;
    step_by(p, w, g, n, p[2] / (sqrtf(total) + p[3]));
}

static __device__ void adam(const float* p, float* w, float* s, const float* g, int n) {
    const float b1 = p[3], b2 = p[4], eps = p[5];
    float *m = s, *v = s + n, *powers = s + 2 * n;
    const float rate = p[2] * sqrtf(1.0f - powers[1]) / (1.0f - powers[0]);
    for (int j = 0; j < n; ++j) {
        m[j] = b1 * m[j] + (1.0f - b1) * g[j];
        v[j] = b2 * v[j] + (1.0f - b2) * g[j] * g[j];
        w[j] = bound(p, w[j] - rate * m[j] / (sqrtf(v[j]) + eps));
    }
    powers[0] *= b1;
    powers[1] *= b2;
}

static __device__ void shared_adam(const float* p, float* w, float* s, const float* g, int n) {
    const float b1 = p[3], b2 = p[4], eps = p[5], old_m = s[0], old_v = s[1];
    const float rate = p[2] * sqrtf(1.0f - s[3]) / (1.0f - s[2]);
    float sum_m = 0.0f, sum_v = 0.0f;
    for (int j = 0; j < n; ++j) {
        const float m = b1 * old_m + (1.0f - b1) * g[j];
        const float v = b2 * old_v + (1.0f - b2) * g[j] * g[j];
        w[j] = bound(p, w[j] - rate * m / (sqrtf(v) + eps));
        sum_m += m;
        sum_v += v;
    }
    s[0] = sum_m / (float)n;
    s[1] = sum_v / (float)n;
    s[2] *= b1;
    s[3] *= b2;
}

static __device__ void ftrl(const float* p, float* w, float* s, const float* g, int n) {
    const float alpha = p[2], beta = p[3], l1 = p[4], l2 = p[5];
    for (int j = 0; j < n; ++j) {
        const float x = g[j], total = s[n + j], grown = total + x * x;
        const float z = s[j] + x - (sqrtf(grown) - sqrtf(total)) / alpha * w[j];
        s[j] = z;
        s[n + j] = grown;
        const float value = -(z - copysignf(l1, z)) / ((beta + sqrtf(grown)) / alpha + l2);
        w[j] = bound(p, fabsf(z) > l1 ? value : 0.0f);
    }
}

static __device__ void momentum(const float* p, float* w, float* s, const float* g, int n) {
    for (int j = 0; j < n; ++j) {
        const float v = p[3] * s[j] + g[j] + p[4] * w[j];
        s[j] = v;
        w[j] = bound(p, w[j] - p[2] * v);
    }
}

// A rule from outside: its body takes the place of the next comment (Rule.cuda).
static __device__ void foreign_rule(const float* p, float* w, float* s, const float* g, int n, float scale) {
    // foreign rule
}

static __device__ void change_row(int code, const float* p, float* w, float* s, const float* g, int n, float scale) {
    switch (code) {  // specs/rules.py
        case 0: step_by(p, w, g, n, p[2]); break;
        case 1: adagrad(p, w, s, g, n, scale); break;
        case 2: std_adagrad(p, w, s, g, n, scale); break;
        case 3: element_adagrad(p, w, s, g, n); break;
        case 4: row_wise_adagrad(p, w, s, g, n); break;
        case 5: adam(p, w, s, g, n); break;
        case 6: shared_adam(p, w, s, g, n); break;
        case 7: ftrl(p, w, s, g, n); break;
        case 8: momentum(p, w, s, g, n); break;
        case 9: step_by(p, w, g, n, -1.0f); break;
        default: foreign_rule(p, w, s, g, n, scale);
    }
}

// One thread per row: the rule of the columns from `column` on; their slots begin at word `slot`. Rows are unique, those
// below zero are left out. `scales` has the shows behind each gradient if `scaled`.
extern "C" __global__ void apply_rule(int code, const float* p, float* words, long long stride, const int* rows,
                                      const float* gradients, int width, int column, int n, int slot, const float* scales,
                                      int scaled, long long count) {
    const long long i = thread_number();
    if (i >= count || rows[i] < 0) return;
    float* w = words + rows[i] * stride + column;
    float* s = words + rows[i] * stride + slot;
    const float* g = gradients + i * width + column;
    const float scale = scaled ? scales[i] : 1.0f;
    change_row(code, p, w, s, g, n, scale);
}

// A dense parameter of `count` rows of n values with slots of their own: one thread per row. Rows whose gradient has a
// number that is not finite are left as they are; counts[0] += such rows.
extern "C" __global__ void apply_dense(int code, const float* p, float* values, float* slots, const float* gradients, int n,
                                       int per_row, int* counts, long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    const float* g = gradients + i * n;
    bool good = true;
    for (int j = 0; j < n; ++j) good = good && fabsf(g[j]) <= 3.402823466e38f;
    if (good)
        change_row(code, p, values + i * n, slots + i * per_row, g, n, 1.0f);
    else
        atomicAdd(&counts[0], 1);
}

// What PTX instructions do to registers. Registers hold bits; the type of an instruction says how they are read.
#pragma once
#include <cfenv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

// Read a register of type R (or an immediate) as T: the same bits, or the low ones of a wider register.
template <class T, class R>
T get(R x) {
    if constexpr (std::is_same_v<T, R>) return x;
    T out;
    static_assert(sizeof(T) <= sizeof(R), "a register is narrower than what is read from it");
    memcpy(&out, &x, sizeof(T));  // little endian: the low bits come first
    return out;
}
// Write a value to a register: the same bits; a wider register gets sign or zeros by the type of the value.
template <class D, class T>
void put(D& to, T value) {
    if constexpr (sizeof(D) == sizeof(T)) memcpy(&to, &value, sizeof(D));
    else to = (D)value;
}
template <class T, class R>
T load(R address) {
    T out;
    memcpy(&out, (const void*)(uintptr_t)address, sizeof(T));
    return out;
}
template <class T, class R>
void store(R address, T value) {
    memcpy((void*)(uintptr_t)address, &value, sizeof(T));
}
template <class T>
using U = std::make_unsigned_t<T>;  // wraps around, where signed arithmetic must not overflow

template <class T>
T add(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a + b;
    else return (T)((U<T>)a + (U<T>)b);
}
template <class T>
T sub(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a - b;
    else return (T)((U<T>)a - (U<T>)b);
}
template <class T>
T mul(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a * b;
    else return (T)((U<T>)a * (U<T>)b);
}
template <class T>
T neg(T a) {
    if constexpr (std::is_floating_point_v<T>) return -a;
    else return (T)(0 - (U<T>)a);
}
template <class T>
T smaller(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return std::fmin(a, b);
    else return a < b ? a : b;
}
template <class T>
T larger(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return std::fmax(a, b);
    else return a > b ? a : b;
}
template <class T>
T shl(T a, uint32_t by) {
    return by >= sizeof(T) * 8 ? 0 : (T)(a << by);
}
template <class T>
T shr(T a, uint32_t by) {
    const uint32_t most = sizeof(T) * 8 - 1;
    if (by > most) return std::is_signed_v<T> ? (T)(a >> most) : 0;
    return (T)(a >> by);
}
template <class T>
T truncated(double x) {  // cvt.rzi: out of range goes to the nearest end, NaN to 0
    if (x != x) return 0;
    if (x <= -2147483648.0) return INT32_MIN;
    return x >= 2147483647.0 ? INT32_MAX : (T)x;
}
static inline double rough_reciprocal(double x) {  // rcp.approx.ftz.f64: the upper half of the bits
    double r = 1.0 / x;
    uint64_t bits;
    memcpy(&bits, &r, 8);
    bits &= 0xFFFFFFFF00000000ull;
    memcpy(&r, &bits, 8);
    return r;
}
[[noreturn]] static inline void not_reached(const char* what) {
    fprintf(stderr, "PTX lane: %s was reached, which is not translated\n", what);
    abort();
}

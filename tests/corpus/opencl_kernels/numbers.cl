#include "common.h"

#ifdef INTEGER
// All operations of integer_operations, y without zeros; the shift count is y & 7.
kernel void integer_operations(global const TYPE *x, global const TYPE *y, global TYPE *out,
                               int n) {
    int i = global_x();
    if (i >= n)
        return;
    TYPE a = x[i], b = y[i], by = b & 7;
    out[0 * n + i] = a + b;
    out[1 * n + i] = a - b;
    out[2 * n + i] = a * b;
    out[3 * n + i] = a / b;
    out[4 * n + i] = a % b;
    out[5 * n + i] = a << by;
    out[6 * n + i] = a >> by;
    out[7 * n + i] = a & b;
    out[8 * n + i] = a | b;
    out[9 * n + i] = a ^ b;
    out[10 * n + i] = ~a;
    out[11 * n + i] = a < b ? a : b;
    out[12 * n + i] = a > b ? a : b;
    out[13 * n + i] = a < b;
    out[14 * n + i] = a == b ? a : (TYPE)(b + 1);
}

#else

// A hash of each key and a Fibonacci step count in 64 bits.
kernel void integer_hash(global const ulong *x, global ulong *out, int n) {
    int i = global_x();
    if (i >= n)
        return;
    ulong h = x[i];
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdul;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ul;
    h ^= h >> 33;
    out[i] = h + rotate(x[i], 17ul) + mul_hi(x[i], h) + clz(x[i]) + popcount(h) +
             (abs_diff((long)x[i], (long)h) >> 3);
}

// Bytes and halfwords: saturating sums, averages, packed dot products, byte permutes.
kernel void narrow(global const uint *x, global const uint *y, global uint *out, int n) {
    int i = global_x();
    if (i >= n)
        return;
    uint a = x[i], b = y[i];
    uchar4 ab = as_uchar4(a), bb = as_uchar4(b);
    short2 as = as_short2(a), bs = as_short2(b);
    out[0 * n + i] = as_uint(add_sat(ab, bb));
    out[1 * n + i] = as_uint(sub_sat(as_char4(a), as_char4(b)));
    out[2 * n + i] = as_uint(add_sat(as, bs));
    out[3 * n + i] = as_uint(hadd(ab, bb));
    out[4 * n + i] = as_uint(min(as, bs)) ^ as_uint(max(as_ushort2(a), as_ushort2(b)));
    out[5 * n + i] = ab.x * bb.x + ab.y * bb.y + ab.z * bb.z + ab.w * bb.w;
    out[6 * n + i] = __builtin_amdgcn_sdot4(a, b, i, false);
    out[7 * n + i] = __builtin_amdgcn_udot4(a, b, i, true);
    out[8 * n + i] = __builtin_amdgcn_sdot2(as, bs, i, false);
    out[9 * n + i] = __builtin_amdgcn_perm(a, b, 0x0d060500);
    out[10 * n + i] = __builtin_amdgcn_sad_u8(a, b, i);
    out[11 * n + i] = __builtin_amdgcn_alignbyte(a, b, i & 3);
    out[12 * n + i] = as_uint(as * bs) + as_uint(as << (short2)3);
    out[13 * n + i] = (uint)(as.x >> 2) ^ (uint)(uchar)(bs.y + 1);
}

#if MATH
kernel void math_double(global const double *x, global double *out, int n) {
    int i = global_x();
    if (i >= n)
        return;
    double a = x[i], p = fabs(a) + 0.25;
    out[0 * n + i] = exp(a);
    out[1 * n + i] = log(p);
    out[2 * n + i] = sqrt(p);
    out[3 * n + i] = a / p;
    out[4 * n + i] = floor(a * 7.0);
    out[5 * n + i] = fma(fmax(a, 0.5), a, p);
    out[6 * n + i] = sin(a);
    out[7 * n + i] = (double)(long)a + (double)(int)a;
}

kernel void math_float(global const float *x, global float *out, int n) {
    int i = global_x();
    if (i >= n)
        return;
    float a = x[i], p = fabs(a) + 0.25f;
    out[0 * n + i] = exp(a);
    out[1 * n + i] = exp2(a);
    out[2 * n + i] = log(p);
    out[3 * n + i] = log2(p);
    out[4 * n + i] = sin(a);
    out[5 * n + i] = cos(a);
    out[6 * n + i] = sqrt(p);
    out[7 * n + i] = rsqrt(p);
    out[8 * n + i] = erf(a);
    out[9 * n + i] = floor(a);
    out[10 * n + i] = ceil(a);
    out[11 * n + i] = a / p;
    out[12 * n + i] = fma(a, p, a);
    out[13 * n + i] = 1.0f / (1.0f + exp(-a));
    out[14 * n + i] = native_sqrt(p);
    out[15 * n + i] = p / (a * a + 1.0f);
    out[16 * n + i] = clamp(a, -0.5f, 0.5f);
    out[17 * n + i] = fmod(a, p);
}

#endif

// Half precision, vectors of two; and mixed-precision dot products.
kernel void half_operations(global const half2 *x, global const half2 *y, global half2 *out,
                            int n) {
    int i = global_x();
    if (i >= n)
        return;
    half2 a = x[i], b = y[i];
    out[0 * n + i] = a + b;
    out[1 * n + i] = a * b;
    out[2 * n + i] = __builtin_elementwise_fma(a, b, a);
    out[3 * n + i] = __builtin_elementwise_max(a, b);
    out[4 * n + i] = __builtin_elementwise_min(a, -b);
    out[5 * n + i] = (half2)(a.x / b.x, __builtin_elementwise_sqrt(__builtin_elementwise_abs(a.y)));
    out[6 * n + i] = __builtin_elementwise_floor(a.yx);
    out[7 * n + i] = (half2)(__builtin_amdgcn_fdot2(a, b, 1.0f, false),
                             (float)a.x * (float)b.y + 2.0f);
    out[8 * n + i] = (half2)(__builtin_elementwise_exp2(a.x), __builtin_elementwise_log2(b.y * b.y + 1));
    out[9 * n + i] = (half2)((half)(short)(a.x * 16), (half)(ushort)(b.x * b.x * 8));
    out[10 * n + i] = __builtin_bit_cast(half2, __builtin_amdgcn_cvt_pkrtz(a.y, b.y));
    out[11 * n + i] = (half2)(__builtin_amdgcn_fmed3h(a.x, b.x, (half)0.25h), ldexp(a.y, 3));
}
#endif

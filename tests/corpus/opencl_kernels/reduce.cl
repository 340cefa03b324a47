#include "common.h"

// Sum over LDS with barriers; one atomic a workgroup of 256.
kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
sum_all(global const float *x, global float *out, int n) {
    local float part[256];
    int t = WORKITEM;
    float total = 0;
    for (int i = GROUP * 256 + t; i < n; i += groups_x() * 256)
        total += x[i];
    part[t] = total;
    for (int width = 128; width > 0; width >>= 1) {
        SYNC();
        if (t < width)
            part[t] += part[t + width];
    }
    if (t == 0)
        __builtin_amdgcn_global_atomic_fadd_f32(out, part[0]);
}

#define DPP(value, control, rows, banks)                                                           \
    __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, value),       \
                                                          control, rows, banks, true))

// The sum of a wave by DPP shifts and broadcasts: the last lane has it.
kernel void sum_dpp(global const float *x, global float *out, int n) {
    int i = global_x();
    float v = i < n ? x[i] : 0.0f;
    v += DPP(v, 0x111, 0xf, 0xf);  // row_shr:1
    v += DPP(v, 0x112, 0xf, 0xf);  // row_shr:2
    v += DPP(v, 0x114, 0xf, 0xf);  // row_shr:4
    v += DPP(v, 0x118, 0xf, 0xf);  // row_shr:8
    v += DPP(v, 0x142, 0xa, 0xf);  // row_bcast:15
    v += DPP(v, 0x143, 0xc, 0xf);  // row_bcast:31
    float total = __builtin_bit_cast(
        float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, v), 63));
    if (LANE == 0)
        __builtin_amdgcn_global_atomic_fadd_f32(out, total);
}

// Butterflies by quad_perm, mirrors, swizzle and bpermute on i32.
kernel void sum_butterfly(global const int *x, global int *out, int n) {
    int i = global_x();
    int v = i < n ? x[i] : 0;
    v += __builtin_amdgcn_update_dpp(0, v, 0xb1, 0xf, 0xf, false);   // quad_perm 1,0,3,2
    v += __builtin_amdgcn_update_dpp(0, v, 0x4e, 0xf, 0xf, false);   // quad_perm 2,3,0,1
    v += __builtin_amdgcn_update_dpp(0, v, 0x141, 0xf, 0xf, false);  // row_half_mirror
    v += __builtin_amdgcn_update_dpp(0, v, 0x140, 0xf, 0xf, false);  // row_mirror
    v += __builtin_amdgcn_ds_swizzle(v, 0x401f);                     // xor 16
    v += __builtin_amdgcn_ds_bpermute((LANE ^ 32) << 2, v);
    int one = __builtin_amdgcn_readfirstlane(v);
    if (LANE == 5)
        __hip_atomic_fetch_add(out, one, __ATOMIC_RELAXED, AGENT);
}

// Exclusive prefix sums of a block of 512, two elements a work-item, up and down a tree.
kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
prefix_sum(global const uint *x, global uint *out) {
    local uint tree[512];
    int t = WORKITEM, base = GROUP * 512;
    tree[2 * t] = x[base + 2 * t];
    tree[2 * t + 1] = x[base + 2 * t + 1];
    int gap = 1;
    for (int d = 256; d > 0; d >>= 1) {
        SYNC();
        if (t < d)
            tree[gap * (2 * t + 2) - 1] += tree[gap * (2 * t + 1) - 1];
        gap *= 2;
    }
    SYNC();
    if (t == 0)
        tree[511] = 0;
    for (int d = 1; d < 512; d *= 2) {
        gap >>= 1;
        SYNC();
        if (t < d) {
            uint left = tree[gap * (2 * t + 1) - 1];
            tree[gap * (2 * t + 1) - 1] = tree[gap * (2 * t + 2) - 1];
            tree[gap * (2 * t + 2) - 1] += left;
        }
    }
    SYNC();
    out[base + 2 * t] = tree[2 * t];
    out[base + 2 * t + 1] = tree[2 * t + 1];
}

// Exclusive prefix of a predicate by ballot: out[i] = how many earlier lanes hold an odd value.
kernel void ballot_rank(global const uint *x, global uint *out, int n) {
    int i = global_x();
    bool odd = i < n && (x[i < n ? i : 0] & 1);
    ulong mask = __builtin_amdgcn_uicmp((uint)odd, 0u, 33);
    uint rank = __builtin_amdgcn_mbcnt_hi((uint)(mask >> 32),
                                          __builtin_amdgcn_mbcnt_lo((uint)mask, 0));
    if (i < n)
        out[i] = rank + ((uint)popcount(mask) << 16);
}

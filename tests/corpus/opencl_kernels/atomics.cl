#include "common.h"

kernel __attribute__((reqd_work_group_size(128, 1, 1))) void
lds_histogram(global const uint *x, global uint *out, int n) {
    local uint bins[BINS];
    for (int b = WORKITEM; b < BINS; b += 128)
        bins[b] = 0;
    SYNC();
    for (int i = GROUP * 128 + WORKITEM; i < n; i += groups_x() * 128)
        __hip_atomic_fetch_add(&bins[x[i]], 1u, __ATOMIC_RELAXED, WORKGROUP);
    SYNC();
    for (int b = WORKITEM; b < BINS; b += 128)
        if (bins[b])
            __hip_atomic_fetch_add(&out[b], bins[b], __ATOMIC_RELAXED, AGENT);
}

// out[bin_of[i]] = OPERATION(out[bin_of[i]], x[i]) for all i.
#define JOIN(operation) __hip_atomic_fetch_##operation
#define FETCH(operation) JOIN(operation)

kernel void atomic_bins(global const TYPE *x, global const int *bin_of, global TYPE *out, int n) {
    int i = global_x();
    if (i < n)
        FETCH(OPERATION)(&out[bin_of[i]], x[i], __ATOMIC_RELAXED,
                                     AGENT);
}

// The same in LDS: one workgroup of 256 copies the bins in, works on them, and copies them back.
kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
atomic_bins_lds(global const TYPE *x, global const int *bin_of, global TYPE *out, int n) {
    local TYPE bins[256];
    int t = WORKITEM;
    if (t < 50)
        bins[t] = out[t];
    SYNC();
    for (int i = t; i < n; i += 256)
        FETCH(OPERATION)(&bins[bin_of[i]], x[i], __ATOMIC_RELAXED,
                                     WORKGROUP);
    SYNC();
    if (t < 50)
        out[t] = bins[t];
}

// Through generic pointers: even bins in LDS, odd ones in memory, chosen a lane at a time.
kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
atomic_bins_flat(global const TYPE *x, global const int *bin_of, global TYPE *out, int n) {
    local TYPE bins[64];
    int t = WORKITEM;
    if (t < 50)
        bins[t] = out[t];
    SYNC();
    for (int i = t; i < n; i += 256) {
        int b = bin_of[i];
        generic TYPE *place = b & 1 ? (generic TYPE *)&out[b] : (generic TYPE *)&bins[b];
        FETCH(OPERATION)(place, x[i], __ATOMIC_RELAXED, AGENT);
    }
    SYNC();
    if (t < 50 && !(t & 1))
        out[t] = bins[t];
}

#ifndef FLOAT
kernel void exchange(global const TYPE *x, global TYPE *out, global TYPE *old, int n) {
    int i = global_x();
    if (i < n)
        old[i] = __hip_atomic_exchange(&out[i], x[i], __ATOMIC_SEQ_CST, SYSTEM);
}

kernel void compare_exchange(global TYPE *out, global const TYPE *expected, global const TYPE *x,
                             global TYPE *old, int n) {
    int i = global_x();
    if (i >= n)
        return;
    TYPE seen = expected[i];
    __hip_atomic_compare_exchange_strong(&out[i], &seen, x[i], __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE,
                                         AGENT);
    old[i] = seen;
}

#endif

// A float sum by compare-and-swap on its bits: every lane retries until its own add went in.
kernel void cas_sum(global const float *x, global float *out, int n) {
    int i = global_x();
    if (i >= n)
        return;
    global uint *place = (global uint *)out;
    uint seen = __hip_atomic_load(place, __ATOMIC_RELAXED, AGENT);
    while (!__hip_atomic_compare_exchange_strong(place, &seen, as_uint(as_float(seen) + x[i]),
                                                 __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                                 AGENT)) {
    }
}

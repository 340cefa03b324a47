#include "common.h"

// y = a * x + y.
kernel void saxpy(float a, global const float *x, global float *y, int n) {
    int i = global_x();
    if (i < n)
        y[i] = a * x[i] + y[i];
}

kernel void vector_add(global const TYPE *x, global const TYPE *y, global TYPE *out, int n) {
    for (int i = global_x(); i < n; i += global_size_x())
        out[i] = x[i] + y[i];
}

// Tiles of 32 x 32 through LDS, padded against bank conflicts; 32 x 8 work-items.
kernel __attribute__((reqd_work_group_size(32, 8, 1))) void
transpose(global const TYPE *x, global TYPE *out, int rows, int columns) {
    local TYPE tile[32][33];
    int tx = local_x(), ty = local_y();
    int c = group_y() * 32 + tx, r = group_x() * 32 + ty;
    for (int i = 0; i < 32; i += 8)
        if (r + i < rows && c < columns)
            tile[ty + i][tx] = x[(r + i) * columns + c];
    SYNC();
    int tc = group_x() * 32 + tx, tr = group_y() * 32 + ty;
    for (int i = 0; i < 32; i += 8)
        if (tr + i < columns && tc < rows)
            out[(tr + i) * rows + tc] = tile[tx][ty + i];
}

// 16 x 16 work-items, one output element each.
kernel __attribute__((reqd_work_group_size(16, 16, 1))) void
sgemm_tiled(global const float *a, global const float *b, global float *out, int m, int n, int k) {
    local float left[16][16], right[16][17];
    int tx = local_x(), ty = local_y();
    int row = group_x() * 16 + ty, column = group_y() * 16 + tx;
    float total = 0;
    for (int start = 0; start < k; start += 16) {
        left[ty][tx] = a[row * k + start + tx];
        right[ty][tx] = b[(start + ty) * n + column];
        SYNC();
        for (int i = 0; i < 16; ++i)
            total = fma(left[ty][i], right[i][tx], total);
        SYNC();
    }
    out[row * n + column] = total;
}

// The same with 4 outputs a work-item in a vector and no required size.
kernel void sgemm_vector(global const float *a, global const float4 *b, global float4 *out, int m,
                         int n, int k) {
    int column = global_x(), row = global_y();
    if (row >= m || column * 4 >= n)
        return;
    float4 total = (float4)0;
    for (int i = 0; i < k; ++i)
        total = fma((float4)a[row * k + i], b[i * (n / 4) + column], total);
    out[row * (n / 4) + column] = total;
}

// A table in constant memory.
constant int primes[16] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};

kernel void constant_table(global const int *x, global int *out, int n) {
    int i = global_x();
    if (i < n)
        out[i] = primes[x[i] & 15] * primes[GROUP & 15] + x[i];
}

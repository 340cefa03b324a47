#include "common.h"

// Block-sparse attention on matrix instructions, 4 waves of 16 query rows, block_q 64, block_k 64.
// Scores are computed transposed (keys along rows), so that a lane holds scores of one query and
// the probabilities are already the second operand of the product with the values.

typedef half h2 __attribute__((ext_vector_type(2)));
typedef half h4 __attribute__((ext_vector_type(4)));
typedef half h8 __attribute__((ext_vector_type(8)));
typedef float f4 __attribute__((ext_vector_type(4)));

#define PAD 8

static float lane_max(float v) {
    v = fmax(v, as_float(__builtin_amdgcn_ds_bpermute((LANE ^ 16) << 2, as_int(v))));
    return fmax(v, as_float(__builtin_amdgcn_ds_bpermute((LANE ^ 32) << 2, as_int(v))));
}

static float lane_sum(float v) {
    v += as_float(__builtin_amdgcn_ds_bpermute((LANE ^ 16) << 2, as_int(v)));
    return v + as_float(__builtin_amdgcn_ds_bpermute((LANE ^ 32) << 2, as_int(v)));
}

kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
sparse_attention(global const half *q, global const half *k, global const half *v,
                 global const int *index, global const int *count, global const int *valid,
                 global half *out, global float *lse, float scale_log2, int heads, int sq, int sk,
                 int blocks_q, int blocks_k, int width) {
    local half keys[64][D + PAD];
    local half values[64][D + PAD];
    int block = __builtin_amdgcn_workgroup_id_x();
    long plane = (long)__builtin_amdgcn_workgroup_id_z() * heads + __builtin_amdgcn_workgroup_id_y();
    int t = WORKITEM, l = t % 64, group = l / 16;
    int row = block * 64 + t / 64 * 16 + l % 16;
    bool real_row = row < sq;

    h4 query[D / 16];
    for (int j = 0; j < D / 16; ++j)
        query[j] = real_row ? *(global const h4 *)(q + (plane * sq + row) * D + j * 16 + group * 4)
                            : (h4)0;
    f4 acc[D / 16];
    for (int j = 0; j < D / 16; ++j)
        acc[j] = (f4)0;
    float top = -1.0e30f, total = 0;

    int number = count[plane * blocks_q + block];
    for (int i = 0; i < number; ++i) {
        int chosen = index[(plane * blocks_q + block) * width + i];
        if (chosen < 0 || chosen >= blocks_k)
            continue;
        int real = min(valid[chosen], sk - chosen * 64);
        __builtin_amdgcn_s_barrier();
        for (int at = t * 8; at < 64 * D; at += 256 * 8) {
            int key = at / D, d = at % D;
            long from = (plane * sk + chosen * 64 + key) * D + d;
            h8 zero = (h8)0;
            *(local h8 *)&keys[key][d] = key < real ? *(global const h8 *)(k + from) : zero;
            *(local h8 *)&values[key][d] = key < real ? *(global const h8 *)(v + from) : zero;
        }
        SYNC();
        f4 score[4];
        float best = -1.0e30f;
#pragma unroll
        for (int tile = 0; tile < 4; ++tile) {
            f4 s = (f4)0;
#pragma unroll
            for (int j = 0; j < D / 16; ++j)
                s = __builtin_amdgcn_mfma_f32_16x16x16f16(
                    *(local h4 *)&keys[tile * 16 + l % 16][j * 16 + group * 4], query[j], s, 0, 0,
                    0);
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                s[r] = tile * 16 + group * 4 + r < real ? s[r] * scale_log2 : -INFINITY;
                best = fmax(best, s[r]);
            }
            score[tile] = s;
        }
        float new_top = fmax(top, lane_max(best));
        float shrink = __builtin_amdgcn_exp2f(top - new_top), sum = 0;
        h4 p[4];
#pragma unroll
        for (int tile = 0; tile < 4; ++tile)
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                float e = __builtin_amdgcn_exp2f(score[tile][r] - new_top);
                sum += e;
                p[tile][r] = (half)e;
            }
        total = total * shrink + lane_sum(sum);
        top = new_top;
#pragma unroll
        for (int j = 0; j < D / 16; ++j) {
            acc[j] *= shrink;
#pragma unroll
            for (int tile = 0; tile < 4; ++tile) {
                h4 left;
#pragma unroll
                for (int r = 0; r < 4; ++r)
                    left[r] = values[tile * 16 + group * 4 + r][j * 16 + l % 16];
                acc[j] = __builtin_amdgcn_mfma_f32_16x16x16f16(left, p[tile], acc[j], 0, 0, 0);
            }
        }
    }
    float factor = total > 0 ? 1.0f / total : 0.0f;
    if (real_row) {
        for (int j = 0; j < D / 16; ++j)
            *(global h4 *)(out + (plane * sq + row) * D + j * 16 + group * 4) =
                __builtin_convertvector(acc[j] * factor, h4);
        if (group == 0)
            lse[plane * sq + row] =
                total > 0 ? top + __builtin_amdgcn_logf(total) : -3.4028234663852886e38f;
    }
}

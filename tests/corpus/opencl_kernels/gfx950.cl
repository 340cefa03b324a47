#include "common.h"

// What only gfx950 has: 16-byte direct copies to LDS, transposed LDS reads, lane swaps, 32x32x16.

typedef half h4 __attribute__((ext_vector_type(4)));
typedef half h8 __attribute__((ext_vector_type(8)));
typedef float f16 __attribute__((ext_vector_type(16)));

// Block-sparse attention, 4 waves of 32 query rows, block_q 128, block_k 32; S transposed.
kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
sparse_attention(global const half *q, global const half *k, global const half *v,
                 global const int *index, global const int *count, global const int *valid,
                 global half *out, global float *lse, float scale_log2, int heads, int sq, int sk,
                 int blocks_q, int blocks_k, int width) {
    local half keys[32 * D] __attribute__((aligned(16)));
    local half values[32 * D] __attribute__((aligned(16)));
    int block = __builtin_amdgcn_workgroup_id_x();
    long plane = (long)__builtin_amdgcn_workgroup_id_z() * heads + __builtin_amdgcn_workgroup_id_y();
    int t = WORKITEM, l = t % 64, half_wave = l / 32;
    int row = block * 128 + t / 64 * 32 + l % 32;
    bool real_row = row < sq;

    h8 query[D / 16];
    for (int j = 0; j < D / 16; ++j)
        query[j] =
            real_row ? *(global const h8 *)(q + (plane * sq + row) * D + j * 16 + half_wave * 8)
                     : (h8)0;
    f16 acc[D / 32];
    for (int j = 0; j < D / 32; ++j)
        acc[j] = (f16)0;
    float top = -1.0e30f, total = 0;
    int number = count[plane * blocks_q + block];
    for (int i = 0; i < number; ++i) {
        int chosen = index[(plane * blocks_q + block) * width + i];
        int real = min(valid[chosen], sk - chosen * 32);
        __builtin_amdgcn_s_barrier();
        // A wave copies 64 x 16 bytes at a time; lanes land one after the other.
        int wave = __builtin_amdgcn_readfirstlane(t / 64);
        for (int at = wave * 512; at < 32 * D; at += 2048) {
            long from = (plane * sk + chosen * 32) * D + at + l * 8;
            __builtin_amdgcn_global_load_lds((global void *)(k + from), (local void *)&keys[at],
                                             16, 0, 0);
            __builtin_amdgcn_global_load_lds((global void *)(v + from), (local void *)&values[at],
                                             16, 0, 0);
        }
        __builtin_amdgcn_s_waitcnt(0);
        SYNC();
        f16 s = (f16)0;
#pragma unroll
        for (int j = 0; j < D / 16; ++j)
            s = __builtin_amdgcn_mfma_f32_32x32x16_f16(
                *(local h8 *)&keys[(l % 32) * D + j * 16 + half_wave * 8], query[j], s, 0, 0, 0);
        float best = -1.0e30f;
#pragma unroll
        for (int r = 0; r < 16; ++r) {
            int key = 8 * (r / 4) + 4 * half_wave + r % 4;
            s[r] = key < real ? s[r] * scale_log2 : -INFINITY;
            best = fmax(best, s[r]);
        }
        uint2 both = __builtin_bit_cast(
            uint2, __builtin_amdgcn_permlane32_swap(as_uint(best), as_uint(best), false, false));
        float new_top = fmax(top, fmax(as_float(both.x), as_float(both.y)));
        float shrink = __builtin_amdgcn_exp2f(top - new_top), sum = 0;
        h8 p[2];
#pragma unroll
        for (int r = 0; r < 16; ++r) {
            float e = __builtin_amdgcn_exp2f(s[r] - new_top);
            sum += e;
            p[r / 8][r % 8] = (half)e;
        }
        both = __builtin_bit_cast(
            uint2, __builtin_amdgcn_permlane32_swap(as_uint(sum), as_uint(sum), false, false));
        total = total * shrink + as_float(both.x) + as_float(both.y);
        top = new_top;
        // P's lane holds keys 8 * (r / 4) + 4 * half_wave + r % 4, so V is read in that order:
        // the product sums over keys in any order as long as both operands agree.
#pragma unroll
        for (int j = 0; j < D / 32; ++j) {
            acc[j] *= shrink;
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                h8 left;
#pragma unroll
                for (int r = 0; r < 8; ++r) {
                    int key = 16 * part + 8 * (r / 4) + 4 * half_wave + r % 4;
                    half value = values[key * D + j * 32 + l % 32];
                    left[r] = key < real ? value : (half)0;
                }
                acc[j] = __builtin_amdgcn_mfma_f32_32x32x16_f16(left, p[part], acc[j], 0, 0, 0);
            }
        }
    }
    float factor = total > 0 ? 1.0f / total : 0.0f;
    if (real_row) {
        for (int j = 0; j < D / 32; ++j)
            for (int r = 0; r < 16; r += 4) {
                h4 four;
                for (int e = 0; e < 4; ++e)
                    four[e] = (half)(acc[j][r + e] * factor);
                *(global h4 *)(out + (plane * sq + row) * D + j * 32 + 8 * (r / 4) +
                               4 * half_wave) = four;
            }
        if (half_wave == 0)
            lse[plane * sq + row] =
                total > 0 ? top + __builtin_amdgcn_logf(total) : -3.4028234663852886e38f;
    }
}

// Transposes 16 x 16 tiles of halfwords by ds_read_b64_tr_b16: 4 tiles a wave, [n, 16, 16].
typedef short s4 __attribute__((ext_vector_type(4)));

kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
tile_transpose(global const half *x, global half *out) {
    local half tile[4][16][16] __attribute__((aligned(16)));
    int l = WORKITEM, group = l / 16, lane = l % 16;
    for (int i = 0; i < 16; ++i)
        tile[group][i][lane] = x[(GROUP * 4 + group) * 256 + i * 16 + lane];
    SYNC();
    // Within 16 lanes, lane 4 r + c names four halfwords at columns 4 c of row r of a 4 x 16 strip
    // and receives column `lane` of the strip.
    for (int strip = 0; strip < 4; ++strip) {
        s4 got = __builtin_amdgcn_ds_read_tr16_b64_v4i16(
            (local s4 *)&tile[group][strip * 4 + lane / 4][lane % 4 * 4]);
        for (int e = 0; e < 4; ++e)
            out[(GROUP * 4 + group) * 256 + lane * 16 + strip * 4 + e] = as_half(got[e]);
    }
}

#include "common.h"

// One matrix instruction a wave: out = a @ b + c for BLOCKS blocks of M x N x K.
// Lane l holds KV values of row (A) or column (B) l % M of block (l / M) % BLOCKS, at
// k = KV * (l / (M * BLOCKS)); results are R registers a lane.

typedef short short2v __attribute__((ext_vector_type(2)));
typedef __bf16 bf2 __attribute__((ext_vector_type(2)));
typedef __bf16 bf4 __attribute__((ext_vector_type(4)));
typedef __bf16 bf8 __attribute__((ext_vector_type(8)));
typedef short s2 __attribute__((ext_vector_type(2)));
typedef short s4 __attribute__((ext_vector_type(4)));
typedef half h4 __attribute__((ext_vector_type(4)));
typedef half h8 __attribute__((ext_vector_type(8)));
typedef float f1 __attribute__((ext_vector_type(1)));
typedef float f2 __attribute__((ext_vector_type(2)));
typedef float f4 __attribute__((ext_vector_type(4)));
typedef float f16 __attribute__((ext_vector_type(16)));
typedef float f32 __attribute__((ext_vector_type(32)));
typedef double d4 __attribute__((ext_vector_type(4)));
typedef int i2 __attribute__((ext_vector_type(2)));
typedef int i4 __attribute__((ext_vector_type(4)));
typedef int i8 __attribute__((ext_vector_type(8)));
typedef int i16 __attribute__((ext_vector_type(16)));
typedef int i32 __attribute__((ext_vector_type(32)));

#define GROUPS (64 / (M * BLOCKS))

// The row of result register r within its block, and the block, for lane l.
#if M == 32
#define ROW(r, l) (8 * ((r) % 16 / 4) + 4 * ((l) / 32) + (r) % 4)
#define BLOCK(r, l) ((r) / 16)
#elif M == 16 && defined(DOUBLE)
#define ROW(r, l) (4 * (r) + (l) / 16)
#define BLOCK(r, l) 0
#elif M == 16
#define ROW(r, l) (4 * ((l) / 16) + (r) % 4)
#define BLOCK(r, l) ((r) / 4)
#elif defined(DOUBLE)
#define ROW(r, l) ((l) / 16)
#define BLOCK(r, l) ((l) / 4 % 4)
#else
#define ROW(r, l) (r)
#define BLOCK(r, l) ((l) / 4)
#endif

typedef union {
    ELEMENT values[KV];
    OPERAND operand;
} packed;

typedef union {
    RESULT values[R];
    ACCUMULATOR operand;
} results;

kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
mfma_tile(global const ELEMENT *a, global const ELEMENT *b, global const RESULT *c,
          global RESULT *out) {
    int l = WORKITEM;
    int block = l / M % BLOCKS, group = l / (M * BLOCKS);
    packed left, right;
    results sum;
#pragma unroll
    for (int j = 0; j < KV; ++j) {
        left.values[j] = a[(block * M + l % M) * K + group * KV + j];
        right.values[j] = b[(block * K + group * KV + j) * M + l % M];
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
        sum.values[r] = c[(BLOCK(r, l) * M + ROW(r, l)) * M + l % M];
    sum.operand = INSTRUCTION(left.operand, right.operand, sum.operand MORE);
#pragma unroll
    for (int r = 0; r < R; ++r)
        out[(BLOCK(r, l) * M + ROW(r, l)) * M + l % M] = sum.values[r];
}

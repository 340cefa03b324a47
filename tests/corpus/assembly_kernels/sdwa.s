; Sub-dword selections of sources and destination.
.include "begin.inc"
    s_movk_i32 s8, 0x0ff3

.macro DO instruction:vararg
    v_mov_b32_e32 v6, v4
    \instruction
    STORE v6
.endm

    DO v_mov_b32_sdwa v6, v2 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_3
    DO v_mov_b32_sdwa v6, v2 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_0
    DO v_mov_b32_sdwa v6, sext(v2) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2
    DO v_mov_b32_sdwa v6, v2 dst_sel:BYTE_2 dst_unused:UNUSED_SEXT src0_sel:BYTE_0
    DO v_add_u32_sdwa v6, v2, v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_1
    DO v_add_u32_sdwa v6, sext(v2), sext(v3) dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0 src1_sel:WORD_0
    DO v_add_u32_sdwa v6, sext(v2), v3 dst_sel:BYTE_3 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:BYTE_2
    DO v_sub_u32_sdwa v6, sext(v2), v3 dst_sel:WORD_0 dst_unused:UNUSED_SEXT src0_sel:BYTE_3 src1_sel:BYTE_3
    DO v_lshlrev_b32_sdwa v6, v2, v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:WORD_1
    DO v_mul_u32_u24_sdwa v6, v2, v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_0 src1_sel:WORD_1
    DO v_or_b32_sdwa v6, v2, v3 dst_sel:BYTE_0 dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:BYTE_2
    DO v_max_i32_sdwa v6, sext(v2), sext(v3) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:WORD_0
    DO v_max_u16_sdwa v6, v2, v3 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:WORD_0
    DO v_cvt_f32_i32_sdwa v6, sext(v2) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1
    DO v_and_b32_sdwa v6, v2, s8 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:DWORD

    v_cmp_lt_i32_sdwa s[10:11], sext(v2), sext(v3) src0_sel:BYTE_3 src1_sel:BYTE_3
    s_nop 1
    v_cndmask_b32_e64 v6, v4, v5, s[10:11]
    STORE v6
    v_cmp_eq_u32_sdwa vcc, v2, v3 src0_sel:BYTE_0 src1_sel:BYTE_0
    s_nop 1
    v_cndmask_b32_e32 v6, v4, v5, vcc
    STORE v6

; With half of the lanes off.
    v_mov_b32_e32 v6, v4
    s_mov_b32 exec_lo, 0x0ff0ff0f
    s_mov_b32 exec_hi, 0xaaaa5555
    s_nop 4
    v_add_u32_sdwa v6, v2, v3 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0 src1_sel:BYTE_1
    STORE_ALL v6

.include "end.inc"

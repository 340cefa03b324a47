; Vector instructions with three operands and other rare ones.
.include "begin.inc"

.macro DO instruction:vararg
    v_mov_b32_e32 v6, v5
    \instruction
    STORE v6
.endm

; Of 16-bit results only the low half is stored.
.macro DO_LOW instruction:vararg
    \instruction
    v_and_b32_e32 v6, 0xffff, v6
    STORE v6
.endm

    DO v_alignbyte_b32 v6, v2, v3, v4
    DO v_alignbit_b32 v6, v2, v3, v4
    DO v_bfi_b32 v6, v2, v3, v4
    DO v_bfm_b32 v6, v2, v3
    DO v_bfe_u32 v6, v2, v3, v4
    DO v_bfe_i32 v6, v2, v3, v4
    DO v_med3_i32 v6, v2, v3, v4
    DO v_med3_u32 v6, v2, v3, v4
    DO v_min3_i32 v6, v2, v3, v4
    DO v_max3_u32 v6, v2, v3, v4
    DO v_sad_u8 v6, v2, v3, v4
    DO v_sad_hi_u8 v6, v2, v3, v4
    DO v_sad_u16 v6, v2, v3, v4
    DO v_sad_u32 v6, v2, v3, v4
    DO v_msad_u8 v6, v2, v3, v4
    DO v_lerp_u8 v6, v2, v3, v4
    DO v_perm_b32 v6, v2, v3, v4
    DO v_mad_i32_i24 v6, v2, v3, v4
    DO v_mad_u32_u24 v6, v2, v3, v4
    DO v_mul_hi_i32_i24_e32 v6, v2, v3
    DO v_mul_hi_u32_u24_e32 v6, v2, v3
    DO v_mul_i32_i24_e32 v6, v2, v3
    DO v_mul_hi_i32 v6, v2, v3
    DO v_mul_hi_u32 v6, v2, v3
    DO_LOW v_mad_u16 v6, v2, v3, v4
    DO_LOW v_mad_i16 v6, v2, v3, v4 op_sel:[1,0,1,0]
    DO v_add3_u32 v6, v2, v3, v4
    DO v_lshl_add_u32 v6, v2, v3, v4
    DO v_add_lshl_u32 v6, v2, v3, v4
    DO v_lshl_or_b32 v6, v2, v3, v4
    DO v_and_or_b32 v6, v2, v3, v4
    DO v_or3_b32 v6, v2, v3, v4
    DO v_xad_u32 v6, v2, v3, v4
    DO v_ffbh_u32_e32 v6, v2
    DO v_ffbl_b32_e32 v6, v2
    DO v_ffbh_i32_e32 v6, v2
    DO v_bfrev_b32_e32 v6, v2
    DO v_bcnt_u32_b32 v6, v2, v3
    DO v_add_i32 v6, v2, v3 clamp
    DO v_add_u32_e64 v6, v2, v3 clamp
    DO_LOW v_sub_u16_e64 v6, v2, v3 clamp
    DO v_sub_i32 v6, v2, v3 clamp
    v_cvt_f32_ubyte2_e32 v7, v2
    DO v_cvt_pk_u8_f32 v6, v7, v3, v4
    DO v_cvt_off_f32_i4_e32 v6, v2
    DO_LOW v_sat_pk_u8_i16_e32 v6, v2
    DO v_pk_add_u16 v6, v2, v3 op_sel:[1,0] op_sel_hi:[0,1]
    DO v_pk_mad_i16 v6, v2, v3, v4
    DO v_pk_ashrrev_i16 v6, v2, v3
    DO v_pk_max_u16 v6, v2, v3
    DO v_pk_sub_i16 v6, v2, v3 clamp

; 64-bit results: low and high.
.macro WIDE instruction:vararg
    \instruction
    STORE v8
    STORE v9
.endm
    WIDE v_mad_u64_u32 v[8:9], vcc, v2, v3, v[4:5]
    v_cndmask_b32_e64 v6, 0, 1, vcc
    STORE v6
    WIDE v_mad_i64_i32 v[8:9], vcc, v2, v3, v[4:5]
    WIDE v_lshlrev_b64 v[8:9], v2, v[4:5]
    WIDE v_ashrrev_i64 v[8:9], v2, v[4:5]
    WIDE v_lshrrev_b64 v[8:9], v2, v[4:5]

; A chain of carries through VCC and through another pair.
    v_add_co_u32_e32 v6, vcc, v2, v4
    s_nop 1
    v_addc_co_u32_e32 v7, vcc, v3, v5, vcc
    STORE v6
    STORE v7
    v_sub_co_u32_e64 v6, s[10:11], v2, v4
    s_nop 1
    v_subb_co_u32_e64 v7, s[12:13], v3, v5, s[10:11]
    STORE v6
    STORE v7
    v_cndmask_b32_e64 v6, 0, 1, s[12:13]
    STORE v6
    v_subrev_co_u32_e32 v6, vcc, v2, v4
    s_nop 1
    v_subbrev_co_u32_e32 v7, vcc, v3, v5, vcc
    STORE v7

; Float modifiers: absolute value, sign, output scale, clamp.
    v_cvt_f32_i32_e32 v8, v2
    v_mul_f32_e32 v8, 0x30000000, v8
    v_cvt_f32_i32_e32 v9, v3
    v_mul_f32_e32 v9, 0x30000000, v9
    DO v_add_f32_e64 v6, -v8, |v9|
    DO v_mul_f32_e64 v6, v8, v9 clamp
    DO v_max_f32_e64 v6, -|v8|, v9 
    DO v_med3_f32 v6, v8, v9, 0.5
    s_movk_i32 s8, 0x108
    v_cmp_class_f32_e64 s[10:11], v8, s8
    s_nop 1
    v_cndmask_b32_e64 v6, 0, 1, s[10:11]
    STORE v6

.include "end.inc"

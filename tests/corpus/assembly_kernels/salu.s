; Scalar instructions that compilers rarely emit. x[0..7] are the inputs a, b, c, d and e..h;
; results and carry bits go to the lanes of v6 and v7, one lane after the other.
.include "begin.inc"
    s_load_dwordx8 s[8:15], s[4:5], 0x0
    v_mov_b32_e32 v6, 0
    v_mov_b32_e32 v7, 0
    s_waitcnt lgkmcnt(0)
.set place, 0

.macro PUT register
    v_writelane_b32 v6, \register, place
    .set place, place + 1
.endm

; One result register and SCC.
.macro DO instruction:vararg
    \instruction
    s_cselect_b32 s30, 1, 0
    v_writelane_b32 v7, s30, place
    PUT s20
.endm

; Two result registers and SCC.
.macro DO2 instruction:vararg
    \instruction
    s_cselect_b32 s30, 1, 0
    v_writelane_b32 v7, s30, place
    PUT s20
    PUT s21
.endm

; An instruction without SCC of its own.
.macro MOVE instruction:vararg
    \instruction
    PUT s20
.endm

.macro MOVE2 instruction:vararg
    \instruction
    PUT s20
    PUT s21
.endm

    MOVE s_bfm_b32 s20, s8, s9
    DO s_bfe_u32 s20, s8, 0x80005
    DO s_bfe_i32 s20, s8, 0x70003
    DO2 s_bfe_u64 s[20:21], s[8:9], 0x170013
    DO2 s_bfe_i64 s[20:21], s[8:9], 0x150011
    MOVE s_brev_b32 s20, s8
    MOVE2 s_brev_b64 s[20:21], s[8:9]
    DO s_bcnt0_i32_b32 s20, s8
    DO s_bcnt1_i32_b64 s20, s[8:9]
    MOVE s_ff0_i32_b32 s20, s8
    MOVE s_ff1_i32_b32 s20, s9
    MOVE s_ff1_i32_b64 s20, s[10:11]
    MOVE s_flbit_i32_b32 s20, s10
    MOVE s_flbit_i32 s20, s11
    MOVE s_flbit_i32_b64 s20, s[10:11]
    MOVE s_ff1_i32_b32 s20, 0
    MOVE s_flbit_i32 s20, -1
    MOVE s_sext_i32_i8 s20, s8
    MOVE s_sext_i32_i16 s20, s9
    s_mov_b32 s20, s10
    MOVE s_bitset0_b32 s20, s8
    MOVE s_bitset1_b32 s20, s9
    DO s_quadmask_b32 s20, s8
    DO s_wqm_b32 s20, s10
    DO s_abs_i32 s20, s8
    DO s_absdiff_i32 s20, s8, s9
    DO s_andn2_b32 s20, s8, s9
    DO s_orn2_b32 s20, s8, s9
    DO s_nand_b32 s20, s8, s9
    DO s_nor_b32 s20, s8, s9
    DO s_xnor_b32 s20, s8, s8
    MOVE s_pack_ll_b32_b16 s20, s8, s9
    MOVE s_pack_lh_b32_b16 s20, s8, s9
    MOVE s_pack_hh_b32_b16 s20, s8, s9
    DO s_lshl1_add_u32 s20, s8, s9
    DO s_lshl4_add_u32 s20, s10, s11
    MOVE s_mul_hi_i32 s20, s8, s9
    MOVE s_mul_hi_u32 s20, s8, s9
    STORE v6
    STORE v7
    v_mov_b32_e32 v6, 0
    v_mov_b32_e32 v7, 0
.set place, 0
    s_mov_b32 s20, s8
    DO s_addk_i32 s20, 0x7fff
    s_mov_b32 s20, s9
    MOVE s_mulk_i32 s20, -321
    DO s_min_i32 s20, s8, s9
    DO s_max_u32 s20, s8, s9
    MOVE2 s_bitreplicate_b64_b32 s[20:21], s8
    s_add_u32 s20, s8, s10
    DO s_addc_u32 s20, s9, s11
    s_sub_u32 s20, s8, s10
    DO s_subb_u32 s20, s9, s11
    DO2 s_ashr_i64 s[20:21], s[8:9], s12
    DO2 s_lshl_b64 s[20:21], s[8:9], 37
    DO2 s_not_b64 s[20:21], s[8:9]

; Comparisons with a constant: a bit each.
    s_movk_i32 s20, 0
    s_movk_i32 s21, 0
.macro COMPARE instruction:vararg
    \instruction
    s_addc_u32 s20, s20, s20
    s_nop 0
.endm
    s_movk_i32 s22, 100
    s_movk_i32 s23, -3
    COMPARE s_cmpk_eq_i32 s22, 100
    COMPARE s_cmpk_lg_i32 s22, 100
    COMPARE s_cmpk_gt_i32 s23, -4
    COMPARE s_cmpk_ge_i32 s23, -3
    COMPARE s_cmpk_lt_i32 s23, -3
    COMPARE s_cmpk_le_i32 s22, 99
    COMPARE s_cmpk_eq_u32 s22, 100
    COMPARE s_cmpk_lg_u32 s23, 0xfffd
    COMPARE s_cmpk_gt_u32 s23, 0xffff
    COMPARE s_cmpk_ge_u32 s22, 101
    COMPARE s_cmpk_lt_u32 s22, 0x8000
    COMPARE s_cmpk_le_u32 s22, 100
    COMPARE s_bitcmp0_b32 s22, 2
    COMPARE s_bitcmp1_b32 s22, 2
    COMPARE s_bitcmp1_b64 s[22:23], 60
    PUT s20

; Conditional moves.
    s_mov_b32 s20, s8
    s_cmp_eq_u32 s8, s8
    s_cmovk_i32 s20, -77
    PUT s20
    s_cmp_lg_u32 s8, s8
    s_cmov_b32 s20, s9
    PUT s20
    s_cselect_b64 s[20:21], s[8:9], s[10:11]
    PUT s20
    PUT s21

; Registers by index.
    s_mov_b32 m0, 3
    s_nop 0
    MOVE s_movrels_b32 s20, s8
    s_mov_b32 m0, 2
    s_nop 0
    s_movreld_b32 s20, s9
    PUT s22

; EXEC with saved copies.
    s_mov_b64 s[24:25], s[8:9]
    s_and_saveexec_b64 s[26:27], s[24:25]
    s_mov_b64 s[20:21], exec
    s_andn1_saveexec_b64 s[28:29], s[10:11]
    s_mov_b64 s[16:17], exec
    s_orn2_saveexec_b64 s[18:19], s[12:13]
    s_mov_b64 s[24:25], exec
    s_mov_b64 exec, -1
    PUT s20
    PUT s21
    PUT s16
    PUT s17
    PUT s24
    PUT s25
    PUT s26
    PUT s28
    PUT s18

; Calls.
    s_mov_b32 s20, 5
    s_call_b64 s[26:27], .Lcallee
    PUT s20
    s_getpc_b64 s[24:25]
.Lhere:
    s_add_u32 s24, s24, .Lcallee-.Lhere
    s_addc_u32 s25, s25, 0
    s_swappc_b64 s[26:27], s[24:25]
    PUT s20
    s_branch .Lafter
.Lcallee:
    s_mulk_i32 s20, 3
    s_addk_i32 s20, 1
    s_setpc_b64 s[26:27]
.Lafter:
    STORE v6
    STORE v7

.include "end.inc"

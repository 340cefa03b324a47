; Lanes one at a time: reads and writes by index, loops over active lanes, indexed registers.
.include "begin.inc"

; Reverse v2 by a loop of v_readlane and v_writelane.
    s_mov_b32 s8, 0
.Lreverse:
    s_sub_u32 s9, 63, s8
    s_mov_b32 m0, s9
    s_nop 4
    v_readlane_b32 s10, v2, s8
    s_nop 4
    v_writelane_b32 v6, s10, m0
    s_add_u32 s8, s8, 1
    s_cmp_lt_u32 s8, 64
    s_cbranch_scc1 .Lreverse
    STORE v6

; Prefix sums of v3 by a scalar.
    s_mov_b32 s8, 0
    s_mov_b32 s9, 0
.Lprefix:
    v_readlane_b32 s10, v3, s8
    s_nop 0
    s_add_i32 s9, s9, s10
    s_mov_b32 m0, s8
    s_nop 0
    v_writelane_b32 v6, s9, m0
    s_add_u32 s8, s8, 1
    s_cmpk_lg_i32 s8, 64
    s_cbranch_scc1 .Lprefix
    STORE v6

; Each distinct value of v4 & 3 is handled once: the count of the lanes that hold it.
    v_and_b32_e32 v7, 3, v4
    v_mov_b32_e32 v6, 0
    s_mov_b64 s[12:13], exec
.Ldistinct:
    v_readfirstlane_b32 s8, v7
    s_nop 4
    v_cmp_eq_u32_e64 s[10:11], s8, v7
    s_nop 4
    s_and_b64 s[10:11], s[10:11], exec
    s_bcnt1_i32_b64 s9, s[10:11]
    s_and_saveexec_b64 s[14:15], s[10:11]
    v_mov_b32_e32 v6, s9
    s_xor_b64 exec, s[14:15], exec
    s_cbranch_execnz .Ldistinct
    s_mov_b64 exec, s[12:13]
    STORE v6

; Scalar of the first active lane, with low lanes off.
    s_mov_b64 exec, 0xff00
    v_readfirstlane_b32 s8, v2
    s_mov_b64 exec, -1
    s_nop 4
    v_mov_b32_e32 v6, s8
    STORE v6

; No lane active: the first lane is read.
    s_mov_b64 exec, 0
    v_readfirstlane_b32 s8, v3
    s_mov_b64 exec, -1
    s_nop 4
    v_mov_b32_e32 v6, s8
    STORE v6

; v_cmpx narrows EXEC.
    v_mov_b32_e32 v6, v2
    v_cmpx_lt_i32_e32 vcc, v2, v3
    v_mov_b32_e32 v6, v3
    s_mov_b64 exec, -1
    STORE v6
    v_cndmask_b32_e64 v6, 0, 1, vcc
    STORE v6

; Registers by index: destination and source.
    v_mov_b32_e32 v10, v2
    v_mov_b32_e32 v11, v3
    v_mov_b32_e32 v12, v4
    v_mov_b32_e32 v13, v5
    s_mov_b32 s8, 2
    s_set_gpr_idx_on s8, gpr_idx(SRC0)
    v_mov_b32_e32 v6, v10
    s_set_gpr_idx_off
    STORE v6
    s_mov_b32 s8, 1
    s_set_gpr_idx_on s8, gpr_idx(DST)
    v_mov_b32_e32 v12, v2
    s_set_gpr_idx_off
    STORE v13

; Counting, broadcasting, swapping.
    s_mov_b32 s8, 0x0f0f3355
    s_mov_b32 s9, 0x70707070
    v_mbcnt_lo_u32_b32 v6, s8, v0
    v_mbcnt_hi_u32_b32 v6, s9, v6
    STORE v6
    v_mov_b32_e32 v6, v2
    v_mov_b32_e32 v7, v3
    v_swap_b32 v6, v7
    STORE v6
    STORE v7

.include "end.inc"

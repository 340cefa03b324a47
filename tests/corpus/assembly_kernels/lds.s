; LDS instructions that compilers rarely emit. Each lane has its own words, so order never matters.
.include "begin.inc"
    s_mov_b32 m0, -1

.macro RETURN instruction:vararg
    ds_write_b32 v1, v2
    s_waitcnt lgkmcnt(0)
    \instruction
    s_waitcnt lgkmcnt(0)
    ds_read_b32 v8, v1
    s_waitcnt lgkmcnt(0)
    STORE v6
    STORE v8
.endm

.macro PERMUTE instruction:vararg
    \instruction
    s_waitcnt lgkmcnt(0)
    STORE v6
.endm

    PERMUTE ds_swizzle_b32 v6, v2 offset:swizzle(QUAD_PERM,1,3,0,2)
    PERMUTE ds_swizzle_b32 v6, v2 offset:swizzle(SWAP,4)
    PERMUTE ds_swizzle_b32 v6, v2 offset:swizzle(REVERSE,8)
    PERMUTE ds_swizzle_b32 v6, v2 offset:swizzle(BROADCAST,16,5)
    PERMUTE ds_swizzle_b32 v6, v2 offset:swizzle(BITMASK_PERM,"01pip")
; Pull from and push to lane (3 * lane + 5) % 64.
    v_mul_u32_u24_e32 v7, 12, v0
    v_add_u32_e32 v7, 20, v7
    v_and_b32_e32 v7, 0xfc, v7
    PERMUTE ds_bpermute_b32 v6, v7, v2
    PERMUTE ds_permute_b32 v6, v7, v2
; With lanes off: a lane that is off gives zero to those that pull from it.
    v_mov_b32_e32 v6, v3
    s_mov_b32 exec_lo, 0xf0ff0ff0
    s_mov_b32 exec_hi, 0x55555555
    s_nop 4
    ds_bpermute_b32 v6, v7, v2
    s_waitcnt lgkmcnt(0)
    STORE_ALL v6
    s_mov_b64 exec, -1

    RETURN ds_add_rtn_u32 v6, v1, v3
    RETURN ds_rsub_rtn_u32 v6, v1, v3
    RETURN ds_inc_rtn_u32 v6, v1, v3
    RETURN ds_dec_rtn_u32 v6, v1, v3
    RETURN ds_min_rtn_i32 v6, v1, v3
    RETURN ds_max_rtn_u32 v6, v1, v3
    RETURN ds_mskor_rtn_b32 v6, v1, v3, v4
    RETURN ds_wrxchg_rtn_b32 v6, v1, v3
    v_cmp_lt_i32_e32 vcc, v4, v5
    s_nop 1
    v_cndmask_b32_e32 v9, v2, v3, vcc
    RETURN ds_cmpst_rtn_b32 v6, v1, v9, v4
    RETURN ds_wrap_rtn_b32 v6, v1, v3, v4

; Two at a time.
    ds_write2_b32 v1, v2, v3 offset1:64
    ds_write2st64_b32 v1, v4, v5 offset0:2 offset1:3
    s_waitcnt lgkmcnt(0)
    ds_read2_b32 v[6:7], v1 offset0:128 offset1:1
    s_waitcnt lgkmcnt(0)
    STORE v6
    STORE v7
    ds_wrxchg2st64_rtn_b32 v[6:7], v1, v4, v5 offset0:1
    s_waitcnt lgkmcnt(0)
    STORE v6
    STORE v7
    ds_read2st64_b32 v[6:7], v1 offset1:1
    s_waitcnt lgkmcnt(0)
    STORE v6
    STORE v7

; Bytes and halves, into either half of a register.
    ds_write_b32 v1, v2
    s_waitcnt lgkmcnt(0)
    ds_read_i8 v6, v1 offset:3
    s_waitcnt lgkmcnt(0)
    STORE v6
    v_mov_b32_e32 v6, v3
    ds_read_u8_d16 v6, v1 offset:1
    s_waitcnt lgkmcnt(0)
    STORE v6
    v_mov_b32_e32 v6, v3
    ds_read_i8_d16_hi v6, v1 offset:2
    s_waitcnt lgkmcnt(0)
    STORE v6
    v_mov_b32_e32 v6, v3
    ds_read_u16_d16_hi v6, v1
    s_waitcnt lgkmcnt(0)
    STORE v6
    ds_read_i16 v6, v1 offset:2
    s_waitcnt lgkmcnt(0)
    STORE v6
    ds_write_b8_d16_hi v1, v3 offset:1
    ds_write_b16_d16_hi v1, v4 offset:2
    s_waitcnt lgkmcnt(0)
    ds_read_b32 v6, v1
    s_waitcnt lgkmcnt(0)
    STORE v6

; Three and four words.
    v_lshlrev_b32_e32 v7, 4, v0
    ds_write_b96 v7, v[2:4]
    ds_write_b32 v7, v5 offset:12
    s_waitcnt lgkmcnt(0)
    ds_read_b128 v[8:11], v7
    ds_read_b96 v[12:14], v7
    s_waitcnt lgkmcnt(0)
    v_xor_b32_e32 v6, v8, v9
    v_xad_u32 v6, v6, v10, v11
    STORE v6
    v_add3_u32 v6, v12, v13, v14
    STORE v6

; A counter of active lanes at an address in M0.
    v_mov_b32_e32 v7, 0
    v_mov_b32_e32 v8, 1000
    ds_write_b32 v7, v8 offset:64
    s_waitcnt lgkmcnt(0)
    s_mov_b32 m0, 0x00400000
    s_mov_b64 exec, 0x7f0f
    s_nop 4
    ds_append v6
    s_waitcnt lgkmcnt(0)
    ds_consume v9
    s_waitcnt lgkmcnt(0)
    ds_append v10
    s_waitcnt lgkmcnt(0)
    v_readfirstlane_b32 s8, v6
    v_readfirstlane_b32 s9, v9
    v_readfirstlane_b32 s10, v10
    s_mov_b64 exec, -1
    s_mov_b32 m0, -1
    s_nop 4
    v_mov_b32_e32 v6, s8
    v_mov_b32_e32 v9, s9
    v_mov_b32_e32 v10, s10
    v_xor_b32_e32 v6, v6, v9
    STORE v6
    STORE v10

.include "end.inc"

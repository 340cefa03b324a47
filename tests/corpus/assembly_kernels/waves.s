; Two waves that pass words through LDS, by instructions with addresses in M0 and by two exchanges at
; once. x and out have rows of 128; v0 the work-item, v1 four times that, v2 the row of x.
.text
.globl test_kernel
.p2align 8
.type test_kernel,@function
test_kernel:
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    v_and_b32_e32 v0, 0x3ff, v0
    v_lshlrev_b32_e32 v1, 2, v0
    v_lshrrev_b32_e32 v3, 6, v0
    s_waitcnt lgkmcnt(0)
    global_load_dword v2, v1, s[4:5]
    v_readfirstlane_b32 s8, v3
    s_waitcnt vmcnt(0)

.macro STORE register
    global_store_dword v1, \register, s[6:7]
    s_add_u32 s6, s6, 512
    s_addc_u32 s7, s7, 0
.endm

.macro MEET
    s_waitcnt lgkmcnt(0)
    s_barrier
.endm

; A row of LDS from each wave, read by the other one.
    s_lshl_b32 s9, s8, 8
    s_sub_u32 s10, 256, s9
    s_mov_b32 m0, s9
    s_nop 0
    ds_write_addtid_b32 v2 offset:16
    MEET
    s_mov_b32 m0, s10
    s_nop 0
    ds_read_addtid_b32 v6 offset:16
    s_waitcnt lgkmcnt(0)
    STORE v6

; Words at 1024 and 1536, exchanged for two others by the other wave.
    ds_write_b32 v1, v2 offset:1024
    ds_write_b32 v1, v6 offset:1536
    MEET
    v_sub_u32_e32 v7, 0x5fc, v1
    ds_wrxchg2_rtn_b32 v[8:9], v7, v6, v0 offset1:128
    MEET
    STORE v8
    STORE v9
    v_add_u32_e32 v7, 0x400, v1
    ds_read2_b32 v[8:9], v7 offset1:128
    s_waitcnt lgkmcnt(0)
    STORE v8
    STORE v9

; A counter at 2048 that one work-item sets, and all change.
    v_mov_b32_e32 v7, 0x800
    v_mov_b32_e32 v8, 0x3e8
    v_cmp_eq_u32_e32 vcc, 0, v0
    s_and_saveexec_b64 s[12:13], vcc
    ds_write_b32 v7, v8
    s_mov_b64 exec, s[12:13]
    MEET
    s_mov_b32 m0, 0x08000000
    ds_append v9
    s_mov_b64 exec, 0x7f
    ds_consume v9
    s_mov_b64 exec, -1
    MEET
    ds_read_b32 v9, v7
    s_waitcnt lgkmcnt(0)
    STORE v9

.include "end.inc"

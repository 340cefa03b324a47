; Buffer instructions: structured and swizzled descriptors, reads and writes out of bounds.
.include "begin.inc"

; s[12:15]: x as 64 records of 16 bytes; only 48 of them are in bounds.
    s_mov_b32 s12, s4
    s_and_b32 s13, s5, 0xffff
    s_or_b32 s13, s13, 16 << 16
    s_mov_b32 s14, 48
    s_mov_b32 s15, 0x27000
    buffer_load_dword v6, v0, s[12:15], 0 idxen offset:8
    s_waitcnt vmcnt(0)
    STORE v6
; Index and offset from registers: offset is 4 * (lane & 3).
    v_and_b32_e32 v9, 3, v0
    v_lshlrev_b32_e32 v9, 2, v9
    v_lshrrev_b32_e32 v8, 2, v0
    buffer_load_dword v6, v[8:9], s[12:15], 0 idxen offen
    s_waitcnt vmcnt(0)
    STORE v6
; Several words; each record has 4.
    buffer_load_dwordx4 v[8:11], v0, s[12:15], 0 idxen
    s_waitcnt vmcnt(0)
    v_xor_b32_e32 v6, v8, v11
    STORE v6
    STORE v10

; s[16:19]: x as 1000 raw bytes.
    s_mov_b32 s16, s4
    s_and_b32 s17, s5, 0xffff
    s_movk_i32 s18, 1000
    s_mov_b32 s19, 0x27000
    s_movk_i32 s8, 768
    buffer_load_dword v6, v1, s[16:19], s8 offen
    s_waitcnt vmcnt(0)
    STORE v6
    v_mov_b32_e32 v6, v3
    buffer_load_ubyte_d16_hi v6, v1, s[16:19], 0 offen offset:1
    s_waitcnt vmcnt(0)
    STORE v6
    v_mov_b32_e32 v6, v3
    buffer_load_short_d16 v6, v1, s[16:19], 0 offen offset:514
    s_waitcnt vmcnt(0)
    STORE v6
    buffer_load_sbyte v6, v0, s[16:19], 0 offen
    s_waitcnt vmcnt(0)
    STORE v6
    s_buffer_load_dwordx2 s[20:21], s[16:19], 0x10
    s_waitcnt lgkmcnt(0)
    v_mov_b32_e32 v6, s20
    v_add_u32_e32 v6, s21, v6
    STORE v6

; s[12:15]: x swizzled, records of 16 bytes, 8 records interleaved by words.
    s_or_b32 s13, s13, 0x80000000
    s_mov_b32 s14, 64
    buffer_load_dword v6, v0, s[12:15], 0 idxen offset:4
    s_waitcnt vmcnt(0)
    STORE v6
    buffer_load_dword v6, v0, s[12:15], 0 idxen offset:12
    s_waitcnt vmcnt(0)
    STORE v6

; Stores: 200 bytes of the next row of out are in bounds, the rest is dropped.
    s_mov_b32 s20, s6
    s_and_b32 s21, s7, 0xffff
    s_movk_i32 s22, 200
    s_mov_b32 s23, 0x27000
    buffer_store_dword v2, v1, s[20:23], 0 offen
    buffer_store_short_d16_hi v3, v1, s[20:23], 0 offen
    buffer_store_byte v4, v1, s[20:23], 0 offen offset:3
    s_waitcnt vmcnt(0)
    s_add_u32 s6, s6, 256
    s_addc_u32 s7, s7, 0
    STORE v2

; Memory to LDS, a word a lane at M0 + 4 * lane.
    s_movk_i32 s8, 512
    s_mov_b32 m0, s8
    s_nop 0
    buffer_load_dword v1, s[16:19], 0 offen lds
    s_waitcnt vmcnt(0)
    ds_read_b32 v6, v1 offset:512
    s_waitcnt lgkmcnt(0)
    STORE v6

.include "end.inc"

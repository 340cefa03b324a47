; Every DPP control, with masks, with lanes off, with and without bound_ctrl.
.include "begin.inc"

.macro MOVE control:vararg
    s_mov_b64 s[90:91], exec
    s_mov_b64 exec, -1
    v_mov_b32_e32 v6, v3
    s_mov_b64 exec, s[90:91]
    s_nop 4
    v_mov_b32_dpp v6, v2 \control
    STORE_ALL v6
.endm

.macro ALL_CONTROLS masks:vararg
    MOVE quad_perm:[2,0,3,1] \masks
    MOVE row_shl:3 \masks
    MOVE row_shr:5 \masks
    MOVE row_ror:7 \masks
    MOVE wave_shl:1 \masks
    MOVE wave_rol:1 \masks
    MOVE wave_shr:1 \masks
    MOVE wave_ror:1 \masks
    MOVE row_mirror \masks
    MOVE row_half_mirror \masks
    MOVE row_newbcast:6 \masks
.endm

    ALL_CONTROLS row_mask:0xf bank_mask:0xf
    ALL_CONTROLS row_mask:0xb bank_mask:0x7 bound_ctrl:0
    s_mov_b32 exec_lo, 0x33ff77f0
    s_mov_b32 exec_hi, 0x0f0ff6fe
    s_nop 4
    ALL_CONTROLS row_mask:0xf bank_mask:0xf
    ALL_CONTROLS row_mask:0x5 bank_mask:0xd bound_ctrl:0
    s_mov_b64 exec, -1
    s_nop 4
    MOVE row_bcast:15 row_mask:0xa bank_mask:0xf
    MOVE row_bcast:31 row_mask:0xc bank_mask:0xf

; Arithmetic with a DPP source, and a comparison.
    v_mov_b32_e32 v6, v3
    s_nop 1
    v_add_u32_dpp v6, v2, v4 row_shr:1 row_mask:0xf bank_mask:0xf
    STORE v6
    v_mov_b32_e32 v6, v3
    s_nop 1
    v_xor_b32_dpp v6, v2, v6 quad_perm:[3,3,1,0] row_mask:0xf bank_mask:0xf
    STORE v6
    v_mov_b32_e32 v6, v3
    s_nop 1
    v_sub_u32_dpp v6, v2, v4 row_half_mirror row_mask:0x6 bank_mask:0xf bound_ctrl:0
    STORE v6
    v_mov_b32_e32 v6, v3
    s_nop 1
    v_max_i32_dpp v6, v2, v4 row_ror:1 row_mask:0xf bank_mask:0x9
    STORE v6
    v_cmp_gt_i32_e32 vcc, v2, v3
    s_nop 1
    v_mov_b32_e32 v6, v3
    s_nop 1
    v_cndmask_b32_dpp v6, v2, v4, vcc row_shl:1 row_mask:0xf bank_mask:0xf bound_ctrl:0
    STORE v6

.include "end.inc"

"""Wait states that dependent instructions need between them.

LLVM inserts them (``s_nop N`` gives N + 1); a checker verifies them. Sources: LLVM
``GCNHazardRecognizer``, rocRoller. Where this table and LLVM's recogniser differ, LLVM is right.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hazard:
    """One producer -> consumer rule of one target.

    ``wait_states`` is a plain number, or pairs ``(passes of the producing or reading matrix
    instruction, wait states)`` where the need grows with the matrix instruction's length.
    """

    name: str
    producer: str
    consumer: str
    wait_states: int | tuple[tuple[int, int], ...]

    def required(self, passes: int | None = None) -> int:
        """Wait states needed; ``passes`` is the matrix instruction's, for rules that depend on it.

        A length between two rows of the table takes the longer row. Raises ``ValueError`` when the
        rule needs ``passes`` and none or a longer one than any row is given.
        """
        if isinstance(self.wait_states, int):
            return self.wait_states
        for row_passes, states in self.wait_states:
            if passes is not None and passes <= row_passes:
                return states
        known = ", ".join(str(p) for p, _ in self.wait_states)
        raise ValueError(f"hazard {self.name}: passes is {passes}, the table has {known}")


_XDL_ROWS = (
    ("mfma_c_same", "matrix D", "matrix C, the same registers"),
    ("mfma_c_overlap", "matrix D", "matrix C, overlapping but not the same registers"),
    ("mfma_ab", "matrix D", "matrix A or B"),
    ("mfma_vector", "matrix D", "vector read or write, LDS or memory read"),
    ("mfma_war", "matrix reads C", "vector writes it"),
)


def _xdl(passes: tuple[int, ...], *rows: tuple[int, ...]) -> tuple[Hazard, ...]:
    return tuple(
        Hazard(name, producer, consumer, tuple(zip(passes, states, strict=True)))
        for (name, producer, consumer), states in zip(_XDL_ROWS, rows, strict=True)
    )


def _f32_producer() -> tuple[Hazard, ...]:
    """f32 matrix producers on gfx942 and gfx950, with N passes. [LLVM GCNHazardRecognizer]"""
    lengths = (2, 4, 8, 16)
    plain = tuple((n, n) for n in lengths)
    plus_two = tuple((n, n + 2) for n in lengths)
    return (
        Hazard("sgemm_c_overlap", "f32 matrix D", "overlapping C of an f32 matrix", plain),
        Hazard("sgemm_ab", "f32 matrix D", "matrix A or B", plus_two),
        Hazard("sgemm_vector", "f32 matrix D", "vector, LDS or memory access", plus_two),
        Hazard("sgemm_xdl_c", "f32 matrix D", "C of an XDL instruction", 0),
    )


_ALL = (  # every target [LLVM GCNHazardRecognizer]
    Hazard("vector_mfma", "vector writes a register", "matrix reads it", 2),
    Hazard("exec_mfma", "vector writes EXEC", "matrix instruction", 4),
    Hazard("exec_lane", "vector writes EXEC", "v_readlane, v_writelane", 4),
    Hazard("m0_lds_direct", "M0 write", "LDS-direct copy", 1),
    Hazard("sgpr_lane_select", "vector writes an SGPR", "lane select", 4),
    Hazard("sgpr_vmem", "vector writes an SGPR", "vector memory instruction reads it", 5),
    Hazard("vcc_div_fmas", "vector writes VCC", "v_div_fmas", 4),
    Hazard("vector_dpp", "vector writes a register", "DPP reads it", 2),
    Hazard("exec_dpp", "EXEC write", "DPP", 5),
    Hazard("partial_write", "SDWA or op_sel partial write", "vector reads the register", 1),
)

_GFX940 = (  # gfx942 and gfx950 [LLVM GCNHazardRecognizer]
    Hazard("trans_vector", "transcendental", "plain vector instruction reads it", 1),
    Hazard("vector_readlane", "vector writes a register", "v_readlane, v_readfirstlane", 1),
    Hazard("sgpr_constant", "vector writes an SGPR or VCC", "vector reads it as a constant", 2),
    Hazard("wide_store", "store of more than 64 bits", "vector overwrites its data", 2),
)

GFX90A_HAZARDS = (
    *_xdl((2, 8, 16), (0, 0, 0), (2, 8, 16), (5, 11, 19), (5, 11, 19), (1, 7, 15)),
    *_ALL,
    Hazard("wide_store", "store of more than 64 bits", "vector overwrites its data", 1),
)

GFX942_HAZARDS = (
    *_xdl(
        (2, 4, 8, 16), (2, 0, 0, 0), (3, 5, 9, 17), (5, 7, 11, 19), (5, 7, 11, 19), (1, 3, 7, 15)
    ),
    *_f32_producer(),
    *_ALL,
    *_GFX940,
)

GFX950_HAZARDS = (
    *_xdl(
        (2, 4, 8, 16), (2, 0, 0, 0), (4, 6, 10, 18), (5, 8, 12, 20), (5, 8, 12, 20), (1, 3, 7, 15)
    ),
    *_f32_producer(),
    *_ALL,
    *_GFX940,
    Hazard("vector_permlane_swap", "vector writes a register", "v_permlane*_swap", 2),
)

"""What the one-wave attention body needs of a target."""

from __future__ import annotations

from rocke.arch import UnknownMatrixOp, UnknownTarget, target
from rocke.helpers.spec import check_choice

FMHA_DTYPES = ("f16", "bf16")


def validate_fmha_mfma_atom(dtype: str, arch: str) -> tuple[bool, str]:
    """Whether ``arch`` is a target with the 16x16x16 matrix instruction for ``dtype``.

    Returns ``(ok, reason)``.
    """
    reason = check_choice("dtype", dtype, FMHA_DTYPES)
    if reason:
        return False, reason
    try:
        target(arch).find_matrix_op(16, 16, 16, dtype)
    except (UnknownTarget, UnknownMatrixOp) as error:
        return False, str(error)
    return True, "ok"

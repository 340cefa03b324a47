"""The builder: all groups of methods together."""

from __future__ import annotations

from rocke.core.casts import Casts
from rocke.core.constants import Constants
from rocke.core.control_flow import ControlFlow
from rocke.core.cross_lane import CrossLane
from rocke.core.floats import Floats
from rocke.core.ids import Ids
from rocke.core.integers import Integers
from rocke.core.lds import Lds
from rocke.core.matrix import Matrix
from rocke.core.sync import Sync
from rocke.core.vectors import Vectors


class IRBuilder(
    Constants,
    Integers,
    Floats,
    Casts,
    Vectors,
    Ids,
    ControlFlow,
    Lds,
    Matrix,
    CrossLane,
    Sync,
):
    """Builds one kernel, operation by operation, as verified MLIR.

    ``IRBuilder(kernel_name)``; then ``b.param(...)`` for each parameter, the body through the
    methods, ``b.ret()``, and ``b.kernel`` is the `KernelDef`. Each builder has an MLIR context of
    its own: it needs no ``with``, and several can work at once, one a thread. Every operation
    carries the file and line of the Python that asked for it. What is ill-typed is refused at once
    with an `IRError`.
    """

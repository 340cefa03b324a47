"""Which task each workgroup takes: every one once, and neighbours to the same die."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from rocke.arch import TARGETS
from rocke.compiler import compile_kernel
from rocke.compiler.code_object import CodeObject
from rocke.core.ir import I32, IRBuilder, ptr
from rocke.emulator import EmulatedDevice
from rocke.kernels.common.block_sparse_attention import BlockSparseAttentionSpec
from rocke.kernels.common.bsa_order import Task
from rocke.runtime import Launcher
from tests.kernels.block_sparse_runs import ARCHS, check, compiled, random_problem, with_options

GRIDS = [(1, 1, 1), (5, 1, 1), (7, 3, 1), (4, 2, 3), (13, 5, 2), (8, 8, 1), (1, 3, 9)]


@functools.cache
def recorder(dies: int) -> CodeObject:
    """A kernel that writes its task's number in the grid at its own number."""
    b = IRBuilder(f"tasks_{dies}")
    b.bind_arch("gfx942")
    tasks = b.param("tasks", ptr(I32))
    along_x, heads, _ = b.grid_sizes()

    def number(x, head, batch):
        return b.add(x, b.mul(along_x, b.add(head, b.mul(heads, batch))))

    task = Task.of(b, dies)
    own = number(b.block_id_x(), b.block_id_y(), b.block_id_z())
    b.global_store(tasks, own, number(task.x, task.head, task.batch))
    b.ret()
    return compile_kernel(b.kernel, "gfx942")


def tasks(dies: int, grid: tuple[int, int, int]) -> np.ndarray:
    found = np.full(int(np.prod(grid)), -1, np.int32)
    signature = [{"name": "tasks", "type": "ptr<i32, global>"}]
    device = EmulatedDevice("gfx942")
    Launcher(device, recorder(dies), signature, grid=grid, block=(1, 1, 1))(tasks=found)
    return found


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("dies", [1, 2, 8])
def test_every_task_belongs_to_one_workgroup(dies, grid):
    found = tasks(dies, grid)
    assert (np.sort(found) == np.arange(len(found))).all()


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("dies", [2, 8])
def test_a_die_takes_neighbouring_tasks_in_order(dies, grid):
    found = tasks(dies, grid)
    runs = [found[die::dies] for die in range(dies)]
    assert (np.concatenate(runs) == np.arange(len(found))).all()
    assert max(map(len, runs)) - min(map(len, runs)) <= 1


def test_a_launch_of_one_die_keeps_the_grid():
    assert (tasks(1, (5, 3, 2)) == np.arange(30)).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_defaults_count_the_target_s_dies(arch):
    spec = BlockSparseAttentionSpec(64, "f16")
    settings = spec.resolve(arch)
    assert settings.dies == TARGETS[arch].dies == (1 if arch == "gfx90a" else 8)
    assert spec.kernel_name(arch).endswith(f"_X{settings.dies}")


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_results_do_not_depend_on_the_dies(arch):
    spec = BlockSparseAttentionSpec(64, "f16", need_lse=True, row_order=True)
    settings = spec.resolve(arch)
    # 5 query blocks, 3 heads, 3 batches: 45 tasks, no multiple of 8.
    sizes = {"batch": 3, "heads": 3, "kv_heads": 3, "seqlen_q": 290}
    given = random_problem(spec, np.random.default_rng(0), **sizes)
    bits = []
    for dies in (1, 2, 8):
        chosen = with_options(spec, settings=type(settings)(**{**vars(settings), "dies": dies}))
        bits.append(check(chosen, arch, given))
        assert compiled(chosen, arch).kernel(None).name.endswith(f"_X{dies}")
    assert (bits[0] == bits[1]).all()
    assert (bits[0] == bits[2]).all()

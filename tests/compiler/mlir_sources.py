"""Hand-written MLIR kernels for the compiler's tests."""

from __future__ import annotations

from rocke.compiler.source import KernelText, ParameterText

GLOBAL_F32 = "memref<1024xf32, #gpu.address_space<global>>"


def kernel_text(
    body: str,
    *,
    name: str = "k",
    arguments: str = "%p: !llvm.ptr<1>, %n: i32",
    globals_: str = "",
    attributes: dict[str, object] | None = None,
    params: tuple[ParameterText, ...] = (),
    arch: str | None = None,
    targets: tuple[str, ...] | None = None,
) -> KernelText:
    """A kernel around ``body``, which starts at line 4 of the text."""
    head = f"module attributes {{gpu.container_module}} {{ gpu.module @kernels {{ {globals_}\n\n"
    function = f"gpu.func @{name}({arguments}) kernel {{\n"
    text = f"{head}{function}{body}\ngpu.return\n}} }} }}\n"
    return KernelText(name, text, attributes or {"max_workgroup_size": 64}, arch, params, targets)


STORE_IDS = """
%t = gpu.thread_id x loc("kernels/demo.py":10:0)
%i = arith.index_cast %t : index to i32 loc("kernels/demo.py":11:0)
%q = llvm.getelementptr %p[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
  loc("kernels/demo.py":12:0)
%s = arith.muli %i, %n : i32 loc("kernels/demo.py":13:0)
llvm.store %s, %q : i32, !llvm.ptr<1> loc("helpers/store.py":14:0)
"""


def store_ids(**fields: object) -> KernelText:
    """Stores ``n`` times the work-item id through ``p``."""
    return kernel_text(STORE_IDS, **fields)  # type: ignore[arg-type]


def lds_kernel(size: int, **fields: object) -> KernelText:
    """Uses a byte array of ``size`` bytes in LDS."""
    array = f"llvm.mlir.global private @lds() {{addr_space = 3 : i32}} : !llvm.array<{size} x i8>"
    body = """
%a = llvm.mlir.addressof @lds : !llvm.ptr<3>
%c = llvm.mlir.constant(1 : i8) : i8
%q = llvm.getelementptr %a[%n] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
llvm.store volatile %c, %q : i8, !llvm.ptr<3>
"""
    return kernel_text(body, globals_=array, **fields)  # type: ignore[arg-type]


def register_hungry_kernel(values: int, **fields: object) -> KernelText:
    """Holds ``values`` vectors of 4 registers a lane at once, across a barrier."""
    vector = "vector<4xf32>"
    lines = ["%t = gpu.thread_id x", "%b = arith.index_cast %t : index to i32"]
    for i in range(values):
        lines += [
            f"%a{i} = llvm.getelementptr %p[%b, {i}] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, "
            f"!llvm.array<{values} x {vector}>",
            f"%v{i} = llvm.load volatile %a{i} : !llvm.ptr<1> -> {vector}",
        ]
    lines.append("gpu.barrier")
    lines += [f"llvm.store volatile %v{i}, %a{i} : {vector}, !llvm.ptr<1>" for i in range(values)]
    return kernel_text("\n".join(lines), **fields)  # type: ignore[arg-type]

"""Launch a kernel with named arguments, checked before the device sees them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rocke.compiler.code_object import CodeObject
from rocke.runtime.device import Buffer, Device, DeviceError
from rocke.runtime.limits import (
    Limits,
    check_array,
    check_buffer,
    check_limits_declaration,
    check_value,
)
from rocke.runtime.packing import (
    ArgumentError,
    ArgumentType,
    SignatureItem,
    check_signature,
    encode,
    pack,
    parse_signature,
)


class LaunchRules(Protocol):
    """What :meth:`Launcher.of_family` asks of a kernel family: see ``rocke.kernels.family``."""

    def block_of(self, spec: Any, arch: str) -> tuple[int, int, int]:
        """Work-items of a workgroup."""
        ...

    def grid_of(self, spec: Any, arch: str, arguments: Mapping[str, Any]) -> tuple[int, int, int]:
        """Workgroups of a launch with these arguments."""
        ...

    @property
    def signature(self) -> Callable[[Any], Sequence[SignatureItem]]:
        """The kernel's signature, of a spec."""
        ...

    @property
    def limits(self) -> Callable[[Any], Limits]:
        """What must hold for the arguments, of a spec."""
        ...


class Launcher:
    """A loaded kernel that is called with named arguments.

    ``signature`` is the ordered list of ``{"name", "type"}`` that the kernel was built with; it is
    compared with the code object's metadata. ``grid`` counts workgroups, ``block`` work-items.
    ``limits`` is described in :mod:`rocke.runtime.limits`. ``outputs`` names the pointers that the
    kernel writes; left out, the code object's access qualifiers decide, and a pointer without one
    counts as written.

    Raises :class:`rocke.runtime.packing.ArgumentError` for a signature, block or limit that does
    not belong to the code object, and :class:`rocke.runtime.device.DeviceError` if it does not
    load.
    """

    def __init__(
        self,
        device: Device,
        code_object: CodeObject,
        signature: Sequence[SignatureItem],
        *,
        kernel: str | None = None,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        limits: Limits | None = None,
        outputs: Collection[str] | None = None,
    ) -> None:
        self.device = device
        self.info = code_object.kernel(kernel)
        self.types = parse_signature(signature)
        check_signature(self.types, self.info)
        self.limits: Limits = dict(limits or {})
        check_limits_declaration(self.types, self.limits)
        self.grid, self.block = _dimensions("grid", grid), _dimensions("block", block)
        self._check_block()
        self.outputs = self._written(outputs)
        self.kernel = device.load(code_object, kernel)

    @classmethod
    def of_family(
        cls,
        device: Device,
        code_object: CodeObject,
        family: LaunchRules,
        spec: Any,
        arguments: Mapping[str, Any] | None = None,
    ) -> Launcher:
        """The launcher of a spec's code object, by its family's rules; raises as ``Launcher``.

        ``arguments`` are those of the launch, for a family whose grid depends on them.
        """
        return cls(
            device,
            code_object,
            family.signature(spec),
            grid=family.grid_of(spec, code_object.arch, arguments or {}),
            block=family.block_of(spec, code_object.arch),
            limits=family.limits(spec),
        )

    def __call__(self, **arguments: Any) -> None:
        """Run the kernel once.

        A pointer takes a numpy array of the declared element type (bfloat16 and fp8 as ml_dtypes
        has them) or a device buffer; a value takes a number. With at least one array the call
        returns when the kernel has ended and its outputs are in the arrays; with buffers alone it
        may return earlier (:meth:`Device.synchronize` waits).

        Raises :class:`ArgumentError` that names the argument, :class:`DeviceError` from the device.
        """
        self._check_names(arguments)
        values = self._values(arguments)
        arrays, addresses = self._pointers(arguments, values)
        regions = _regions(arrays, self.outputs)
        try:
            for region in regions:
                region.enter(self.device)
                addresses.update(region.addresses())
            kernargs = pack(self.types, self.info, {**values, **addresses})
            self.device.launch(self.kernel, self.grid, self.block, kernargs)
            if regions:
                self.device.synchronize()
            for region in regions:
                region.copy_out(self.device)
        finally:
            for region in regions:
                region.leave(self.device)

    def _check_block(self) -> None:
        items = self.block[0] * self.block[1] * self.block[2]
        required = self.info.required_workgroup_size
        if required is not None and self.block != required:
            raise ArgumentError(f"block: {self.block}, kernel {self.info.name} needs {required}")
        if items > self.info.max_workgroup_size:
            raise ArgumentError(
                f"block: {self.block} is {items} work-items, kernel {self.info.name} was compiled "
                f"for at most {self.info.max_workgroup_size}"
            )

    def _written(self, outputs: Collection[str] | None) -> frozenset[str]:
        if outputs is not None:
            for name in outputs:
                if name not in self.types or not self.types[name].pointer:
                    raise ArgumentError(f"outputs: {name!r} is no pointer argument")
            return frozenset(outputs)
        declared = zip(self.types.items(), self.info.explicit_arguments, strict=True)
        return frozenset(
            name for (name, type_), a in declared if type_.pointer and a.access != "read_only"
        )

    def _check_names(self, arguments: Mapping[str, Any]) -> None:
        missing = [name for name in self.types if name not in arguments]
        extra = [name for name in arguments if name not in self.types]
        wrong = [
            f"{kind} {', '.join(map(repr, names))}"
            for kind, names in (("missing", missing), ("unknown", extra))
            if names
        ]
        if wrong:
            raise ArgumentError(
                f"kernel {self.info.name}: {'; '.join(wrong)} (arguments: {', '.join(self.types)})"
            )

    def _values(self, arguments: Mapping[str, Any]) -> dict[str, int | float]:
        values = {}
        for name, type_ in self.types.items():
            if not type_.pointer:
                encode(name, type_, arguments[name])
                check_value(name, arguments[name], self.limits)
                values[name] = arguments[name]
        return values

    def _pointers(
        self, arguments: Mapping[str, Any], values: Mapping[str, int | float]
    ) -> tuple[dict[str, np.ndarray], dict[str, int]]:
        arrays: dict[str, np.ndarray] = {}
        addresses: dict[str, int] = {}
        for name, type_ in self.types.items():
            if not type_.pointer:
                continue
            value = arguments[name]
            if isinstance(value, np.ndarray):
                self._check_array_type(name, type_, value)
                check_array(name, value, self.limits, values)
                arrays[name] = value
            elif isinstance(value, Buffer):
                size = type_.dtypes[0].itemsize
                check_buffer(name, value.address, value.nbytes, size, self.limits, values)
                addresses[name] = value.address
            else:
                raise ArgumentError(
                    f"argument {name!r}: {type(value).__name__}, expected a numpy array of "
                    f"{type_.dtypes[0].name} or a device buffer"
                )
        return arrays, addresses

    def _check_array_type(self, name: str, type_: ArgumentType, array: np.ndarray) -> None:
        if array.dtype not in type_.dtypes:
            hint = " (numpy dtype ml_dtypes.bfloat16)" if type_.element == "bf16" else ""
            raise ArgumentError(
                f"argument {name!r}: dtype {array.dtype}, expected "
                f"{' or '.join(d.name for d in type_.dtypes)}{hint}"
            )
        if name in self.outputs and not array.flags.writeable:
            raise ArgumentError(f"argument {name!r}: the kernel writes it, the array is read-only")


@dataclass
class _Region:
    """A stretch of host memory that one or more array arguments lie in."""

    start: int
    end: int
    owners: list[np.ndarray]
    offsets: dict[str, int]
    written: bool = False
    buffer: Buffer | None = None
    host: np.ndarray = field(init=False)

    def enter(self, device: Device) -> None:
        raw = (ctypes.c_uint8 * (self.end - self.start)).from_address(self.start)
        self.host = np.ctypeslib.as_array(raw)
        self.host.flags.writeable = self.written
        wrap = getattr(device, "wrap", None)
        if wrap is not None:
            self.buffer = wrap(self.host)
            return
        self.buffer = device.allocate(self.host.nbytes)
        device.copy_in(self.buffer, self.host)

    def addresses(self) -> dict[str, int]:
        if self.buffer is None:
            raise DeviceError("the region is not on the device")
        base = self.buffer.address
        return {name: base + offset for name, offset in self.offsets.items()}

    def copy_out(self, device: Device) -> None:
        if self.written and self.buffer is not None and not hasattr(device, "wrap"):
            device.copy_out(self.host, self.buffer)

    def leave(self, device: Device) -> None:
        if self.buffer is not None:
            device.free(self.buffer)
            self.buffer = None


def _regions(arrays: Mapping[str, np.ndarray], outputs: frozenset[str]) -> list[_Region]:
    # Views of one tensor (Q, K and V of a packed projection) interleave in memory: they must share
    # one device buffer, or copying one output back would overwrite another.
    spans = []
    for name, array in arrays.items():
        start = array.ctypes.data
        reach = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
        spans.append((start, start + reach + array.itemsize, name, array))
    regions: list[_Region] = []
    for start, end, name, array in sorted(spans, key=lambda span: span[:3]):
        if regions and start < regions[-1].end:
            region = regions[-1]
            region.end = max(region.end, end)
        else:
            region = _Region(start, end, [], {})
            regions.append(region)
        region.owners.append(array)
        region.offsets[name] = start - region.start
        region.written |= name in outputs
    return regions


def _dimensions(what: str, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    if len(sizes) != 3 or any(int(n) != n or not 1 <= n < 2**31 for n in sizes):
        raise ArgumentError(f"{what}: {sizes!r}, expected three counts of at least 1")
    x, y, z = (int(n) for n in sizes)
    return x, y, z

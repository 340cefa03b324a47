"""Launch a kernel with named arguments, checked before the device sees them."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from rocke.compiler.code_object import CodeObject, KernelInfo
from rocke.runtime.device import Buffer, Device, DeviceError, KernelFault
from rocke.runtime.fault_arguments import named_fault
from rocke.runtime.limits import (
    GRID,
    Limits,
    address_of,
    check_array,
    check_buffer,
    check_limits_declaration,
    check_value,
)
from rocke.runtime.packing import (
    ArgumentError,
    ArgumentType,
    Packing,
    SignatureItem,
    check_signature,
    encode,
    object_signature,
    parse_signature,
)
from rocke.runtime.promises import Promises, check_block

Grid = tuple[int, int, int]
GridRule = Callable[[Mapping[str, Any]], Grid]
_MOST = (1 << 31) - 1
"""Workgroups, or work-items, along one axis: what the HIP launch call can take."""


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

    def name_of(self, spec: Any, arch: str) -> str:
        """The name of a spec's kernel."""
        ...

    @property
    def limits(self) -> Callable[[Any], Limits]:
        """What must hold for the arguments, of a spec."""
        ...


class HasSignature(Protocol):
    """What has a signature: ``rocke.core.ir.KernelDef``, for one."""

    def signature(self) -> Sequence[SignatureItem]:
        """The kernel's signature."""
        ...


@contextlib.contextmanager
def refusal_told(device: Device) -> Iterator[None]:
    """Tell a device that awaits the outputs of a launch (the emulated one) if it does not come."""
    try:
        yield
    except (ArgumentError, DeviceError):
        refused = getattr(device, "launch_refused", None)
        if refused is not None:
            refused()
        raise


class Launcher:
    """A loaded kernel that is called with named arguments.

    ``signature`` is the ordered list of ``{"name", "type"}`` that the kernel was built with, or the
    kernel itself; it is compared with the code object's metadata. Left out, it is read from there:
    rocke's compiler writes it. ``grid`` counts workgroups, ``block`` work-items; ``grid`` may be a
    function of the launch's arguments (which raises ``ValueError`` where it has no answer), and
    without it every launch gives its own (:meth:`with_grid`). ``limits`` is described in
    :mod:`rocke.runtime.limits`; without limits every array must be C-contiguous. ``outputs`` names
    the pointers that the kernel writes; left out, the code object's access qualifiers decide, and a
    pointer without one counts as written.

    Raises :class:`rocke.runtime.packing.ArgumentError` for a signature, block or limit that does
    not belong to the code object, and :class:`rocke.runtime.device.DeviceError` if it does not
    load.
    """

    def __init__(
        self,
        device: Device,
        code_object: CodeObject,
        signature: Sequence[SignatureItem] | HasSignature | None = None,
        *,
        kernel: str | None = None,
        grid: Grid | GridRule | None = None,
        block: Grid,
        limits: Limits | None = None,
        outputs: Collection[str] | None = None,
    ) -> None:
        _check_kinds(device, code_object)
        self.device = device
        self.info = code_object.kernel(kernel)
        self.types = parse_signature(_items(signature, self.info))
        check_signature(self.types, self.info)
        self.limits: Limits = dict(limits or {})
        check_limits_declaration(self.types, self.limits)
        self.rule: GridRule | None = grid if callable(grid) else None
        self.grid = None if grid is None or callable(grid) else _dimensions("grid", grid)
        self.counted: Mapping[str, int] = {}
        self.block = _dimensions("block", block)
        check_block(self.info, self.block)
        self.promises = Promises.of(self.info)
        self.packing = Packing.of(self.types, self.info)
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
        """The launcher of a spec's code object, by its family's rules.

        Each launch has the grid that the family's rule gives for its arguments. ``arguments``, if
        given, are those of the launches to come: they fix the grid now, and a launch for which the
        rule gives another is refused. Raises as ``Launcher``, and :class:`ArgumentError` for the
        code object of another spec.
        """
        _check_kinds(device, code_object)
        found, wanted = code_object.kernel().name, family.name_of(spec, code_object.arch)
        if found != wanted:
            raise ArgumentError(
                f"the code object holds kernel {found}, this spec's is {wanted}: it was built from "
                "another spec"
            )
        made = cls(
            device,
            code_object,
            family.signature(spec),
            grid=functools.partial(family.grid_of, spec, code_object.arch),
            block=family.block_of(spec, code_object.arch),
            limits=family.limits(spec),
        )
        if arguments is not None:
            made.grid = made._ruled(arguments)
        return made

    def with_grid(
        self, grid: tuple[int, int, int], *, counted: Mapping[str, int] = MappingProxyType({})
    ) -> Launcher:
        """The same loaded kernel with another grid: ``launch.with_grid((n, 1, 1))(x=x, n=n)``.

        ``counted`` holds the sizes that the grid was computed from: a launch that gives another
        value to an argument of such a name is refused, and so is one for which the launcher's own
        rule, if it has one, gives another grid. Raises :class:`ArgumentError`.
        """
        made = copy.copy(self)
        made.grid = _dimensions("grid", grid)
        made.counted = dict(counted)
        return made

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}: {type_}" for name, type_ in self.types.items())
        grid = "by its arguments" if self.grid is None and self.rule is not None else self.grid
        return (
            f"Launcher({self.info.name}({arguments}), grid={grid}, block={self.block}, "
            f"device={self.device.name!r})"
        )

    def __call__(self, **arguments: Any) -> None:
        """Run the kernel once.

        A pointer takes a numpy array of the declared element type (bfloat16 and fp8 as ml_dtypes
        has them) or a device buffer; a value takes a number. With at least one array the call
        returns when the kernel has ended and its outputs are in the arrays; with buffers alone it
        may return earlier (:meth:`Device.synchronize` waits).

        Raises :class:`ArgumentError` that names the argument, :class:`DeviceError` from the device.
        A :class:`KernelFault` names the argument nearest to its address.
        """
        with refusal_told(self.device):
            self._run(arguments)

    def _run(self, arguments: Mapping[str, Any]) -> None:
        self._check_names(arguments)
        encoded = self._values(arguments)
        arrays, addresses = self._pointers(arguments)
        grid = self._launch_grid(arguments)
        hosts = {name: address_of(array) for name, array in arrays.items()}
        sizes = {**arguments, **dict(zip(GRID, grid, strict=True))}
        for name, array in arrays.items():
            check_array(name, array, self.limits, sizes, address=hosts[name])
        for name in addresses:
            self._check_buffer(name, arguments[name], sizes)
        pointers = {name: arguments[name] for name in (*arrays, *addresses)}
        self.promises.check_alignments(hosts, "host address")
        self.promises.check_aliases(self.outputs, pointers)
        regions = _regions(arrays, hosts, self.outputs)
        try:
            for region in regions:
                region.enter(self.device)
                addresses.update(region.addresses())
            self.promises.check_alignments(addresses, "device address")
            for name, address in addresses.items():
                encoded[name] = encode(name, self.types[name], address)
            kernargs = self.packing.join(encoded)
            self.device.launch(self.kernel, grid, self.block, kernargs)
            if regions:
                self.device.synchronize()
            for region in regions:
                region.copy_out(self.device)
        except KernelFault as fault:
            raise named_fault(fault, pointers, addresses) from None
        finally:
            for region in regions:
                region.leave(self.device)

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

    def _launch_grid(self, arguments: Mapping[str, Any]) -> Grid:
        if self.grid is None:
            return self._ruled(arguments)
        if self.rule is not None:
            try:
                wanted = self.rule(arguments)
            except ValueError:
                return self.grid  # buffers have no shape: the caller knows the sizes
            if wanted != self.grid:
                raise ArgumentError(
                    f"kernel {self.info.name}: the grid is {self.grid}, expected {wanted}: that is "
                    "what these arguments need"
                )
        return self.grid

    def _ruled(self, arguments: Mapping[str, Any]) -> Grid:
        if self.rule is None:
            raise ArgumentError(f"kernel {self.info.name}: no grid was given; use with_grid")
        try:
            return _dimensions("grid", self.rule(arguments))
        except ArgumentError:
            raise
        except ValueError as error:
            raise ArgumentError(f"kernel {self.info.name}: {error}; or use with_grid") from None

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

    def _values(self, arguments: Mapping[str, Any]) -> dict[str, bytes]:
        """The bytes of the arguments that are no pointers, checked."""
        encoded = {}
        for name, type_ in self.types.items():
            if not type_.pointer:
                encoded[name] = encode(name, type_, arguments[name])
                check_value(name, arguments[name], self.limits)
                if self.counted.get(name, arguments[name]) != arguments[name]:
                    raise ArgumentError(
                        f"argument {name!r}: {arguments[name]}, but the grid {self.grid} was "
                        f"computed for {self.counted[name]}: launch with that grid's sizes"
                    )
        return encoded

    def _pointers(
        self, arguments: Mapping[str, Any]
    ) -> tuple[dict[str, np.ndarray], dict[str, int]]:
        arrays: dict[str, np.ndarray] = {}
        addresses: dict[str, int] = {}
        for name, type_ in self.types.items():
            if not type_.pointer:
                continue
            value = arguments[name]
            if isinstance(value, np.ndarray):
                self._check_array_type(name, type_, value)
                arrays[name] = value
            elif isinstance(value, Buffer):
                addresses[name] = value.address
            else:
                raise ArgumentError(
                    f"argument {name!r}: {type(value).__name__}, expected a numpy array of "
                    f"{type_.dtypes[0].name} or a device buffer"
                )
        return arrays, addresses

    def _check_buffer(self, name: str, buffer: Buffer, sizes: Mapping[str, Any]) -> None:
        size = self.types[name].dtypes[0].itemsize
        check_buffer(name, buffer.address, buffer.nbytes, size, self.limits, sizes)

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
        first = self.owners[0]
        if len(self.owners) == 1 and first.flags.c_contiguous:
            self.host = first.reshape(-1).view(np.uint8)
        else:
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


def _regions(
    arrays: Mapping[str, np.ndarray], starts: Mapping[str, int], outputs: frozenset[str]
) -> list[_Region]:
    # Views of one tensor (Q, K and V of a packed projection) interleave in memory: they must share
    # one device buffer, or copying one output back would overwrite another.
    spans = []
    for name, array in arrays.items():
        start = starts[name]
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


def _check_kinds(device: object, code_object: object) -> None:
    if not isinstance(device, Device):
        raise ArgumentError(
            f"device: {device!r}, expected an open device, such as rocke.open_device('emulated')"
        )
    if not isinstance(code_object, CodeObject):
        raise ArgumentError(
            f"code_object: {type(code_object).__name__}, expected a CodeObject (of compile_kernel; "
            "CodeObject.from_bytes reads the bytes of a file)"
        )


def _items(
    signature: Sequence[SignatureItem] | HasSignature | None, info: KernelInfo
) -> Sequence[SignatureItem]:
    if signature is None:
        return object_signature(info)
    found: Any = signature if isinstance(signature, Sequence) else None
    if found is None and hasattr(signature, "signature"):
        found = signature.signature()
    if found is None or not all(isinstance(i, Mapping) and {"name", "type"} <= {*i} for i in found):
        raise ArgumentError(
            f"signature: {signature!r}, expected a list of {{'name', 'type'}} or the kernel"
        )
    return tuple(found)


def _dimensions(what: str, sizes: Any) -> tuple[int, int, int]:
    if (
        not isinstance(sizes, (tuple, list))
        or len(sizes) != 3
        or not all(isinstance(n, (int, np.integer)) and 1 <= n <= _MOST for n in sizes)
    ):
        raise ArgumentError(f"{what}: {sizes!r}, expected three counts (x, y, z) from 1 to {_MOST}")
    x, y, z = (int(n) for n in sizes)
    return x, y, z

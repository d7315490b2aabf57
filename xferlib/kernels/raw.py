"""Raw CUDA kernels: the user's own source, launched with checked arguments on arrays of any CUDA backend."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from xferlib._core import defaults, devices, observe, registry
from xferlib._core.observe import Kind
from xferlib._core.stream import Stream
from xferlib._runtime.checks import MadeBy, refuse_no_flag
from xferlib._runtime.torch_compile import untraced
from xferlib.errors import KernelTypeError, UnsupportedError, shown
from xferlib.kernels import autograd
from xferlib.kernels.calls import arguments as checks
from xferlib.kernels.calls.backend_engine import engine_of
from xferlib.kernels.calls.caller import Plans
from xferlib.kernels.calls.foreign_arrays import Adopted, is_foreign
from xferlib.kernels.calls.raw import Repeated, repeated
from xferlib.kernels.calls.raw_arguments import check_block, check_shared, extents_of, passed
from xferlib.kernels.engines.cuda.engine import ParameterBlock
from xferlib.kernels.pickling import check_function

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.device import Device, DeviceSpec
    from xferlib._core.raw import RawStream
    from xferlib.kernels.frontends.raw.signature import RawParameter

Extents = int | tuple[int, ...]

_MOST_CALLS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAttributes:
    """The resources of a compiled kernel on a device, as CUDA's driver tells them."""

    registers: int
    """Of a thread."""
    max_threads: int
    """The most threads of a block that can be launched."""
    shared_nbytes: int
    """Static shared memory of a block."""
    constant_nbytes: int
    local_nbytes: int
    """Local memory of a thread, where registers are spilled."""
    max_dynamic_shared_nbytes: int
    """The most dynamic shared memory that launches have been allowed so far."""
    ptx_version: int
    binary_version: int


class Module(Protocol):
    """The module of a kernel: an `xferlib.RawModule`."""

    def get_function(self, name: str, signature: str | None = None, *, cpu: Any = None) -> RawKernel: ...

    def load(self, backend: Any, device: Device, name: str) -> Any: ...


class RawKernel(metaclass=MadeBy, by="raw_module(source).get_function(name)"):
    """A kernel of a `RawModule`, with its parameters."""

    if not TYPE_CHECKING:

        def __getitem__(self, launch: Any) -> NoReturn:
            raise KernelTypeError(
                f"{self.name}[grid, block](...) is another library's way; write {self.name}(grid, block, arguments)"
            )

    def __init__(
        self, module: Module, name: str, signature: str, parameters: list[RawParameter], cpu: Callable[..., Any] | None
    ) -> None:
        self.name = name
        self.parameters = parameters
        self._signature = signature
        self._names = [each.name for each in parameters]
        self._module = module
        self._cpu = cpu
        self._sizes = [each.nbytes for each in parameters]
        self._lock = threading.Lock()
        self._block: ParameterBlock | None = None
        self._calls: Plans[Repeated] = Plans(_MOST_CALLS)
        """Checked launches, by extents, shared memory and whether they are cooperative."""

    def __reduce__(self) -> tuple[Any, ...]:
        if self._cpu is not None:
            check_function(self._cpu, f"kernel {self.name!r}: the function cpu=")
        return _kernel_of, (self._module, self.name, self._signature, self._cpu)

    def __deepcopy__(self, memo: dict[int, Any]) -> RawKernel:
        return self

    def __copy__(self) -> RawKernel:
        return self

    def __repr__(self) -> str:
        return f"<RawKernel {self.name}({', '.join(each.name for each in self.parameters)})>"

    def attributes(self, *, backend: str | None = None, device: DeviceSpec = None) -> KernelAttributes:
        """Registers, shared and local memory, and the most threads of a block; the kernel is compiled for it.

        Args:
            backend, device: Where; the current device if omitted.

        Raises:
            UnsupportedError: The device runs no CUDA source.
        """
        owner, place, kernel = self._loaded(backend, device)
        return KernelAttributes(**owner.kernel_attributes(kernel, place))

    def occupancy(
        self, block: Extents, *, shared_nbytes: int = 0, backend: str | None = None, device: DeviceSpec = None
    ) -> int:
        """Blocks of such a size that run at a time on one multiprocessor.

        Args:
            block, shared_nbytes: As for a launch.
            backend, device: Where; the current device if omitted.

        Raises:
            KernelTypeError: No launch can have such a block.
            UnsupportedError: The device runs no CUDA source.
        """
        extents = extents_of(self.name, "block", block)
        check_block(self.name, extents)
        owner, place, kernel = self._loaded(backend, device)
        check_shared(self.name, shared_nbytes, place)
        found: int = owner.occupancy(kernel, math.prod(extents), shared_nbytes, place)
        return found

    def _loaded(self, backend: str | None, device: DeviceSpec) -> tuple[Any, Device, Any]:
        place = devices.resolve(device, backend=None if backend is None else registry.get(backend))
        if place.kind != "cuda":
            raise UnsupportedError(
                f"kernel {self.name!r} is CUDA source, and uses no resources of {place}; name a CUDA device: "
                "device='cuda:0'"
            )
        owner = registry.get(place.backend).at(place)
        owner.attach(place)
        return owner, place, self._module.load(owner, place, self.name)

    def __call__(
        self,
        grid: Extents,
        block: Extents,
        args: Sequence[Any],
        *,
        stream: Any = None,
        shared_nbytes: int = 0,
        cooperative: bool = False,
    ) -> None:
        """Launch the kernel.

        Args:
            grid: Blocks along x, y and z.
            block: Threads of a block along x, y and z; at most 1024 in all.
            args: In the order of the signature. For pointers: arrays in C order without gaps, of a backend or with
                ``__cuda_array_interface__`` or DLPack; addresses as ints; None. For structs and vectors such as
                ``float3``: NumPy records, dicts or tuples. Numbers for the rest.
            stream: Where to launch; the current stream of the arrays' library if omitted.
            shared_nbytes: Dynamic shared memory of a block, in bytes; beyond 48 KiB where the device has it.
            cooperative: All blocks run at a time, so that the kernel may synchronise the grid.

        Raises:
            KernelTypeError: Argument count or type; extents that no launch can have; a tensor that torch follows.
            LayoutError: An array that is not in C order, not aligned to its elements, or written and read-only.
            UnsupportedError: The arrays are on a CPU, and the kernel has no ``cpu=``.
            KernelCompileError: NVRTC refused the source.
        """
        form = (grid, block, shared_nbytes, cooperative)
        if observe.active is None and (stream is None or type(stream) is Stream):
            try:
                call = self._calls.get(form)
            except TypeError:  # extents that no launch can have
                call = None
            if call is not None and call(args, None if stream is None else stream._raw):
                return
        try:
            count = len(args)
        except TypeError:
            what = shown(args)
            raise KernelTypeError(f"{self.name}(): args={what} is no tuple of arguments; give one: (x, n)") from None
        if count != len(self.parameters):
            if checks.is_array(args):
                raise KernelTypeError(
                    f"{self.name}(): args is an array, and each of its elements would be an argument; give a tuple of "
                    "the arguments: (x,) for one"
                )
            raise KernelTypeError(
                f"{self.name}() takes {len(self.parameters)} argument(s) "
                f"({', '.join(each.name for each in self.parameters)}), {count} were given"
            )
        refuse_no_flag(cooperative, f"{self.name}(): cooperative")
        autograd.refuse(self.name, args, self._names)
        backend, device, infos = self._arrays_of(args)
        if backend is None or device is None:
            backend = defaults.default_backend()
            device = backend.device_current()
        adopted = None
        if any(each.is_pointer and is_foreign(value) for each, value in zip(self.parameters, args, strict=True)):
            backend.at(device).attach(device)
            adopted = Adopted(self.name, self.parameters, args, backend.at(device), device)
            args = adopted.args
            _, device, infos = self._arrays_of(args)
            assert device is not None
        values = [
            passed(self.name, self.parameters[number], args[number], infos.get(number)) for number in range(len(args))
        ]
        owner: Any = backend.at(device)
        extents = (extents_of(self.name, "grid", grid), extents_of(self.name, "block", block))
        check_block(self.name, extents[1])
        check_shared(self.name, shared_nbytes, device)
        target = self._stream(owner, device, stream)
        if adopted is not None:
            adopted.order(owner, target)
        if device.kind != "cuda":
            for number, parameter in enumerate(self.parameters):
                if parameter.is_pointer and number not in infos:
                    values[number] = args[number]  # the function gets such a pointer as it was given
            self._run_on_cpu(owner, device, args, values, infos, target)
            return
        for number in infos:
            if not self.parameters[number].is_const:
                owner.note_write(args[number], self._label(number))
        kernel = self._launch(owner, device, extents, values, target, shared_nbytes, is_cooperative=cooperative)
        if kernel is not None and infos and adopted is None and not autograd.requires_gradient(args):
            options = {"shared_nbytes": shared_nbytes, "cooperative": cooperative}
            call = repeated(self.name, owner, device, kernel, extents, self.parameters, args, [*infos], **options)
            if call is not None:
                self._keep(form, call)
        for number in infos:  # arrays allocated on another stream must outlast the work on this one
            owner.consumed(args[number], target)

    def _arrays_of(self, args: Sequence[Any]) -> tuple[Any, Device | None, dict[int, ArrayInfo]]:
        """The backend, the device and the arrays among arguments; structs, pointers and foreign arrays are none."""
        given = [
            None if parameter.is_struct or (parameter.is_pointer and registry.backend_of(value) is None) else value
            for parameter, value in zip(self.parameters, args, strict=True)
        ]
        return checks.common_device(self.name, self._names, given)

    def _keep(self, form: tuple[Extents, Extents, int, bool], call: Repeated) -> None:
        """Remember a checked launch of this form."""
        self._calls.keep(form, call)

    def _label(self, number: int) -> str:
        return f"{self.name}(): argument {self._names[number]!r}"

    def _stream(self, owner: Any, device: Device, stream: Any) -> RawStream:
        if stream is None:
            current: RawStream = owner.stream_current(device)
            return current
        given = Stream.from_any(stream, device)
        if given.device is not device:
            raise KernelTypeError(
                f"{self.name}(): the stream is of {given.device}, and the arrays on {device}; use one of that device"
            )
        return given._raw

    def _run_on_cpu(
        self,
        owner: Any,
        device: Device,
        args: Sequence[Any],
        values: list[np.generic],
        infos: dict[int, ArrayInfo],
        stream: RawStream,
    ) -> None:
        if self._cpu is None:
            raise UnsupportedError(
                f"kernel {self.name!r} is CUDA source and cannot run on {device}; "
                "give get_function(..., cpu=function) a NumPy function that does the same"
            )
        written = [number for number in infos if not self.parameters[number].is_const]
        if device.kind != "cpu" and (engine := engine_of(owner)) is not None:
            engine.stand_in(self.name, self._cpu, args, values, [args[number] for number in written], stream)
            return
        for each in written:
            owner.note_write(args[each], self._label(each))
        operands = [owner.host_view(args[n]) if n in infos else value for n, value in enumerate(values)]
        for number in infos.keys() - set(written):
            operands[number] = operands[number].view()
            operands[number].flags.writeable = False  # as the compiler would say
        function = untraced(self._cpu)
        if (recorder := observe.active) is None:
            function(*operands)
        else:
            recorder.on_host(Kind.KERNEL, self.name, 0, owner, device, lambda: function(*operands))

    def _launch(
        self,
        owner: Any,
        device: Device,
        extents: tuple[tuple[int, int, int], tuple[int, int, int]],
        values: list[np.generic],
        stream: RawStream,
        shared_nbytes: int,
        *,
        is_cooperative: bool,
    ) -> Any:
        """Load and enqueue the kernel, and return it; None where the grid has no blocks."""
        grid, block = extents
        kernel = self._module.load(owner, device, self.name)
        if shared_nbytes > 48 << 10:
            owner.allow_shared(kernel, shared_nbytes, device)
        if 0 in grid:
            return None
        with self._lock:
            if self._block is None:
                self._block = ParameterBlock(0, self._sizes)
            for number, value in enumerate(values):
                self._block.patch_scalar(number, value.tobytes())
            params = self._block.address
            run = functools.partial(
                owner.launch, kernel, grid, block, params, stream=stream, shared_nbytes=shared_nbytes,
                cooperative=is_cooperative,
            )  # fmt: skip
            if (recorder := observe.active) is None:
                run()
            else:
                recorder.enqueue(Kind.KERNEL, self.name, 0, owner, stream, run)
        return kernel


def _kernel_of(module: Module, name: str, signature: str, cpu: Callable[..., Any] | None) -> RawKernel:
    """Restore a pickled kernel."""
    return module.get_function(name, signature, cpu=cpu)

"""Raw CUDA kernels: the user's own source, launched with checked arguments on arrays of any CUDA backend."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import defaults, observe
from xferlib._core.observe import Kind
from xferlib._runtime.torch_compile import untraced
from xferlib.errors import KernelSyntaxError, KernelTypeError, UnsupportedError
from xferlib.kernels import autograd
from xferlib.kernels.calls import arguments as checks
from xferlib.kernels.calls.backend_engine import engine_of
from xferlib.kernels.calls.raw import RawCall, codes_of
from xferlib.kernels.calls.raw_arguments import check_block, check_shared, extents_of, passed
from xferlib.kernels.engines.cuda import cache
from xferlib.kernels.engines.cuda.engine import ParameterBlock
from xferlib.kernels.frontends.raw_signature import find_signature, parse_signature
from xferlib.kernels.pickling import check_function

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream

Extents = int | tuple[int, ...]

_MOST_CALLS = 16


class RawModule:
    """CUDA source made by `raw_module`, compiled for a device at the first launch there."""

    def __init__(self, source: str, *, options: tuple[str, ...], names: tuple[str, ...]) -> None:
        self.source = source
        self._options = options
        self._names = names
        self._functions: list[str] = []
        self._loaded: dict[tuple[str, str], dict[str, Any]] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _module_of, (self.source, self._options, self._names)

    def __deepcopy__(self, memo: dict[int, Any]) -> RawModule:
        return self  # only its caches change

    def __copy__(self) -> RawModule:
        return self

    def get_function(
        self, name: str, signature: str | None = None, *, cpu: Callable[..., Any] | None = None
    ) -> RawKernel:
        """A kernel of the module.

        Args:
            name: An ``extern "C"`` function, or one of the ``names`` of the module.
            signature: Its parameters in C; read from the source if omitted.
            cpu: The function to run on a CPU instead: called with the arguments, arrays as NumPy arrays.

        Raises:
            KernelSyntaxError: The signature cannot be read, or is not plain enough to be found.
        """
        found = signature if signature is not None else find_signature(self.source, name)
        if found is None:
            raise KernelSyntaxError(
                f"the parameters of kernel {name!r} are not to be found in the source (a template, or a macro); "
                "give signature='const float *x, int n'"
            )
        if "<" in name and name not in self._names:
            raise KernelSyntaxError(f"template instance {name!r} must be named: raw_module(source, names=({name!r},))")
        return RawKernel(self, name, found, cpu)

    def load(self, backend: Any, device: Device, name: str) -> Any:
        """The loaded kernel on ``device``; one compilation serves all kernels of the module."""
        major, minor = backend.compute_capability(device)
        key = (f"sm_{major}{minor}", device.backend)
        with self._lock:
            kernels = self._loaded.setdefault(key, {})
            if name not in kernels:
                cubin, lowered = self._compiled(backend, device, key[0])
                if "library" not in kernels:
                    kernels["library"] = backend.load_library(cubin, device=device)
                kernels[name] = backend.kernel_of(kernels["library"], lowered.get(name, name))
            return kernels[name]

    def _compiled(self, backend: Any, device: Device, arch: str) -> tuple[bytes, dict[str, str]]:
        options = (*self._options, *_include_options(self.source))
        name = cache.key("raw", self.source, arch, "\0".join((*options, *self._names)), backend.compiler_version())
        cached = None if "#include" in self.source else cache.read(name)  # a header may change under the same source
        if cached is not None:
            head, _, cubin = cached.partition(b"\n")
            return cubin, dict(zip(self._names, head.decode().split("\t"), strict=True)) if self._names else {}
        compiled = backend.compile(self.source, device=device, options=options, names=self._names)
        head = "\t".join(compiled.names[each] for each in self._names).encode()
        cache.write(name, head + b"\n" + compiled.cubin)
        return compiled.cubin, compiled.names


def _include_options(source: str) -> tuple[str, ...]:
    """The option that names CUDA's header folder, for a source that includes a header."""
    if "#include" not in source:
        return ()
    from cuda import pathfinder

    found = (pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl"))
    folders = [Path(each) for each in found if each]
    folders += [folder / "cccl" for folder in folders if (folder / "cccl").is_dir()]
    return tuple(f"--include-path={folder}" for folder in folders)


class RawKernel:
    """A kernel of a `RawModule`, with its parameters."""

    def __init__(self, module: RawModule, name: str, signature: str, cpu: Callable[..., Any] | None) -> None:
        self.name = name
        self.parameters = parameters = parse_signature(signature, name)
        self._signature = signature
        self._names = [each.name for each in parameters]
        self._module = module
        self._cpu = cpu
        sizes = [8 if each.is_pointer or each.dtype is None else each.dtype.itemsize for each in parameters]
        self._sizes = sizes
        self._lock = threading.Lock()
        self._block: ParameterBlock | None = None
        self._calls: dict[tuple[Extents, Extents, int], RawCall] = {}
        """Checked launches, by extents and shared memory."""

    def __reduce__(self) -> tuple[Any, ...]:
        if self._cpu is not None:
            check_function(self._cpu, f"kernel {self.name!r}: the function cpu=")
        return RawKernel, (self._module, self.name, self._signature, self._cpu)

    def __deepcopy__(self, memo: dict[int, Any]) -> RawKernel:
        return self

    def __copy__(self) -> RawKernel:
        return self

    def __repr__(self) -> str:
        return f"<RawKernel {self.name}({', '.join(each.name for each in self.parameters)})>"

    def __call__(
        self, grid: Extents, block: Extents, args: Sequence[Any], *, stream: Any = None, shared_nbytes: int = 0
    ) -> None:
        """Launch the kernel.

        Args:
            grid: Blocks along x, y and z.
            block: Threads of a block along x, y and z; at most 1024 in all.
            args: Arrays for pointers, in C order without gaps; numbers for the rest; in the order of the signature.
            stream: Where to launch; the current stream of the arrays' library if omitted.
            shared_nbytes: Dynamic shared memory of a block, in bytes.

        Raises:
            KernelTypeError: Argument count or type; extents that no launch can have; a tensor that torch follows.
            LayoutError: An array that is not in C order, not aligned to its elements, or written and read-only.
            UnsupportedError: The arrays are on a CPU, and the kernel has no ``cpu=``.
            KernelCompileError: NVRTC refused the source.
        """
        if stream is None and observe.active is None and self._run_again(grid, block, args, shared_nbytes):
            return
        if len(args) != len(self.parameters):
            raise KernelTypeError(
                f"{self.name}() takes {len(self.parameters)} argument(s) "
                f"({', '.join(each.name for each in self.parameters)}), {len(args)} were given"
            )
        autograd.refuse(self.name, args, self._names)
        backend, device, infos = checks.common_device(self.name, self._names, args)
        if backend is None or device is None:
            backend = defaults.default_backend()
            device = backend.device_current()
        values = [
            passed(self.name, self.parameters[number], args[number], infos.get(number)) for number in range(len(args))
        ]
        owner: Any = backend.at(device)
        extents = (extents_of(self.name, "grid", grid), extents_of(self.name, "block", block))
        check_block(self.name, extents[1])
        check_shared(self.name, shared_nbytes, device)
        target = self._stream(owner, device, stream)
        if device.kind != "cuda":
            self._run_on_cpu(owner, device, args, values, infos, target)
            return
        for number in infos:
            if not self.parameters[number].is_const:
                owner.note_write(args[number], self._label(number))
        kernel = self._launch(owner, device, extents, values, target, shared_nbytes)
        is_kept = kernel is not None and infos and not autograd.requires_gradient(args)
        if is_kept and (codes := codes_of(self.parameters, args)) is not None:
            prepare = lambda params: owner.prepare_launch(
                kernel, *extents, params, device=device, shared_nbytes=shared_nbytes
            )
            call = RawCall(self.name, owner, device, self.parameters, args, [*infos], prepare, codes)
            self._keep((grid, block, shared_nbytes), call)
        for number in infos:  # arrays allocated on another stream must outlast the work on this one
            owner.consumed(args[number], target)

    def _run_again(self, grid: Extents, block: Extents, args: Sequence[Any], shared_nbytes: int) -> bool:
        """Repeat an earlier launch with these arguments; False, and nothing done, if they must be checked."""
        try:
            call = self._calls.get((grid, block, shared_nbytes))
        except TypeError:  # extents that no launch can have
            return False
        return call is not None and call.run(args)

    def _keep(self, extents: tuple[Extents, Extents, int], call: RawCall) -> None:
        """Remember a checked launch for these extents."""
        if len(self._calls) >= _MOST_CALLS:
            self._calls.clear()
        self._calls[extents] = call

    def _label(self, number: int) -> str:
        return f"{self.name}(): argument {self._names[number]!r}"

    def _stream(self, owner: Any, device: Device, stream: Any) -> RawStream:
        from xferlib._core.stream import Stream

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
                owner.launch, kernel, grid, block, params, stream=stream, shared_nbytes=shared_nbytes
            )
            if (recorder := observe.active) is None:
                run()
            else:
                recorder.enqueue(Kind.KERNEL, self.name, 0, owner, stream, run)
        return kernel


def _module_of(source: str, options: tuple[str, ...], names: tuple[str, ...]) -> RawModule:
    """Restore a pickled module."""
    return RawModule(source, options=options, names=names)


def raw_module(source: str, *, options: Sequence[str] = (), names: Sequence[str] = ()) -> RawModule:
    """Make a module of CUDA C++ source, whose kernels the program launches with explicit extents.

    Args:
        source: The source; it may include CUDA's own headers where they are installed.
        options: For NVRTC, such as ``"--std=c++17"``; without the architecture. They are NVRTC's defaults,
            which contract ``a*b+c`` (``--fmad=false`` forbids it).
        names: Template instances to compile, such as ``"scale<float>"``.
    """
    if not isinstance(source, str) or "\0" in source:
        raise KernelSyntaxError("raw_module takes CUDA source as a string without NUL characters")
    return RawModule(source, options=tuple(options), names=tuple(names))

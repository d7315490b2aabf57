"""Raw CUDA modules: source or machine code, its kernels and its variables."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xferlib._core import devices, registry
from xferlib._core.array import SUPPORTED, check_dtype
from xferlib._runtime import checks, peer_names
from xferlib._runtime.checks import MadeBy
from xferlib.errors import (
    ArgumentError,
    KernelSyntaxError,
    KernelTypeError,
    LayoutError,
    UnsupportedError,
    did_you_mean,
    shown,
)
from xferlib.kernels.engines.cuda import cache
from xferlib.kernels.frontends.raw import mangled, pieces
from xferlib.kernels.frontends.raw import source as raw_source
from xferlib.kernels.frontends.raw.pieces import Piece
from xferlib.kernels.frontends.raw.preprocessor import Preprocessed, preprocessed
from xferlib.kernels.frontends.raw.signature import parse_signature
from xferlib.kernels.frontends.raw.types import SourceTypes, checked_types, closed_up
from xferlib.kernels.raw import RawKernel

if TYPE_CHECKING:
    from xferlib._core.array import Array
    from xferlib._core.device import Device, DeviceSpec
    from xferlib.kernels.ir.nodes import DType


class RawModule(metaclass=MadeBy, by="raw_module"):
    """CUDA source or machine code made by `raw_module`, loaded on a device at the first launch there."""

    def __init__(
        self,
        source: str,
        *,
        options: tuple[str, ...],
        names: tuple[str, ...],
        types: Mapping[str, DType] | None = None,
        binary: bytes = b"",
        pieces: tuple[Piece, ...] = (),
    ) -> None:
        self.source = source
        self._options = options
        self._names = names
        self._declared = dict(types or {})
        self._binary = binary
        self._pieces = pieces
        self._loaded: dict[tuple[str, str], dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._plain: tuple[Preprocessed, SourceTypes] | None = None

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            peer_names.refuse(self, name, {} if name[0] == "_" else {name: f"module.get_function({name!r})"})

    def __reduce__(self) -> tuple[Any, ...]:
        return _module_of, (self.source, self._options, self._names, self._declared, self._binary, self._pieces)

    def __deepcopy__(self, memo: dict[int, Any]) -> RawModule:
        return self  # only its caches change

    def __copy__(self) -> RawModule:
        return self

    def __repr__(self) -> str:
        lines = self.source.count("\n") + 1
        text = "1 line" if lines == 1 else f"{lines} lines"
        code = f"{len(self._binary)} bytes of machine code" if self._binary else f"{text} of CUDA source"
        loaded = sorted({arch for (arch, _), found in tuple(self._loaded.items()) if found})
        return f"<RawModule of {code}, {'loaded for ' + ', '.join(loaded) if loaded else 'not loaded'}>"

    def get_function(
        self, name: str, signature: str | None = None, *, cpu: Callable[..., Any] | None = None
    ) -> RawKernel:
        """A kernel of the module.

        Args:
            name: An ``extern "C"`` function, or one of the ``names`` of the module.
            signature: Its parameters in C; read from the source if omitted, those of a template instance too, or from
                the name itself, if that is mangled (``_Z5scaleIfEvPT_f``, as machine code has it).
            cpu: The function to run on a CPU instead: called with the arguments, arrays as NumPy arrays.

        Raises:
            KernelSyntaxError: The signature cannot be read, or is not plain enough to be found.
        """
        if not isinstance(name, str) or not isinstance(signature, (str, type(None))):
            wrong = name if not isinstance(name, str) else signature
            raise KernelSyntaxError(
                f"get_function: {shown(wrong)} is no string; give the kernel's name, and C for its parameters"
            )
        name = next((each for each in self._names if closed_up(each) == closed_up(name)), name)
        source, types = self._read()
        found = signature if signature is not None else raw_source.find_signature(source, name)
        found = mangled.signature_of(name) if found is None else found
        others = raw_source.kernel_names(source, without=name) if found is None else []
        if others:
            near = did_you_mean(name, others)
            raise KernelSyntaxError(f"the source has no kernel {name!r}{near}; its kernels are {', '.join(others)}")
        if found is None:
            raise KernelSyntaxError(
                f"the source shows no parameters of kernel {name!r}, whose definition begins with __global__ (unless "
                "it is machine code, a macro, or behind an #if that only the compiler can decide); give "
                "signature='const float *x, int n'"
            )
        if "<" in name and name not in self._names:
            raise KernelSyntaxError(f"template instance {name!r} must be named: raw_module(source, names=({name!r},))")
        return RawKernel(self, name, found, parse_signature(found, name, types), cpu)

    def get_global(
        self, name: str, dtype: Any = None, *, backend: str | None = None, device: DeviceSpec = None
    ) -> Array:
        """A ``__device__`` or ``__constant__`` variable as an array over its memory.

            xl.to_device(table, out=module.get_global("table"))    # before a launch on the same stream

        Args:
            name: Its name; in a namespace ``"space::name"``, where the module's ``names`` have ``"&space::name"``.
            dtype: Its elements, as one axis; type and shape of the source's declaration if omitted, or uint8 where that
                is a struct, or not plain.
            backend, device: Where: each device has its own variable. The current device if omitted.

        Raises:
            ArgumentError: The module has no such variable.
            LayoutError: Its size is no multiple of ``dtype``.
            UnsupportedError: The device runs no CUDA source.
        """
        kind = None if dtype is None else check_dtype(dtype, what="dtype")
        if not isinstance(name, str):
            raise ArgumentError(f"get_global: {shown(name)} is no name; give that of a variable of the source")
        owner, place = self._at(backend, device, f"variable {name!r}")
        library, lowered = self._library(owner, place)
        known = next((lowered[each] for each in (name, f"&{name}") if each in lowered), name)
        pointer, nbytes = owner.global_of(library, known, place)
        shape, kind = self._extents(name, nbytes, kind)
        array: Array = owner.over(pointer, shape, kind, device=place, owner=library)
        return array

    def compile(self, *, backend: str | None = None, device: DeviceSpec = None, log_stream: Any = None) -> None:
        """Compile and load the module now, which the first launch would do.

        Args:
            backend, device: Where; the current device if omitted.
            log_stream: A text file: the compiler's messages are written there, warnings too.

        Raises:
            KernelCompileError: NVRTC refused the source.
            UnsupportedError: The device runs no CUDA source.
        """
        owner, place = self._at(backend, device, "a module")
        self._library(owner, place, log_stream)

    def load(self, backend: Any, device: Device, name: str) -> Any:
        """The loaded kernel on ``device``; one compilation serves all kernels of the module."""
        library, lowered = self._library(backend, device)
        kernels = self._loaded[self._key(backend, device)]
        with self._lock:
            if name not in kernels:
                kernels[name] = backend.kernel_of(library, lowered.get(name, name))
            return kernels[name]

    # --- reading the source

    def _read(self) -> tuple[Preprocessed, SourceTypes]:
        """The source without directives, and its types; read once."""
        if self._plain is None:
            sources = [self.source, *(str(each.content) for each in self._pieces if each.kind == pieces.SOURCE)]
            source = preprocessed(raw_source.plain("\n".join(sources)), self._options)
            self._plain = source, SourceTypes(source.text, self._declared, is_decided=source.is_decided)
        return self._plain

    def _extents(self, name: str, nbytes: int, kind: DType | None) -> tuple[tuple[int, ...], DType]:
        """Shape and dtype of a variable."""
        if kind is None:
            source, types = self._read()
            declared = raw_source.variable(source, name)
            found = types.find(declared[0]) if declared is not None else None
            if declared is not None and found is not None and found.dtype in SUPPORTED:
                count, rest = divmod(nbytes, found.dtype.itemsize)
                shape = None if rest else raw_source.whole_shape(declared[1], count)
                if shape is not None:
                    return shape, found.dtype
            return (nbytes,), np.dtype("uint8")
        if nbytes % kind.itemsize:
            raise LayoutError(f"variable {name!r} has {nbytes} bytes, no multiple of {kind}; give another dtype")
        return (nbytes // kind.itemsize,), kind

    # --- loading

    def _at(self, backend: str | None, device: DeviceSpec, what: str) -> tuple[Any, Device]:
        """The backend's part and the device, which runs CUDA source."""
        place = devices.resolve(device, backend=None if backend is None else registry.get(backend))
        if place.kind != "cuda":
            raise UnsupportedError(f"{what} of CUDA source is not on {place}; name a CUDA device: device='cuda:0'")
        owner = registry.get(place.backend).at(place)
        owner.attach(place)
        return owner, place

    def _key(self, backend: Any, device: Device) -> tuple[str, str]:
        major, minor = backend.compute_capability(device)
        return f"sm_{major}{minor}", device.backend

    def _library(self, backend: Any, device: Device, log_stream: Any = None) -> tuple[Any, dict[str, str]]:
        """The loaded code, and the mangled names."""
        key = self._key(backend, device)
        with self._lock:
            loaded = self._loaded.setdefault(key, {})
            if "<library>" not in loaded or log_stream is not None:
                cubin, lowered = self._compiled(backend, device, key[0], log_stream)
                loaded.setdefault("<library>", (backend.load_library(cubin, device=device), lowered))
            found: tuple[Any, dict[str, str]] = loaded["<library>"]
            return found

    def _compiled(self, backend: Any, device: Device, arch: str, log_stream: Any) -> tuple[bytes, dict[str, str]]:
        if self._binary:
            return self._binary, {}
        sources = [str(each.content) for each in self._pieces if each.kind == pieces.SOURCE]
        options = (*self._options, *_include_options("".join([self.source, *sources])))
        is_linked = bool(self._pieces) or any(map(pieces.is_relocatable, options))
        if self._pieces and not any(map(pieces.is_relocatable, options)):
            options = (*options, "--relocatable-device-code=true")
        parts = [f"{each.kind} {hashlib.sha256(each.bytes()).hexdigest()}" for each in self._pieces]
        name = cache.key(
            "raw", self.source, arch, "\0".join((*options, *self._names, *parts)), backend.compiler_version()
        )
        has_headers = any("#include" in each for each in (self.source, *sources))
        is_fixed = not has_headers and log_stream is None  # a header may change under the same source
        cached = cache.read(name) if is_fixed else None
        if cached is not None:
            head, _, cubin = cached.partition(b"\n")
            return cubin, dict(zip(self._names, head.decode().split("\t"), strict=True)) if self._names else {}
        compiled = backend.compile(self.source, device=device, options=options, names=self._names)
        if is_linked:
            given = [("the source", "CUBIN", compiled.cubin)]
            logs = [compiled.log]
            for each in self._pieces:
                if each.kind == pieces.SOURCE:
                    other = backend.compile(str(each.content), device=device, options=options)
                    given.append((each.name, "CUBIN", other.cubin))
                    logs.append(other.log)
                else:
                    given.append((each.name, each.kind, each.bytes()))
            cubin = backend.link(given, device=device)
            compiled = compiled._replace(cubin=cubin, log="\n".join(filter(None, logs)))
        if log_stream is not None:
            log_stream.write(compiled.log)
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


_FILES = (".cu", ".cubin", ".fatbin", ".ptx")


def _module_of(
    source: str,
    options: tuple[str, ...],
    names: tuple[str, ...],
    types: Mapping[str, DType],
    binary: bytes,
    pieces: tuple[Piece, ...] = (),
) -> RawModule:
    """Restore a pickled module."""
    return RawModule(source, options=options, names=names, types=types, binary=binary, pieces=pieces)


def raw_module(
    source: str | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    options: Sequence[str] = (),
    names: Sequence[str] = (),
    types: Mapping[str, Any] | None = None,
    link: Sequence[str | os.PathLike[str]] = (),
) -> RawModule:
    """Make a module of CUDA C++ source or machine code, whose kernels the program launches with explicit extents.

    Args:
        source: The source; it may include CUDA's own headers where they are installed.
        path: In place of ``source``: a file of source (``.cu``), or of a cubin, a fat binary or PTX. It is read now.
        options: For NVRTC, such as ``"--std=c++17"``; without the architecture. They are NVRTC's defaults,
            which contract ``a*b+c`` (``--fmad=false`` forbids it).
        names: Template instances to compile, such as ``"scale<float>"``.
        types: NumPy dtypes of structs that kernels take by value, by their names in C, where the source does not show
            them plainly: ``{"Params": numpy.dtype([("x", "f4"), ("n", "i4")], align=True)}``.
        link: Device code whose functions and variables the source uses, and declares ``extern``: further sources as
            strings, and files as `pathlib.Path`, of source, cubin, PTX, fat binary, object, library or LTO-IR, compiled
            with ``-rdc=true``. nvJitLink links them. ``options`` are for all sources.

    Raises:
        KernelTypeError: Neither or both of ``source`` and ``path``.
        KernelSyntaxError: A type that is no dtype.
        ArgumentError: ``options`` or ``names`` for machine code, which is not compiled.
        OSError: The file cannot be read.
    """
    if (source is None) is (path is None):
        raise KernelTypeError("raw_module takes CUDA source or path=, one of the two")
    compiler_options, instances = _texts(options, "options"), _texts(names, "names")
    binary = b""
    if path is not None:
        if not isinstance(path, (str, os.PathLike)) or checks.path(path) is None:
            raise ArgumentError(f"raw_module: path={shown(path)} is no path; give that of a .cu, .cubin or .ptx file")
        file = Path(path)
        content = file.read_bytes()
        if file.suffix.lower() in pieces.SOURCES:
            source = content.decode()
        else:
            source, binary = "", content + b"\0"  # PTX is text, which the driver reads up to a NUL
    if not isinstance(source, str) or "\0" in source:
        raise KernelSyntaxError("raw_module takes CUDA source as a string without NUL characters")
    if not binary and Path(source.strip()).suffix.lower() in _FILES and len(source.split()) == 1:
        raise KernelSyntaxError(f"raw_module: {shown(source)} is the name of a file; write raw_module(path={source!r})")
    if binary and (compiler_options or instances):
        raise ArgumentError(f"raw_module: {shown(str(path))} is not compiled; leave options= and names= out")
    if binary and link:
        raise ArgumentError(f"raw_module: {shown(str(path))} is whole; give it in link=, beside the source")
    declared, parts = checked_types(types), pieces.read(link)
    return RawModule(source, options=compiler_options, names=instances, types=declared, binary=binary, pieces=parts)


def _texts(given: Any, what: str) -> tuple[str, ...]:
    """A list of strings."""
    if not isinstance(given, (list, tuple)) or not all(isinstance(each, str) and "\0" not in each for each in given):
        raise ArgumentError(f"raw_module: {what}={shown(given)} is no list of strings; give {what}=('...',)")
    return tuple(given)

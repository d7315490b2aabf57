"""Saving and loading: everything is checked before a file is written, and before anything is copied to a device."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from xferlib._api.files import npz, safetensors, structure, whole
from xferlib._core import registry
from xferlib._core.array import check_dtype
from xferlib._core.backend import Backend
from xferlib.errors import ArgumentError, UnsupportedDTypeError, shown

_NPZ, _SAFETENSORS = ".npz", ".safetensors"


def path_of(path: Any, call: str) -> Path:
    """The path that a user has given to ``call``.

    Raises:
        ArgumentError: It is none.
    """
    name = call.partition("(")[0]
    given = path.__fspath__() if isinstance(path, os.PathLike) else path
    if not isinstance(given, str):
        raise ArgumentError(f"{name}: the path is {type(path).__name__}; write {call}, the file's name first")
    if "\0" in given:
        raise ArgumentError(f"{name}: the path {shown(given)} holds a null character; give a name without")
    try:
        os.fsencode(given)
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{name}: no file can have the name {shown(given)} ({error}); give another") from error
    return Path(given)


def save(path: str | os.PathLike[str], tree: Any, fetch: Callable[[Any], Any]) -> None:
    """See `xferlib.tree.save`; ``fetch`` copies the arrays of a dict to the host."""
    path = path_of(path, "save(path, tree)")
    if path.suffix not in (_NPZ, _SAFETENSORS):
        raise ArgumentError(
            f"save: {path.name!r} ends neither in {_NPZ!r} nor in {_SAFETENSORS!r}; give one of the two"
        )
    names = structure.Names(tree)
    ready: dict[str, Any] = {}
    dtypes: dict[str, str] = {}
    for name, array in names.arrays.items():
        ready[name], dtypes[name] = _known(name, array, path.suffix)
    if path.suffix == _SAFETENSORS:
        safetensors.library()
    if not path.parent.is_dir():
        raise FileNotFoundError(f"save: {path.parent} is no folder; make it first")
    arrays: dict[str, np.ndarray[Any, Any]] = fetch(ready)
    if path.suffix == _NPZ:
        whole.write(path, lambda new: npz.write(new, arrays, names.text))
    else:
        whole.write(path, lambda new: safetensors.write(new, arrays, dtypes, names.text))


def _known(name: str, array: Any, suffix: str) -> tuple[Any, str]:
    """An array in a dtype of NumPy's, and the name of its own."""
    owner = registry.backend_of(array)
    assert owner is not None
    bits = owner.as_bits(array)
    if bits is None:
        dtype = check_dtype(owner.view(array).dtype, what=name).name
    else:
        array, dtype = bits
        if suffix == _NPZ:
            raise UnsupportedDTypeError(f"save: {name} is {dtype}, which {_NPZ} does not have; save to {_SAFETENSORS}")
    if suffix == _SAFETENSORS:
        safetensors.check(name, dtype)
    return array, dtype


_NPY = b"\x93NUMPY"


def load(path: Path, like: Any, send: Callable[[Any], Any], target: Backend, *, has_dtype: bool) -> Any:
    """See `xferlib.tree.load`; ``send`` copies the arrays of a dict to ``target``."""
    with path.open("rb") as file:
        start = file.read(len(_NPY))
    if start == _NPY:
        raise ArgumentError(f"load: {path} is an .npy file, of one array; take xferlib.to_device(numpy.load(path))")
    others: dict[str, str] = {}
    if start.startswith(npz.MAGIC):
        arrays, text = npz.read(path)
    else:
        arrays, others, text = safetensors.read(path)
    for name, array in arrays.items():
        check_dtype(array.dtype, what=name)
    arrays |= {name: _widened(arrays[name]) for name in others if has_dtype}

    def build(found: dict[str, Any]) -> Any:
        if like is None:
            return structure.rebuilt(text, found, source=path.name)
        return structure.like(like, found, source=path.name)

    build(arrays)  # raises before anything is copied
    if not has_dtype:
        _check_others(path, others, target)
    sent = send(arrays)
    if not has_dtype:
        sent |= {name: target.of_bits(sent[name], dtype) for name, dtype in others.items()}
    return build(sent)


def _check_others(path: Path, others: dict[str, str], target: Backend) -> None:
    for name, dtype in others.items():
        if dtype not in target.other_dtypes:
            raise UnsupportedDTypeError(
                f"load: {name} in {path.name} is {dtype}, which {target.name} does not have; give dtype='float32', "
                "which holds each of its values, or backend='torch'"
            )


def _widened(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bits of bfloat16 as float32, which begins with the same ones."""
    wide = np.asarray(bits).astype(np.uint16).astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32)

"""Memory maps whose file has become shorter: an error on every way, where touching the memory would end the process."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.errors import LayoutError
from xferlib.testing import assert_same_bits

WRITES = ("result of a reduction", "to_host, into it", "to_host_async", "to_device, into it", "out of a map")
ON_MAPS: dict[str, Callable[[Any], Any]] = {
    "to_device": xl.to_device,
    "a part": lambda x: xl.to_device(x[-9:]),
    "other dtype": lambda x: xl.to_device(x, dtype="float64"),
    "asynchronous": lambda x: xl.to_device_async(x).result(),
    "of a tree": lambda x: xl.tree.to_device({"x": x}),
    "of a tree of small ones": lambda x: xl.tree.to_device([x[-9:]] * 30),
    "of a tree of some": lambda x: xl.tree.to_device([x, x[::2], x[-9:]] * 3),
    "to_host": xl.to_host,
    "part of a sequence": lambda x: xl.to_host([x, x]),
    "part of a part": lambda x: xl.to_device([[[1.0]], ([x[-9:]],)]),
    "pinned": xl.pinned_array,
    "list": lambda x: list(xl.prefetch([x, x[:-1]])),
    "generator": lambda x: list(xl.prefetch(iter([x]))),
    "small, of a generator": lambda x: list(xl.prefetch(iter([x[-9:]]))),
    "source of a map": lambda x: xl.stream_map(lambda chunk: chunk, x, chunk_rows=7000),
    "reduction": lambda x: xl.distributed.init("single").all_reduce(x),
    "result of a reduction": lambda x: xl.distributed.init("single").all_reduce(np.ones_like(x), out=x),
    "to_host, into it": lambda x: xl.to_host(xl.ones_like(xl.zeros(x.shape, "float32")), out=x),
    "to_host_async": lambda x: xl.to_host_async(xl.zeros(x.shape, "float32"), out=x).result(),
    "to_device, into it": lambda x: xl.to_device(np.ones(x.shape, "float32"), out=x),
    "out of a map": lambda x: xl.stream_map(lambda chunk: chunk, np.ones(x.shape, "float32"), chunk_rows=7000, out=x),
}


def _mapped(path: Path) -> Any:
    """Plain arrays over a map that NumPy has not made."""
    with path.open("r+b") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0), np.float32)


MAPS: dict[str, Callable[[Path], Any]] = {
    "to be read": lambda path: np.memmap(path, np.float32, "r"),
    "shared": lambda path: np.memmap(path, np.float32, "r+"),
    "private": lambda path: np.memmap(path, np.float32, "c"),
    "a plain array": lambda path: np.asarray(np.memmap(path, np.float32, "r+")),
    "a view of a plain array": lambda path: np.asarray(np.memmap(path, np.float32, "r+"))[:].reshape(2, -1).reshape(-1),
    "Python's": _mapped,
    "a view's memory": lambda path: np.asarray(memoryview(np.memmap(path, np.float32, "r"))),  # type: ignore[arg-type]
    "strides of one's own": lambda path: np.lib.stride_tricks.as_strided(np.memmap(path, np.float32, "r+"), (100_000,)),
}


@pytest.mark.parametrize("kind", MAPS)
def test_a_memory_map_of_a_truncated_file_is_an_error_and_does_not_end_the_process(
    tmp_path: Path, backend: str, kind: str
) -> None:
    path = tmp_path / "rows"
    for what, call in ON_MAPS.items() if kind == "shared" else [*ON_MAPS.items()][:: 4 if kind == "private" else 6]:
        np.arange(100_000, dtype=np.float32).tofile(path)
        x = MAPS[kind](path)
        os.truncate(path, 200_000)
        if not x.flags.writeable and what in WRITES:
            continue
        with pytest.raises(
            LayoutError, match=r"is a memory map of 400000 bytes of .*, which has been truncated to 200000"
        ):
            call(x)
            pytest.fail(what)
        assert_same_bits(xl.to_host(xl.to_device(x[:50_000])), np.arange(50_000, dtype=np.float32))  # which are there


def test_plain_arrays_over_maps_are_copied(tmp_path: Path, backend: str) -> None:
    path = tmp_path / "rows"
    np.arange(100_000, dtype=np.float32).tofile(path)
    for kind, make in MAPS.items():
        x = make(path)
        for given in (x, x[7::2], x[::-1]):
            assert_same_bits(xl.to_host(xl.to_device(given)), np.array(given))
        if x.flags.writeable:
            assert xl.to_host(xl.to_device(np.array(x)), out=x) is x, kind
        y = np.array(xl.stream_map(lambda chunk: chunk, x, chunk_rows=7000))
        assert_same_bits(y, np.array(x))


def test_a_map_of_a_device_has_no_length() -> None:
    zeros = np.memmap("/dev/zero", np.float32, "c", shape=(5000,))
    assert not xl.to_host(xl.to_device(zeros)).any()

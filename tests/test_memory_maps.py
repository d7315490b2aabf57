"""Memory maps whose file has become shorter: an error on every way, where touching the memory would end the process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.errors import LayoutError
from xferlib.testing import assert_same_bits

WRITES = ("result of a reduction", "to_host", "to_device, into it", "out of a map")
ON_MAPS: dict[str, Callable[[Any], Any]] = {
    "to_device": xl.to_device,
    "a part": lambda x: xl.to_device(x[-9:]),
    "other dtype": lambda x: xl.to_device(x, dtype="float64"),
    "asynchronous": lambda x: xl.to_device_async(x).result(),
    "of a tree": lambda x: xl.tree.to_device({"x": x}),
    "list": lambda x: list(xl.prefetch([x, x[:-1]])),
    "generator": lambda x: list(xl.prefetch(iter([x]))),
    "small, of a generator": lambda x: list(xl.prefetch(iter([x[-9:]]))),
    "source of a map": lambda x: xl.stream_map(lambda chunk: chunk, x, chunk_rows=7000),
    "reduction": lambda x: xl.distributed.init("single").all_reduce(x),
    "result of a reduction": lambda x: xl.distributed.init("single").all_reduce(np.ones_like(x), out=x),
    "to_host": lambda x: xl.to_host(xl.ones_like(xl.zeros(x.shape, "float32")), out=x),
    "to_device, into it": lambda x: xl.to_device(np.ones(x.shape, "float32"), out=x),
    "out of a map": lambda x: xl.stream_map(lambda chunk: chunk, np.ones(x.shape, "float32"), chunk_rows=7000, out=x),
}


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
@pytest.mark.parametrize("what", ON_MAPS)
def test_a_memory_map_of_a_truncated_file_is_an_error_and_does_not_end_the_process(
    tmp_path: Path, backend: str, what: str, mode: Any
) -> None:
    path = tmp_path / "rows"
    np.arange(100_000, dtype=np.float32).tofile(path)
    x = np.memmap(path, np.float32, mode)
    os.truncate(path, 200_000)
    if mode == "r" and what in WRITES:
        pytest.skip("not to be written")
    with pytest.raises(
        LayoutError, match=r"is a memory map of 400000 bytes of .*rows, which has been truncated to 200000"
    ):
        ON_MAPS[what](x)
    assert_same_bits(xl.to_host(xl.to_device(x[:50_000])), np.arange(50_000, dtype=np.float32))  # which are there


def test_a_map_of_a_device_has_no_length() -> None:
    zeros = np.memmap("/dev/zero", np.float32, "c", shape=(5000,))
    assert not xl.to_host(xl.to_device(zeros)).any()

"""Staging in C, with a driver that copies as late as it may; and what happens where it is not compiled."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.processes import printed
from xferlib import _native
from xferlib._memory import buffers as _host
from xferlib._native import build
from xferlib._transfer.staging import Filling
from xferlib.backends.base import staging_failure
from xferlib.errors import TransferError
from xferlib.testing import (
    THRESHOLDS,
    assert_same_bits,
    configured,
    dtypes,
    forced,
    fresh_staging,
    load_backend,
    staging_stats,
)
from xferlib.testing.strategies import bits_of

pytestmark = pytest.mark.usefixtures("compiled_parts")

ROOT = Path(__file__).parents[1]
HERE = "fake:sim:0"
CHUNK = 64
CONTEXT = 0xC0
compiled = pytest.mark.skipif(_native.load_library() is None, reason=f"staging in C: {_native.why_absent()}")


@compiled
def test_a_filling_that_is_dropped_is_ended_before_its_memory_goes() -> None:
    for nbytes in (100, 300 << 10, 1 << 20):
        source, found = bits_of(nbytes, np.uint8, seed=nbytes), np.zeros(nbytes, np.uint8)
        filling = Filling(found.ctypes.data, source.ctypes.data, nbytes, source)
        del filling
        assert_same_bits(found, source)


@compiled
def test_the_small_floats_of_c_are_those_of_the_table_in_its_order() -> None:
    """Their places are the numbers by which C knows dtypes: with one more in Python it would read beyond its tables."""
    rows = [(form.itemsize, form.fraction, form.bias, form.most, form.beyond, form.nan)
            for form in dtypes.SMALL_FLOATS.values()]  # fmt: skip
    table = (ctypes.c_int32 * 6 * len(rows)).in_dll(_native.load_library(), "xf_small_floats")
    assert [tuple(row) for row in table] == rows


_OTHER_NUMPY = """
import ctypes
import numpy as np

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
version = ctypes.CFUNCTYPE(ctypes.c_uint)(lambda: 0x7000000)
table = (ctypes.c_void_p * 400)(ctypes.cast(version, ctypes.c_void_p))
np._core.multiarray._ARRAY_API = new_capsule(table, None, None)

import xferlib as xl
from xferlib.testing import configured

x = np.arange(6.0).reshape(2, 3)
xl.tree.to_host([xl.to_device(x), x, x.T])
list(xl.prefetch([x, x, x.T]))
for made in xl.zeros((2, 3)), xl.full((2, 3), 2.0), xl.asarray([[1.0, 2.0]]), xl.arange(3.0):
    assert made.ndim, made
with configured(cpu="native"):
    double = xl.elementwise(lambda x: x + x)
    for _ in range(3):
        assert (double(x) == 2 * x).all() and (xl.kernels.reductions.sum(x, axis=1) == [3.0, 12.0]).all()
        assert (xl.scan("a + b")(x[0]) == [0.0, 1.0, 3.0]).all()
print("done")
"""


@compiled
def test_all_goes_on_in_python_where_numpy_has_another_abi() -> None:
    """Its functions lie elsewhere: C calls none of them."""
    command = [sys.executable, "-X", "faulthandler", "-c", _OTHER_NUMPY]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == "done\n", done.stderr


def _staged() -> Any:
    return forced("staged", chunk_nbytes=1000)


@pytest.fixture
def fresh(fake: Any) -> Iterator[None]:
    """No staging buffers yet."""
    with fresh_staging():
        yield
    fake.machine.failing = None


@compiled
def test_transfers_of_every_layout_are_staged_in_c(fresh: None) -> None:
    """Staging in C takes chunks of a ring; staging in Python takes slabs."""
    x = bits_of(100_000, np.uint8, seed=1)
    for source in [
        x,
        x[::-1],
        x.view("f4")[::-1],
        x.reshape(100, -1)[::2, 3:70],
        x.view(">u2"),
        x.reshape(10, 100, 100)[::2, ::3, ::4],
    ]:
        with fresh_staging():
            with _staged():
                d = xl.to_device(source, device=HERE)
            assert staging_stats("fake").nbytes, source.dtype
        assert_same_bits(xl.to_host(d), np.array(source, source.dtype.newbyteorder("="), order="C"))
    with fresh_staging(), configured(native="off"):
        with _staged():
            assert_same_bits(xl.to_host(xl.to_device(x, device=HERE)), x)
        assert not staging_stats("fake").nbytes


@compiled
def test_chunks_come_back_after_success_and_after_failure(fresh: None, fake: Any) -> None:
    x = bits_of(100_000, np.uint8, seed=2)
    with _staged():
        d = xl.to_device(x, device=HERE)
        held = staging_stats("fake").nbytes
        assert held > 0
        fake.machine.failing = OSError("the link is down")
        with pytest.raises(OSError, match="the link is down"):
            xl.to_device(x, out=d)
        with pytest.raises(OSError, match="the link is down"):
            xl.to_host(d)
        assert staging_stats("fake")[1:] == (0, 0)
        fake.machine.failing = None
        assert_same_bits(xl.to_host(xl.to_device(x, device=HERE)), x)
        assert staging_stats("fake") == (held, 0, 0)


@compiled
def test_a_program_that_frees_the_chunks_gets_others(fresh: None) -> None:
    x = bits_of(100_000, np.uint8, seed=2)
    with _staged():
        for _ in range(3):
            assert_same_bits(xl.to_host(xl.to_device(x, device=HERE)), x)
            assert xl.trim() >= staging_stats("fake").nbytes == 0


def test_results_on_fresh_pages_are_known_to_be() -> None:
    cache = _host.HostCache()
    fresh = cache.empty((10 << 20,), np.dtype("float32"))
    assert _host.is_fresh(fresh)
    del fresh
    for _ in range(3):  # a loop gets pages that are there
        again = cache.empty((10 << 20,), np.dtype("float32"))
        was_fresh = _host.is_fresh(again)
        del again
    assert not was_fresh
    ordinary = np.zeros(10)
    assert not _host.is_fresh(ordinary)
    assert not _host.is_fresh(ordinary[::2])


@compiled
def test_a_transfer_that_finds_no_memory_for_its_state_keeps_no_chunk(
    fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = bits_of(100_000, np.uint8, seed=7)
    d = xl.to_device(x, device=HERE)
    with _staged(), monkeypatch.context() as patch:
        patch.setattr(_native.load_library(), "xf_copy", lambda *_: _native.NO_MEMORY)
        patch.setattr(_native.load_library(), "xf_open", lambda *_: None)
        for _ in range(3):
            with pytest.raises(MemoryError, match="state of a transfer"):
                xl.to_host(d)
            with pytest.raises(TransferError, match="state of a transfer"):
                xl.to_host_async(d).result()
        assert staging_stats("fake")[1:] == (0, 0)
    with _staged():
        assert_same_bits(xl.to_host(d), x)


@compiled
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(1, 60), row_nbytes=st.integers(1, 40), gap=st.integers(0, 30), skip=st.integers(0, 15),
    chunk_nbytes=st.integers(1, 300), is_backwards=st.booleans(), itemsize=st.sampled_from([1, 2, 4, 8, 16]),
)  # fmt: skip
def test_rows_that_lie_apart_arrive_and_come_back(
    fresh: None, rows: int, row_nbytes: int, gap: int, skip: int, chunk_nbytes: int, is_backwards: bool, itemsize: int
) -> None:
    dtype = {1: "u1", 2: "u2", 4: "f4", 8: "f8", 16: "c16"}[itemsize]
    width = row_nbytes * itemsize
    memory = bits_of(skip + rows * (width + gap), np.uint8, seed=rows)

    def spread(bytes_: Any) -> Any:
        seen = np.ndarray((rows, row_nbytes), dtype, bytes_, skip, (width + gap, itemsize))
        return seen[::-1] if is_backwards else seen

    source, out = spread(memory), np.full_like(memory, 7)
    with forced("staged", chunk_nbytes=max(chunk_nbytes, itemsize)):
        d = xl.to_device(source, device=HERE)
        xl.to_host(d, out=spread(out))
    assert_same_bits(spread(out), source)
    untouched = np.ones(memory.size, bool)
    spread_mask = np.ndarray((rows, width), bool, untouched, skip, (width + gap, 1))
    spread_mask[...] = False
    assert (out[untouched] == 7).all()


@compiled
def test_a_transfer_in_each_direction_has_chunks_of_its_own(fresh: None) -> None:
    x, y = bits_of(50_000, np.uint8, seed=3), np.zeros(50_000, np.uint8)
    with _staged():
        d = xl.to_device(x, device=HERE)
        up, down = xl.to_device_async(x[::-1].copy(), device=HERE), xl.to_host_async(d, out=y)
        assert_same_bits(down.result(), x)
        assert_same_bits(xl.to_host(up.result()), x[::-1])
    assert staging_stats("fake").nbytes <= THRESHOLDS.ring_chunks * THRESHOLDS.chunk_nbytes


@compiled
@pytest.mark.usefixtures("fake")
def test_one_chunk_is_enough() -> None:
    x = bits_of(30_000, np.uint8, seed=4)
    with fresh_staging(chunks=1), _staged():
        assert_same_bits(xl.to_host(xl.to_device(x, device=HERE)), x)
        transfers = [xl.to_device_async(x, device=HERE) for _ in range(5)]
        for transfer in transfers:
            assert_same_bits(xl.to_host(transfer.result()), x)
        assert staging_stats("fake").nbytes == THRESHOLDS.chunk_nbytes


def test_without_a_compiler_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_compiler", list)
    assert "no C compiler" in build.build(Path(_native.SOURCE), tmp_path / "staging.so", 1)
    assert not list(tmp_path.iterdir())


@compiled
def test_a_source_that_does_not_compile_leaves_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "staging.c"
    broken.write_text("int main(")
    assert "failed" in build.build(broken, tmp_path / "staging.so", 1)
    assert [each.name for each in tmp_path.iterdir()] == ["staging.c"]


@compiled
def test_a_library_is_compiled_again_where_its_sources_or_its_command_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "staging" / "staging.c", tmp_path / "staging.so"
    source.parent.mkdir()
    source.write_text("int xf_one(void) { return 1; }")

    def is_new(fingerprint: int) -> bool:
        if target.exists():
            os.utime(target, (1, 1))
        assert build.build(source, target, fingerprint) == ""
        return target.stat().st_mtime != 1

    assert [is_new(each) for each in (1, 1, 2, 2)] == [True, False, True, False]
    others = [*build.flags("linux"), "-DOTHER"]
    monkeypatch.setattr(build, "flags", lambda *_: others)
    assert [is_new(2), is_new(2)] == [True, False]


@compiled
def test_a_library_of_another_source_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "checksum", lambda: 12345)
    with pytest.raises(OSError, match=r"other C files; run python -m xferlib\._native\.build"):
        _native.load(_native.LIBRARY)


@pytest.mark.parametrize("native", ["on", "off"])
def test_the_setting_is_read_from_the_environment(native: str) -> None:
    code = "from xferlib._runtime import process as config; print(config.get().native)"
    assert printed("-c", code, XFERLIB_NATIVE=native).strip() == native


def test_an_error_without_words_of_its_own_names_the_code() -> None:
    stream = load_backend("numpy").stream_current(xl.get_device("cpu"))
    assert isinstance(staging_failure(5, stream), TransferError)
    assert "code 5" in str(staging_failure(5, stream))


@compiled
@pytest.mark.parametrize("is_upward", [True, False])
def test_a_recording_learns_of_every_piece(fresh: None, is_upward: bool) -> None:
    x = bits_of(100_000, np.uint8, seed=6)
    d = xl.to_device(x, device=HERE)
    with _staged(), xl.trace() as found:
        if is_upward:
            xl.to_device(x, out=d)
        else:
            xl.to_host(d)
    kind = "h2d" if is_upward else "d2h"
    # Copies that a test before has left to the device may be made meanwhile.
    copies = [each for each in found.operations if each.kind == kind and each.file == __file__]
    steps = [each for each in found.operations if each.kind == "staging"]
    assert len(copies) == 1
    assert len(steps) >= 100
    assert copies[0].nbytes == sum(each.nbytes for each in steps) == x.nbytes
    assert all(each.file == __file__ and each.end_s >= each.start_s for each in [*copies, *steps])
    assert copies[0].is_timed
    here = {each.name for each in threading.enumerate()}
    assert {each.stream for each in steps} <= here | {f"xferlib-c{number}" for number in range(1, 21)}


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="no cross compiler (pip install ziglang)")
def test_the_sources_compile_for_systems_that_are_not_here() -> None:
    command = [sys.executable, "tools/check_cross.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_system_has_its_own_flags() -> None:
    include = Path("headers")
    assert {"-static"} == set(build.flags("win32")) - set(build.flags("linux"))
    assert "-fPIC" not in build.flags("win32")
    assert set(build.flags("darwin", include)) - set(build.flags("linux", include)) == {"-undefined", "dynamic_lookup"}
    assert "dllexport" in build.write_fingerprint_source(1, "win32")


def test_on_windows_a_compiler_must_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that has not run there is not built unasked."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: None)
    assert "CC names no compiler" in build.build(Path(_native.SOURCE), tmp_path / "staging.dll", 1)

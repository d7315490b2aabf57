"""The whole suite in one class."""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import mmap
import os
import pickle
import random
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import xferlib as xl
from xferlib._core import arrays, dtypes, observe, registry, streams
from xferlib._core.backend import Backend
from xferlib._memory import pinned
from xferlib._memory.pinned import PinnedPool
from xferlib.errors import (
    ArgumentError,
    BackendNotFoundError,
    BackendUnavailableError,
    ConfigError,
    DeviceNotFoundError,
    LayoutError,
    MixedBackendsError,
    MixedDevicesError,
    PinnedMemoryError,
    StreamError,
    TransferError,
    UnsupportedDTypeError,
    UnsupportedError,
)
from xferlib.testing import strategies
from xferlib.testing.strategies import bits_of
from xferlib.testing.tools import (
    assert_same_bits,
    configured,
    forced,
    in_threads,
    native_bits,
    replace_attribute,
    scribble,
    with_one_nan,
)

HostArray = np.ndarray[Any, Any]


class Harness:
    """The backend under test.

    Attributes:
        backend: Its registry name.
        device: A specification of the device, ``"torch:cpu"``; the backend's current one if None.
        max_examples: Layouts that Hypothesis draws for each property.
        negative_steps: Whether the library's own indexing takes negative steps.
        phases: Hypothesis's phases; without ``shrink`` a failure is reported sooner, with a larger example.
    """

    backend: str = "numpy"
    device: str | None = None
    max_examples: int = 60
    negative_steps: bool = False
    phases: tuple[Phase, ...] = tuple(Phase)

    @property
    def target_device(self) -> xl.Device:
        return xl.get_device(self.device if self.device is not None else self.backend)

    @property
    def raw(self) -> Backend:
        """The part of the backend that serves the device."""
        return registry.get(self.backend).at(self.target_device)

    @property
    def is_async(self) -> bool:
        return self.raw.capabilities.streams

    def need(self, ability: str) -> None:
        """Skip the test, with the backend's own reason, where the ability is missing."""
        if not getattr(self.raw.capabilities, ability):
            pytest.skip(f"{self.target_device}: {self.raw.capabilities.reason(ability)}")

    def forall(self, check: Callable[..., None], *drawn: SearchStrategy[Any], share: float = 1.0) -> None:
        """Run ``check`` on examples of the strategies; ``share`` of `max_examples` times, for slow checks."""
        relaxed = settings(
            max_examples=max(1, round(self.max_examples * share)),
            phases=self.phases,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        relaxed(hypothesis.given(*drawn)(check))()

    # --- transfers to and from the device under test

    def up(self, x: Any, **options: Any) -> Any:
        return xl.to_device(x, device=None if "out" in options else self.target_device, **options)

    def up_async(self, x: Any, **options: Any) -> xl.Transfer:
        return xl.to_device_async(x, device=None if "out" in options else self.target_device, **options)

    def down(self, d: Any, **options: Any) -> HostArray:
        return xl.to_host(d, **options)

    def shape_of(self, d: Any) -> tuple[int, ...]:
        return self.raw.view(d).shape

    def stream(self) -> xl.Stream:
        return xl.Stream(self.target_device)

    def pinned(self, x: HostArray) -> HostArray:
        """A pinned copy of a host array."""
        return xl.pinned_array(x, backend=self.backend)

    def synchronize(self) -> None:
        """Wait for everything on the device."""
        self.target_device.synchronize()


PATHS: tuple[str | None, ...] = (None, "small", "staged", "permuted")
"""The paths that a test can force on a pageable array; ``"pinned"`` needs a pinned one."""

# Conformance: the backend and device that a call uses, and the arrays that may not mix.


class Choosing(Harness):
    """Arrays decide, then scopes, then the environment; errors name what they refuse."""

    def test_arrays_decide_whatever_the_default(self) -> None:
        d = self.up(np.zeros(3))
        with xl.use_backend("numpy"):
            assert xl.get_backend(d).name == self.backend
            assert xl.get_backend(d, 1, 2.0, d).name == self.backend
            assert xl.device_of(d) is self.target_device
            assert xl.get_device(d) is self.target_device

    def test_the_namespace_is_the_arrays_own_or_an_error_that_says_why_not(self) -> None:
        d = self.up(np.arange(4, dtype=np.float32))
        if not self.raw.capabilities.namespace:
            with pytest.raises(UnsupportedError) as refused:
                xl.get_array_module(d)
            assert self.raw.capabilities.reason("namespace") in str(refused.value)
            return
        xp = xl.get_array_module(d, 2)
        doubled = xp.add(d, d)
        assert xl.device_of(doubled) is self.target_device
        assert_same_bits(self.down(doubled), np.arange(0, 8, 2, dtype=np.float32))

    def test_functions_of_the_namespace_can_be_pickled(self) -> None:
        self.need("namespace")
        xp = self.raw.namespace()
        for part, names in (
            (xp, ["abs", "add", "arange", "astype", "matmul", "sum", "unique_all", "vecdot", "where"]),
            (xp.linalg, ["matmul", "matrix_transpose", "qr", "vector_norm"]), (xp.fft, ["fft", "fftfreq"]),
        ):  # fmt: skip
            for function in (getattr(part, name) for name in names):
                again = pickle.loads(pickle.dumps(function))  # CuPy makes another ufunc
                assert (type(again), again.__name__) == (type(function), function.__name__)

    def test_scalars_alone_are_numpys(self) -> None:
        found: list[Any] = [xl.get_array_module(1, 2.5), xl.get_array_module()]
        assert all(each is np for each in found)

    def test_scopes_nest_and_end(self) -> None:
        before = xl.get_backend()
        with xl.use_backend(self.backend) as chosen:
            assert chosen is xl.get_backend()
            assert chosen.name == self.backend
            with xl.use_backend("numpy"):
                assert xl.get_backend().name == "numpy"
            with pytest.raises(KeyError), xl.use_backend("numpy"):
                raise KeyError
            assert xl.get_backend().name == self.backend
            assert xl.device_of(xl.zeros(2)).backend == self.backend
        assert xl.get_backend() is before

    def test_a_plain_choice_holds_for_the_process_and_a_scope_for_its_thread(self) -> None:
        before = registry._process_choices
        seen: dict[str, str] = {}

        def look(when: str) -> None:
            in_threads(lambda _: seen.__setitem__(when, xl.get_backend().name), [None])

        try:
            xl.use_backend("numpy")
            with xl.use_backend(self.backend):
                look("in a scope")
            assert xl.get_backend().name == "numpy"
            xl.use_backend(self.backend)
            look("after a plain call")
        finally:
            registry._process_choices = before
        assert seen == {"in a scope": "numpy", "after a plain call": self.backend}

    def test_every_name_of_a_device_gives_the_same_object(self) -> None:
        device = self.target_device
        assert xl.Device(str(device)) is device
        assert xl.get_device(device) is device
        with xl.use_backend(self.backend):
            assert xl.Device(f"{device.kind}:{device.index}") is device
            if device.kind != "cpu":
                assert xl.Device(device.index) is device
        assert device.properties.name

    def test_a_device_is_current_inside_with_and_not_after(self) -> None:
        with xl.use_backend("numpy"):
            before = xl.get_device()
            with self.target_device as entered, self.target_device:
                assert entered is self.target_device
                if self.target_device.kind != "cpu":  # a CPU device is a no-op, so that the same code runs on both
                    assert xl.get_device() is self.target_device
                    assert xl.device_of(xl.zeros(2)) is self.target_device
            assert xl.get_device() is before

    def test_an_array_names_the_device_of_a_block(self) -> None:
        d = self.up(np.zeros(2))
        with xl.get_device(d):
            assert_same_bits(self.down(self.up(d)), np.zeros(2))

    def test_every_device_of_the_backend_holds_arrays(self) -> None:
        source = np.arange(1000.0)
        for device in registry.get(self.backend).devices():
            d = xl.to_device(source, device=device)
            assert xl.device_of(d) is device
            assert_same_bits(xl.to_host(d), source)
            back = self.up(d)
            assert xl.device_of(back) is self.target_device
            assert_same_bits(self.down(back), source)
            with device:
                assert device.kind == "cpu" or xl.get_device() is device
                assert_same_bits(xl.to_host(xl.to_device(d, device=device)), source)

    # --- what is refused

    def test_arrays_of_two_backends_do_not_mix(self) -> None:
        d, other = self.up(np.zeros(3)), self._array_of_another_backend()
        for call in (xl.get_backend, xl.get_array_module):
            with pytest.raises(MixedBackendsError, match="move one of them first") as refused:
                call(d, other)
            assert self.backend in str(refused.value)
            assert "argument 1" in str(refused.value)

    def _array_of_another_backend(self) -> Any:
        if self.backend != "numpy":
            return np.zeros(3)
        for name, status in xl.available_backends().items():
            if status.is_available and name != "numpy":
                return xl.to_device(np.zeros(3), backend=name)
        pytest.skip("no second backend can run here")

    def test_out_settles_backend_and_device(self) -> None:
        out = self.up(np.zeros(3))
        if self.backend != "numpy":
            with pytest.raises(MixedBackendsError, match="backend="):
                xl.to_device(np.ones(3), backend="numpy", out=out)
        others = [each for each in registry.get(self.backend).devices() if each is not self.target_device]
        for other in others:
            with pytest.raises(MixedDevicesError, match="but out is on"):
                xl.to_device(np.ones(3), device=other, out=out)
        assert_same_bits(self.down(out), np.zeros(3))

    def test_out_of_another_shape_or_dtype_is_refused_and_untouched(self) -> None:
        out = self.up(np.zeros(3, np.float32))
        for wrong in (np.ones(4, np.float32), np.ones((3, 1), np.float32), np.ones(3, np.float64), 1.0):
            for call in (xl.to_device, xl.to_device_async):
                with pytest.raises(LayoutError, match="out has"):
                    call(wrong, out=out)
        assert_same_bits(self.down(out), np.zeros(3, np.float32))
        here = np.zeros(3)
        for downward in (xl.to_host, xl.to_host_async):
            with pytest.raises(LayoutError, match="out has"):
                downward(out, out=here)
        here.flags.writeable = False
        with pytest.raises(LayoutError, match="read-only"):
            xl.to_host(self.up(np.ones(3)), out=here)
        assert not here.any()

    def test_out_on_the_host_whose_elements_share_memory_is_refused(self) -> None:
        def check(layout: strategies.Layout) -> None:
            row = np.zeros(layout.nbytes, np.uint8)
            out = layout.over(row)
            source = np.arange(1, out.size + 1).astype(out.dtype).reshape(out.shape)
            steps = np.sort(sum(np.indices(out.shape)[n] * out.strides[n] for n in range(out.ndim)), axis=None)
            for call in (xl.to_host, lambda d, out: xl.to_host_async(d, out=out).result()):
                if (np.diff(steps) < out.itemsize).any():
                    with pytest.raises(LayoutError, match="share memory"):
                        call(self.up(source), out=out)
                    assert not row.any()
                else:
                    call(self.up(source), out=out)
                    assert_same_bits(out, source)
                    row[...] = 0

        self.forall(check, strategies.layouts(native=True), share=0.5)
        windows = np.lib.stride_tricks.sliding_window_view(np.zeros(400), 10, writeable=True)
        with pytest.raises(LayoutError, match="share memory"):
            xl.to_host(self.up(np.ones(windows.shape)), out=windows)

    def test_out_on_the_host_of_a_dtype_that_cannot_be_asked_for_has_another_remedy(self) -> None:
        for wrong in (np.zeros(3, ">f8"), np.zeros(3, object)):
            with pytest.raises(LayoutError, match="pass an array of dtype float64"):
                xl.to_host(self.up(np.ones(3)), out=wrong)

    def test_devices_that_do_not_exist_are_refused_by_name(self) -> None:
        for spec in (f"{self.backend}:{self.target_device.kind}:99", f"{self.backend}:abacus"):
            with pytest.raises(DeviceNotFoundError, match="does not exist") as refused:
                xl.zeros(3, device=spec)
            assert spec in str(refused.value)

    def test_names_that_no_backend_has_are_refused(self) -> None:
        for call in (xl.use_backend, lambda name: xl.to_device(np.zeros(2), backend=name)):
            with pytest.raises(BackendNotFoundError, match="no backend 'abacus'"):
                call("abacus")

    def test_a_backend_that_cannot_run_is_an_error_and_never_a_fallback(self) -> None:
        for name, status in xl.available_backends().items():
            if status.is_available:
                assert not status.reason
                assert status.devices
                continue
            assert status.reason
            assert status.install
            with pytest.raises(BackendUnavailableError) as refused:
                xl.use_backend(name)
            assert name in str(refused.value)
            assert status.install in str(refused.value)


# Conformance: copies and conversions of any layout and dtype, over every path, compared bit by bit.

_LARGE_NBYTES = 5 << 18
"""1.25 MiB: from 1 MiB on, the device may do the converting."""
TINY_CHUNK = 64
"""Bytes: cuts even a small array into many chunks; every element still fits."""


_SHAPES: tuple[int | tuple[int, ...], ...] = ((), 0, 5, (3, 0, 2), (70, 41))


class Copying(Harness):
    """Layout and dtype, aliasing, `out`, and completeness of blocking copies."""

    def test_every_layout_survives_the_round_trip_on_every_path(self) -> None:
        def check(source: HostArray, path: Any, chunk: Any) -> None:
            with forced(path, chunk_nbytes=chunk):
                d = self.up(source)
                assert xl.device_of(d) is self.target_device
                assert self.raw.view(d).is_c_contiguous
                assert_same_bits(self.down(d), source)

        self.forall(check, strategies.host_arrays(), st.sampled_from(PATHS), st.sampled_from([None, TINY_CHUNK]))

    def test_the_result_never_aliases_its_source(self) -> None:
        def check(source: HostArray, path: Any) -> None:
            before = native_bits(source)
            with forced(path):
                d = self.up(source)
            if source.flags.writeable:
                scribble(source)
            assert np.array_equal(native_bits(self.down(d)), before)

        self.forall(check, strategies.host_arrays(), st.sampled_from(PATHS))

    def test_a_host_copy_is_no_alias_of_the_device_array(self) -> None:
        source = np.arange(12, dtype=np.int32)
        d = self.up(source)
        first = self.down(d)
        first[:] = -1
        assert_same_bits(self.down(d), source)

    @pytest.mark.parametrize("nbytes", [5 << 10, 300 << 10, 3 << 20, 9 << 20])
    @pytest.mark.parametrize("kind", ["contiguous", "transposed", "strided", "reversed", "swapped", "pinned"])
    def test_the_source_may_change_after_a_blocking_call(self, kind: str, nbytes: int) -> None:
        source = self._source(kind, nbytes)
        expected = source.copy()
        d = self.up(source)
        scribble(source)
        assert_same_bits(self.down(d), expected)

    def _source(self, kind: str, nbytes: int) -> HostArray:
        rows = nbytes // 4 // 64
        if kind == "strided":
            return bits_of(rows * 64 * 8, np.float32, seed=1).reshape(rows, 128)[:, ::2]
        flat = bits_of(rows * 64 * 4, np.float32, seed=2).reshape(rows, 64)
        if kind == "transposed":
            return flat.T
        if kind == "reversed":
            return flat[::-1, ::-1]
        if kind == "swapped":
            return flat.view(flat.dtype.newbyteorder())
        return self.pinned(flat) if kind == "pinned" else flat

    @pytest.mark.parametrize("kind", ["contiguous", "transposed", "strided", "reversed", "swapped", "pinned"])
    def test_large_arrays_come_back_whole_into_new_arrays_and_into_out(self, kind: str) -> None:
        source = self._source(kind, 9 << 20)
        d = self.up(source)
        assert_same_bits(self.down(d), source)
        out = self._source(kind, 9 << 20)
        if out.dtype.isnative:
            scribble(out)
            assert self.down(d, out=out) is out
            assert_same_bits(out, source)

    def test_out_on_the_host_may_have_any_strides_and_its_gaps_stay(self) -> None:
        def check(data: Any, path: Any, chunk: Any) -> None:
            source = data.draw(strategies.host_arrays())
            layout = data.draw(strategies.destinations(source.dtype.newbyteorder("="), source.shape))
            buffer = np.full(layout.nbytes, 0xA5, np.uint8)
            expected = buffer.copy()
            _assign(layout.over(expected), source)
            d = self.up(source)
            with forced(path, chunk_nbytes=chunk):
                self.down(d, out=layout.over(buffer))
            assert_same_bits(buffer, expected)

        self.forall(check, st.data(), st.sampled_from(PATHS), st.sampled_from([None, TINY_CHUNK]))

    def test_a_device_array_of_any_strides_comes_back(self) -> None:
        self.need("strided")

        def check(data: Any, steps: strategies.Steps, dtype: np.dtype[Any]) -> None:
            parent = data.draw(strategies.host_arrays(dtype=dtype, shape=steps.parent))
            view = steps.of(self.up(parent))
            assert_same_bits(self.down(view), steps.of(parent).astype(dtype))

        self.forall(check, st.data(), strategies.views(negative=self.negative_steps), strategies.dtypes())

    def test_out_on_the_device_may_have_any_strides_and_its_gaps_stay(self) -> None:
        self.need("strided")

        def check(data: Any, steps: strategies.Steps, dtype: np.dtype[Any], path: Any) -> None:
            before = data.draw(strategies.host_arrays(dtype=dtype, shape=steps.parent))
            expected = np.ascontiguousarray(before).astype(dtype)
            target = steps.of(expected)
            source = data.draw(strategies.host_arrays(dtype=dtype, shape=target.shape))
            d = self.up(before)
            view = steps.of(d)
            with forced(path):
                assert self.up(source, out=view) is view
            _assign(target, source)
            assert_same_bits(self.down(d), expected)

        views = strategies.views(negative=self.negative_steps)
        self.forall(check, st.data(), views, strategies.dtypes(), st.sampled_from(PATHS))

    def test_as_many_axes_as_numpy_has_come_and_go(self) -> None:
        values = np.arange(1 << 17, dtype=np.uint16)
        for shape in ((2,) * 17, (2, 1) * 17, (1,) * 47 + (2,) * 17):
            source = values.reshape(shape)
            for given in (source.T, source[::-1, ..., ::-1].T):  # none of its axes merges with another
                for path in PATHS:
                    with forced(path):
                        assert_same_bits(self.down(self.up(given)), given)
                        assert_same_bits(self.down(self.up(given, dtype="float32")), given.astype("float32"))
                assert_same_bits(self.down(self.up_async(given).result()), given)
            assert_same_bits(self.down(self.up(source), out=np.empty(source.T.shape, source.dtype).T), source)
            if not self.raw.capabilities.strided:
                continue
            turn = strategies.Steps(shape, (), tuple(reversed(range(len(shape)))))
            turned, out = (turn.of(self.up(each)) for each in (source, np.zeros_like(source)))
            assert_same_bits(self.down(turned), source.T)
            assert_same_bits(self.down(turned, out=np.empty(source.T.shape, source.dtype)), source.T)
            assert_same_bits(xl.to_host_async(turned).result(), source.T)
            assert_same_bits(self.down(self.up(turned)), source.T)
            assert_same_bits(self.down(self.up(source.T, out=out)), source.T)
            assert_same_bits(self.down(self.up(self.up(np.ascontiguousarray(source.T)), out=out)), source.T)

    def test_copies_between_device_arrays_keep_bits_and_share_nothing(self) -> None:
        self.need("in_place")

        def check(source: HostArray) -> None:
            one = self.up(source)
            two = self.up(one)
            assert two is not one
            zeros = np.zeros(source.shape, source.dtype.newbyteorder("="))
            self.up(zeros, out=one)
            assert_same_bits(self.down(two), source)

        self.forall(check, strategies.host_arrays())

    def test_overlapping_views_of_one_device_array_copy_as_if_through_a_temporary(self) -> None:
        self.need("strided")
        host = np.arange(40, dtype=np.int16)
        d = self.up(host)
        self.up(d[3:33], out=d[5:35])
        host[5:35] = host[3:33].copy()
        assert_same_bits(self.down(d), host)

    def test_copy_none_returns_what_fits_and_false_refuses_what_does_not(self) -> None:
        source = np.arange(6, dtype=np.float32)
        d = self.up(source)
        assert self.up(d, copy=None) is d
        assert self.up(d, copy=False) is d
        assert self.up(d, copy=None, dtype="float32") is d
        if self.backend == "numpy":
            assert self.up(source, copy=False) is source
        else:
            with pytest.raises(LayoutError, match="copy=False"):
                self.up(source, copy=False)
            assert_same_bits(self.down(self.up(source, copy=None)), source)

    def test_dtype_converts_while_staging_as_documented(self) -> None:
        def check(data: Any, target: np.dtype[Any], path: Any, upward: bool) -> None:
            source = data.draw(strategies.host_arrays())
            if source.dtype.kind == "c" and target.kind not in "cb":
                return
            expected = convert_saturating(source, target)
            with forced(path):
                moved = self.down(self.up(source, dtype=target)) if upward else self.down(self.up(source), dtype=target)
            assert_same_bits(moved, expected)

        self.forall(check, st.data(), strategies.dtypes(), st.sampled_from(PATHS), st.booleans())

    @pytest.mark.parametrize("target", strategies.DTYPES)
    def test_large_arrays_convert_as_small_ones_do(self, target: str) -> None:
        wanted = np.dtype(target)
        for name in strategies.DTYPES if self.is_async else ("int8", "float32"):  # a CPU has no second way
            few = bits_of(1024 * np.dtype(name).itemsize, name, seed=11)
            if few.dtype.kind == "c" and wanted.kind not in "cb":
                continue
            times = -(-_LARGE_NBYTES // (1024 * max(few.itemsize, wanted.itemsize)))
            source, expected = np.tile(few, times), with_one_nan(np.tile(convert_saturating(few, wanted), times))
            assert_same_bits(with_one_nan(self.down(self.up(source, dtype=wanted))), expected)
            assert_same_bits(with_one_nan(self.down(self.up(source), dtype=wanted)), expected)
            if self.is_async and name in ("float64", "int16"):  # pinned memory may be converted elsewhere
                pinned = xl.pinned_array(source, backend=self.backend)
                assert_same_bits(with_one_nan(self.down(self.up(pinned, dtype=wanted))), expected)
                out = self.up(np.zeros(source.shape, wanted))
                self.up(pinned, out=out, dtype=wanted)
                assert_same_bits(with_one_nan(self.down(out)), expected)

    @pytest.mark.parametrize("name", [*dtypes.SMALL_FLOATS, *dtypes.STORED])
    def test_dtypes_that_numpy_lacks_are_copied_or_refused(self, name: str) -> None:
        pytest.importorskip("ml_dtypes")
        dtype = arrays.check_dtype(name)
        source = bits_of(64 * 96 * dtype.itemsize, f"u{dtype.itemsize}", seed=12).view(dtype).reshape(64, 96)
        if self.lacks(source):
            with pytest.raises(UnsupportedDTypeError, match=name):
                self.up(source)
            pytest.skip(f"the library has no {name}")
        for each in (source, source.T, source[::3, 1:], source[:0]):
            found = self.down(self.up(each))
            assert found.dtype == dtype
            assert found.tobytes() == each.tobytes()
            assert self.down(self.up_async(each).result()).tobytes() == each.tobytes()
        moved = xl.tree.to_device([source, {"x": source.T}], device=self.target_device)
        assert self.down(moved[1]["x"]).tobytes() == source.T.tobytes()
        if name in dtypes.SMALL_FLOATS:
            for other in ("float32", "float16", "float64"):
                wide, back = np.empty(source.shape, other), np.empty_like(source)
                arrays.copy_into(wide, source)
                arrays.copy_into(back, wide)
                assert_same_bits(self.down(self.up(source, dtype=other)), wide)
                assert self.down(self.up(wide, dtype=name)).tobytes() == back.tobytes()

    @pytest.mark.parametrize("name", [*dtypes.SMALL_FLOATS])
    def test_small_floats_are_computed_with_as_by_the_cpu(self, name: str) -> None:
        if self.target_device.kind not in ("cpu", "cuda") and self.backend != "sim":
            pytest.skip(f"{self.target_device}: its kernels are not made by xferlib")
        pytest.importorskip("ml_dtypes")
        dtype = arrays.check_dtype(name)
        host = (bits_of(6000, "int8", seed=14).astype(np.float32) / 8).astype(dtype).reshape(60, 100)
        if self.lacks(host):
            pytest.skip(f"the library has no {name}")
        x, turned = self.up(host), self.up(host[::-1])
        kernel = xl.elementwise(lambda x, y: (x * y + x).astype(name), name="small_floats")
        assert_same_bits(with_one_nan(self.down(kernel(x, turned))), with_one_nan(kernel(host, host[::-1])))
        for wide in (host.astype(np.float32) * 1e4, host.astype(np.float64) * 1e-4):
            for saturate in (False, True) if dtype.itemsize == 1 else (False,):
                found = self.down(xl.astype(self.up(wide), name, saturate=saturate))
                assert_same_bits(with_one_nan(found), with_one_nan(xl.astype(wide, name, saturate=saturate)))
        for reduce in (xl.kernels.reductions.sum, xl.kernels.reductions.argmax):
            assert_same_bits(self.down(reduce(x, axis=1)), np.asarray(reduce(host, axis=1)))

    def lacks(self, source: HostArray) -> bool:
        """Whether the library has no arrays of a dtype."""
        try:
            self.up(source)
        except UnsupportedDTypeError:
            return True
        return False

    def test_a_part_of_a_slab_lies_where_it_was_asked_for(self) -> None:
        self.need("streams")
        slab = self.up(np.zeros(4096, np.uint8))
        expected = self.down(slab)
        for offset, dtype in ((0, "int16"), (512, "complex128"), (1024, "bool"), (1536, "float32")):
            source = np.ones((3, 5), dtype)
            part = self.raw.subarray(slab, offset, (3, 5), np.dtype(dtype))
            assert self.raw.view(part).pointer == self.raw.view(slab).pointer + offset
            self.up(source, out=part)
            assert_same_bits(self.down(part), source)
            expected[offset : offset + source.nbytes] = np.frombuffer(source.tobytes(), np.uint8)
        del part
        assert_same_bits(self.down(slab), expected)

    def test_sequences_and_scalars_become_arrays(self) -> None:
        assert_same_bits(self.down(self.up([[1, 2], [3, 4]])), np.array([[1, 2], [3, 4]]))
        assert_same_bits(self.down(self.up(2.5)), np.array(2.5))
        assert_same_bits(self.down(self.up(np.float32(2.5))), np.array(2.5, np.float32))

    def test_a_read_only_memory_map_is_uploaded(self) -> None:
        data = bits_of(3 << 20, np.uint16, seed=3)
        with tempfile.NamedTemporaryFile() as file:
            data.tofile(file)
            file.flush()
            mapped = np.memmap(file.name, np.uint16, "r")
            assert_same_bits(self.down(self.up(mapped)), data)
            del mapped

    @pytest.mark.parametrize("dtype", strategies.DTYPES)
    def test_creation_functions_make_what_they_say(self, dtype: str) -> None:
        for shape in _SHAPES:
            extents = shape if isinstance(shape, tuple) else (shape,)
            assert self.shape_of(xl.empty(shape, dtype, device=self.target_device)) == extents
            assert_same_bits(self.down(xl.zeros(shape, dtype, device=self.target_device)), np.zeros(extents, dtype))
            assert_same_bits(self.down(xl.ones(shape, dtype, device=self.target_device)), np.ones(extents, dtype))
            like = xl.full(shape, 1, dtype, device=self.target_device)
            assert xl.device_of(like) is self.target_device
            assert_same_bits(self.down(xl.zeros_like(like)), np.zeros(extents, dtype))
            assert_same_bits(self.down(xl.full_like(like, 1, "int8")), np.ones(extents, "int8"))
            assert self.shape_of(xl.empty_like(like)) == extents


def _assign(target: HostArray, source: HostArray) -> None:
    """``target[...] = source`` for equal dtypes, without a trip through floating-point registers."""
    target[...] = np.frombuffer(source.astype(target.dtype).tobytes(), target.dtype).reshape(source.shape)


def convert_saturating(source: HostArray, target: np.dtype[Any]) -> HostArray:
    """Convert as the library should: as NumPy does, but floats saturate to integers and NaN becomes 0.

    The saturation is computed by Python's numbers, whose comparisons are exact, independently of the library.
    """
    with np.errstate(all="ignore"):
        if source.dtype.kind != "f" or target.kind not in "iu":
            return source.astype(target)
        values = source.astype(np.float64).ravel()
    limits = np.iinfo(target)
    flat = [_truncate(float(value), int(limits.min), int(limits.max)) for value in values]
    return np.array(flat, dtype=object).astype(target).reshape(source.shape)


def _truncate(value: float, low: int, high: int) -> int:
    return 0 if math.isnan(value) else math.trunc(min(max(value, low), high))


# Conformance: pinned memory, its pool, and memory pinned in place.

_NBYTES = 300 << 10
_PINNED_SHAPES: tuple[int | tuple[int, ...], ...] = ((), 7, (3, 0), (5, 4, 3))


class Pinning(Harness):
    """`pinned_empty` and its family, `PinnedPool`, `pin`."""

    def path_of(self, source: HostArray) -> str:
        """The path that an upload of ``source`` takes."""
        transfer = self.up_async(source)
        assert_same_bits(self.down(transfer.result()), source)
        return transfer.stats.path

    def test_pinned_arrays_are_ordinary_writable_arrays(self) -> None:
        for dtype in strategies.DTYPES:
            for shape in _PINNED_SHAPES:
                x = xl.pinned_zeros(shape, dtype, backend=self.backend)
                assert type(x) is np.ndarray
                assert x.dtype == dtype
                assert x.flags.c_contiguous
                assert x.flags.writeable
                assert not x.any()
                assert xl.pinned_empty_like(x, backend=self.backend).shape == x.shape
        assert xl.pinned_empty_like(self.up(np.zeros((2, 3))), "int8", backend=self.backend).dtype == np.int8

    def test_a_pinned_copy_has_the_bits_of_any_array(self) -> None:
        def check(source: HostArray) -> None:
            pinned = xl.pinned_array(source, backend=self.backend)
            assert pinned.flags.c_contiguous
            assert_same_bits(pinned, source)
            assert_same_bits(xl.pinned_array(self.up(source), backend=self.backend), source)

        self.forall(check, strategies.host_arrays(), share=0.5)

    def test_views_of_pinned_memory_count_as_pinned(self) -> None:
        self.need("pinned_memory")
        x = self.pinned(bits_of(4 * _NBYTES, np.uint8, seed=1))
        assert self.path_of(x) == "pinned"
        assert self.path_of(x[13 : 13 + _NBYTES]) == "pinned"
        assert self.path_of(x[: 8 * (_NBYTES // 8)].view(np.float64)) == "pinned"
        assert self.path_of(x[-_NBYTES:].reshape(-1, 2)) == "pinned"
        assert self.path_of(x.copy()) == "staged"

    def test_a_view_keeps_the_block_alive(self) -> None:
        pool = PinnedPool(self.raw)
        view = pool.empty((_NBYTES,), np.dtype(np.uint8))[5:6]
        assert pool.stats().in_use_nbytes >= _NBYTES
        view[:] = 1
        del view
        assert pool.stats().in_use_nbytes == 0

    def test_the_pool_counts_recycles_and_frees_blocks(self) -> None:
        pool = PinnedPool(self.raw)
        x = pool.empty((_NBYTES,), np.dtype(np.uint8))
        stats = pool.stats()
        assert _NBYTES <= stats.in_use_nbytes <= _NBYTES * 9 // 8
        assert (stats.allocations, stats.reuses, stats.total_nbytes) == (1, 0, stats.in_use_nbytes)
        del x
        assert pool.stats().free_nbytes == stats.in_use_nbytes
        x = pool.empty((_NBYTES // 4,), np.dtype(np.float32))
        again = pool.stats()
        assert (again.allocations, again.reuses, again.free_nbytes) == (1, 1, 0)
        assert again.peak_nbytes == stats.in_use_nbytes
        del x
        assert pool.trim() == stats.in_use_nbytes
        assert pool.stats().total_nbytes == 0

    def test_a_pool_at_its_limit_stages_blocks_or_raises(self) -> None:
        dtype = np.dtype(np.uint8)
        full = PinnedPool(self.raw, max_bytes=_NBYTES * 2, when_full="raise")
        kept = full.empty((_NBYTES,), dtype)
        with pytest.raises(PinnedMemoryError, match="in use"):
            full.empty((_NBYTES * 2,), dtype)
        assert full.stats().allocations == 1
        staged = PinnedPool(self.raw, max_bytes=_NBYTES, when_full="stage")
        ordinary = staged.empty((_NBYTES * 2,), dtype)
        assert staged.find(ordinary.ctypes.data) is None
        assert staged.stats().total_nbytes == 0
        waiting = PinnedPool(self.raw, max_bytes=_NBYTES * 2, when_full="block")
        other = waiting.empty((_NBYTES,), dtype)
        with pytest.raises(PinnedMemoryError, match="in use"):  # nothing in flight could ever make room
            waiting.empty((_NBYTES * 2,), dtype)
        with pytest.raises(ValueError, match="when_full"):
            PinnedPool(self.raw, when_full="pray")  # type: ignore[arg-type]
        del kept, other

    def test_a_full_pool_gives_its_free_blocks_up_for_another_size(self) -> None:
        pool = PinnedPool(self.raw, max_bytes=_NBYTES * 2, when_full="raise")
        pool.empty((_NBYTES,), np.dtype(np.uint8))
        assert pool.empty((_NBYTES + _NBYTES // 2,), np.dtype(np.uint8)).nbytes == _NBYTES + _NBYTES // 2

    def test_a_block_released_under_a_copy_is_recycled_after_it(self) -> None:
        stream = self.stream()
        pool = PinnedPool(self.raw, max_bytes=_NBYTES * 3, when_full="block")
        with replace_attribute(pinned.pools, "made", {self.raw.pinned_domain: pool}):
            arrived = []
            for number in range(8):
                source = pool.empty((_NBYTES,), np.dtype(np.uint8))
                source[:] = bits_of(_NBYTES, np.uint8, seed=number)
                arrived.append(self.up(source, stream=stream))
                del source
            stream.synchronize()
            for number, d in enumerate(arrived):
                assert_same_bits(self.down(d), bits_of(_NBYTES, np.uint8, seed=number))

    def test_many_threads_may_make_and_drop_pinned_arrays(self) -> None:
        pool = PinnedPool(self.raw)

        def work(number: int) -> None:
            for count in range(20):
                x = pool.empty((1000 + 4000 * (count % 3),), np.dtype(np.uint8))
                x.fill(number)
                assert (x == number).all()

        in_threads(work, range(8))
        assert pool.stats().in_use_nbytes == 0

    # --- in place

    def test_pin_makes_ordinary_memory_pinned_for_a_block(self) -> None:
        self.need("pinned_memory")
        x = bits_of(4 * _NBYTES, np.uint8, seed=2)
        with xl.pin(x, backend=self.backend) as pinned:
            assert pinned is x
            assert self.path_of(x) == "pinned"
            assert self.path_of(x[5:-5]) == "pinned"
            with xl.pin(x[_NBYTES : 2 * _NBYTES], backend=self.backend):
                assert self.path_of(x) == "pinned"
            assert self.path_of(x) == "pinned"
        assert self.path_of(x) == "staged"

    def test_pins_that_overlap_or_meet_send_what_spans_them(self) -> None:
        self.need("pinned_memory")
        x = bits_of(4 * _NBYTES, np.uint8, seed=3)
        first, second = xl.pin(x[: 2 * _NBYTES], backend=self.backend), xl.pin(x[_NBYTES:], backend=self.backend)
        first.__enter__()
        with second:
            assert self.path_of(x) == "pinned"
            out = np.zeros_like(x)
            with xl.pin(out[: 3 * _NBYTES], backend=self.backend), xl.pin(out[3 * _NBYTES :], backend=self.backend):
                assert_same_bits(self.down(self.up(x), out=out), x)
            first.__exit__(None, None, None)
            assert self.path_of(x[2 * _NBYTES :]) == "pinned"
        assert self.path_of(x) == "staged"

    def test_pin_may_be_entered_again(self) -> None:
        x = bits_of(_NBYTES, np.uint8, seed=4)
        pinned = xl.pin(x, backend=self.backend)
        with pinned, pinned:
            assert_same_bits(self.down(self.up(x)), x)
        with pinned:
            assert_same_bits(self.down(self.up(x)), x)

    def test_pin_takes_fortran_order_empty_and_tiny_arrays_and_anonymous_maps(self) -> None:
        mapped = np.frombuffer(mmap.mmap(-1, 1 << 16), np.uint8)
        for x in (np.ones((50, 60), order="F"), np.zeros(0), np.zeros(()), np.zeros((0, 3), order="F"), mapped):
            with xl.pin(x, backend=self.backend):
                assert_same_bits(self.down(self.up(x)), x)

    def test_pin_refuses_gaps_and_what_is_no_array(self) -> None:
        for x in (np.zeros((6, 6))[:, ::2], [1, 2]):
            with pytest.raises(LayoutError, match="contiguous"):
                xl.pin(x, backend=self.backend)  # type: ignore[arg-type]

    def test_pin_refuses_a_file_backed_map_however_it_is_seen(self) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(1 << 16))
            file.flush()
            mapped = np.memmap(file.name, np.uint8, "r+")
            plain = np.frombuffer(mmap.mmap(file.fileno(), 1 << 16), np.uint8)
            for x in (mapped, mapped[100:200], np.asarray(mapped).view(np.uint16), plain, plain[3:]):
                with pytest.raises(LayoutError, match="file-backed"):
                    xl.pin(x, backend=self.backend)
            del mapped, plain


# Conformance: the environment, fork, and the end of the interpreter, each in a process of its own.

_LIMIT_S = 300
"""A process that hangs fails; a busy machine does not."""


class Processes(Harness):
    """Calls keep their promises in other environments and processes, and at the interpreter's end."""

    def python(self, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a script that has ``DEVICE`` and the usual imports, in a fresh interpreter with the same import path."""
        preamble = f"""
            import gc, os, sys, threading, warnings
            warnings.simplefilter("ignore", DeprecationWarning)
            import numpy as np
            import xferlib as xl
            DEVICE, IS_ASYNC = {str(self.target_device)!r}, {self.is_async}
        """
        program = textwrap.dedent(preamble) + textwrap.dedent(code)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("XFERLIB_")}
        return self.run_python(program, {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environ})

    def run_python(self, program: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a script in a fresh interpreter with this environment alone."""
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=_LIMIT_S, check=False)

    def passes(self, code: str, **environ: str) -> str:
        """The output of a script, which must succeed without a warning."""
        done = self.python(code, **environ)
        assert done.returncode == 0, done.stderr
        assert not done.stderr.strip(), done.stderr
        return done.stdout.strip()

    def test_the_environment_names_the_default(self) -> None:
        def check(_: None) -> None:
            assert xl.get_backend().name == self.backend
            assert xl.device_of(xl.zeros(2)) is self.target_device
            xl.use_backend("numpy")
            assert xl.get_backend().name == "numpy"

        for environ in (
            {"XFERLIB_BACKEND": self.backend, "XFERLIB_DEVICE": self._spec()},
            {"XFERLIB_DEVICE": str(self.target_device)},
        ):
            with configured(environ):
                in_threads(check, [None])  # the default device counts at the first use by a thread

    def _spec(self) -> str:
        device = self.target_device
        return device.kind if device.kind == "cpu" else f"{device.kind}:{device.index}"

    def test_an_environment_that_cannot_be_met_is_an_error_that_names_it(self) -> None:
        for environ, words in (
            ({"XFERLIB_BACKEND": "abacus"}, "XFERLIB_BACKEND='abacus'.*registered"),
            ({"XFERLIB_BACKEND": self.backend, "XFERLIB_DEVICE": "cuda:99"}, "XFERLIB_DEVICE='cuda:99'"),
            ({"XFERLIB_PINNED_LIMIT": "lots"}, "XFERLIB_PINNED_LIMIT='lots'"),
        ):
            refused = pytest.raises((BackendNotFoundError, ConfigError, DeviceNotFoundError), match=words)
            with refused, configured(environ):
                in_threads(lambda _: xl.zeros(2), [None])  # the default device counts at the first use by a thread

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
    def test_a_forked_child_gets_an_error_or_works_and_destroys_nothing_of_its_parent(self) -> None:
        self.need("fork")
        self.passes(
            """
            import itertools
            def in_child(is_wrong):
                child = os.fork()
                if not child:
                    status = is_wrong()
                    gc.collect()
                    sys.stderr.flush()
                    os._exit(status)  # as multiprocessing ends its children
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

            def fails(name, call, expected):
                try:
                    found = call()
                    is_wrong = IS_ASYNC or name.startswith("to_") and not (found == expected).all()
                    said = "did not raise ForkError"
                except BaseException as error:
                    said = repr(error)
                    is_wrong = not IS_ASYNC or not isinstance(error, xl.errors.ForkError) or "fork" not in said
                if is_wrong:
                    print(name, said, file=sys.stderr)
                return is_wrong

            # --- calls
            xl.Device(DEVICE).use()  # a call that names no device means this one, in the child as well
            x = np.arange(3 << 18).reshape(-1, 3)[:, ::2]
            d = xl.to_device(x, device=DEVICE)
            pinned = xl.pinned_array(x, backend=xl.Device(DEVICE).backend)
            stream, event = xl.Stream(DEVICE), xl.Event()
            stream.record(event)
            assert (xl.to_host(d) == x).all()
            calls = {
                "to_device": lambda: xl.to_host(xl.to_device(x, device=DEVICE)),
                "to_device(pinned)": lambda: xl.to_host(xl.to_device(pinned, device=DEVICE)),
                "to_host": lambda: xl.to_host(d),
                "to_host_async": lambda: xl.to_host_async(d).result(),
                "synchronize": lambda: stream.synchronize(),
                "record": lambda: stream.record(),
                "event": lambda: event.synchronize(),
                "pinned_empty": lambda: xl.pinned_empty(5, backend=xl.Device(DEVICE).backend),
                "Stream": lambda: xl.Stream(DEVICE),
            }

            def call_all():
                global d, pinned, stream, event, calls
                status = any([fails(name, call, x) for name, call in calls.items()])
                assert (xl.to_host(xl.to_device(x, backend="numpy")) == x).all()
                del d, pinned, stream, event, calls
                return status

            in_child(call_all)
            assert (xl.to_host(d) == x).all() and (pinned == x).all()

            # --- transfers in flight
            sources = [np.arange(n, dtype=np.float32)[::step] for n in (9, 3 << 14, 1 << 20) for step in (1, 2)]
            sources += [*sources, *sources]
            given = [xl.pinned_array(x, backend=xl.Device(DEVICE).backend) for x in sources[:6]]
            arrays = [xl.to_device(x, device=DEVICE) for x in sources[:6]]
            begun = [xl.to_device_async(x, device=DEVICE) for x in (*sources[:6], *given)]
            begun += [xl.to_host_async(d) for d in arrays]

            def poll_all():
                global begun, arrays, given
                status = 0
                for transfer, x in zip(begun, sources):
                    for call in (transfer.done, transfer.result, lambda: transfer.result(timeout=1)):
                        try:
                            found = call()
                        except xl.errors.ForkError as error:
                            status = status or not IS_ASYNC or "fork" not in str(error)
                        else:  # it was complete
                            is_right = found is True or (xl.to_host(found) == x).all()
                            status = status or not is_right or (IS_ASYNC and transfer.is_upload and found is not True)
                    assert "Transfer of" in repr(transfer) and transfer.stats.nbytes >= 0
                del transfer, begun, arrays, given
                return status

            in_child(poll_all)
            for transfer, x in zip(begun, sources):
                assert (xl.to_host(transfer.result()) == x).all()

            # --- prefetchers
            prefetchers = [
                xl.prefetch((np.full(3 << 18, number) for number in itertools.count()), device=DEVICE),
                *(xl.prefetch([np.full(n, number) for number in range(9)], device=DEVICE) for n in (3 << 14, 3 << 18)),
            ]
            for prefetcher in prefetchers:
                assert (xl.to_host(next(prefetcher)) == 0).all()

            def go_on():
                global prefetchers
                status = 0
                for prefetcher in prefetchers:
                    try:
                        next(prefetcher)
                        status = 1
                    except xl.errors.ForkError as error:
                        status = status or "fork" not in str(error)
                    prefetcher.close()
                del prefetcher, prefetchers
                return status

            in_child(go_on)
            for prefetcher in prefetchers:
                assert (xl.to_host(next(prefetcher)) == 1).all()
                prefetcher.close()

            # --- streams that are no longer referenced, and memory that their copies used
            for _ in range(3):
                with xl.Stream(DEVICE) as stream:
                    xl.to_host(xl.to_device(np.arange(9.0)))
                    xl.to_device_async(np.arange(1 << 20)).result()
            with xl.prefetch(np.arange(9.0) + k for k in range(3)) as batches:
                kept = [xl.to_host(each) for each in batches]
            del stream, batches
            in_child(int)
            assert (xl.to_host(xl.to_device(kept[2])) == kept[2]).all()
            """
        )

    def test_the_interpreter_may_end_with_work_in_flight_and_in_the_middle_of_a_loop(self) -> None:
        said = self.passes(
            """
            import itertools
            kept = []
            source = np.ones((2000, 999), np.float32)[:, ::2]
            for number in range(12):
                kept.append(xl.to_device_async(source, device=DEVICE))
                kept.append(xl.to_host_async(kept[-1].result() if number % 2 else xl.zeros(300_000, device=DEVICE)))
            pinned = xl.pinned_zeros(300_000, backend=xl.Device(DEVICE).backend)
            lists = [[np.ones(size)] * 9 for size in (1000, 3 << 14, 3 << 18)]
            endless = (np.full(3 << 18, number) for number in itertools.count())
            kept += [xl.prefetch(batches, device=DEVICE) for batches in (endless, *lists)]
            batches = [next(each) for each in kept[-4:] for _ in range(3)]
            begun = threading.Event()
            def forever(chunk):
                begun.set()
                threading.Event().wait()
            mapping = lambda: xl.stream_map(forever, np.ones((100, 3000)), chunk_rows=7, devices=DEVICE)
            threading.Thread(target=mapping, daemon=True).start()
            begun.wait()
            stream = xl.Stream(DEVICE)
            stream.__enter__()
            kept.append(xl.to_device(pinned, device=DEVICE, stream=stream))
            kept.append(xl.pin(np.zeros(300_000), backend=xl.Device(DEVICE).backend))
            kept[-1].__enter__()
            threading.Thread(target=lambda: xl.to_host(xl.to_device(source, device=DEVICE))).start()
            print("ends")
            """
        )
        assert said == "ends"


# Conformance: `prefetch` and `stream_map`, which overlap copies with the device's work.

_SIZES = (0, 100, 70 << 10, 300 << 10, 1200 << 10, 2500 << 10, 5 << 20)
"""Bytes of a batch, one for each route that it can take."""


class _FailureError(Exception):
    """The error with which our own sources fail."""


class Overlapping(Harness):
    """Batches keep order, contents and the position of errors; none is lost, and no thread is left running."""

    def test_prefetched_batches_are_those_of_the_source(self) -> None:
        def check(sizes: list[int], depth: int, is_read_ahead: bool, is_kept: bool, is_pinned: bool) -> None:
            items = [bits_of(nbytes, np.uint8, seed=number) for number, nbytes in enumerate(sizes)]
            given = [self.pinned(item) for item in items] if is_pinned else items
            batches = xl.prefetch(iter(given) if is_read_ahead else given, depth=depth, device=self.target_device)
            found = list(batches) if is_kept else [self.down(batch) for batch in batches]
            for item, batch in zip(items, found, strict=True):
                assert_same_bits(self.down(batch) if is_kept else batch, item)

        sizes = st.lists(st.sampled_from(_SIZES), max_size=6)
        flags = (st.booleans(), st.booleans(), st.booleans())
        self.forall(check, sizes, st.integers(1, 3), *flags, share=0.5)

    def test_a_source_may_fill_the_same_memory_for_every_batch(self) -> None:
        for nbytes, is_pinned in itertools.product(_SIZES[1:], (False, True)):
            expected = [bits_of(nbytes, np.uint8, seed=number) for number in range(5)]
            source = self._refill(expected, is_pinned=is_pinned)
            for item, batch in zip(expected, xl.prefetch(source, device=self.target_device), strict=True):
                assert_same_bits(self.down(batch), item)

    def _refill(self, items: list[HostArray], *, is_pinned: bool) -> Iterator[HostArray]:
        memory = self.pinned(items[0]) if is_pinned else items[0].copy()
        for item in items:
            memory[...] = item
            yield memory
            scribble(memory)

    def test_a_prefetched_batch_stays_what_it_is_when_its_source_and_its_neighbours_go(self) -> None:
        for nbytes in (300 << 10, 2500 << 10):
            items = [bits_of(nbytes, np.uint8, seed=number) for number in range(8)]
            given = [item.copy() for item in items]
            kept = [
                batch for number, batch in enumerate(xl.prefetch(given, device=self.target_device)) if number % 3 == 0
            ]
            for item in given:
                scribble(item)
            again = [self.up(item) for item in items]  # recycles any memory that was freed
            for item, batch in zip(items[::3], kept, strict=True):
                assert_same_bits(self.down(batch), item)
            del again

    def test_prefetched_batches_are_ordered_on_the_stream_that_is_current(self) -> None:
        medium, large = ([bits_of(n << 10, np.uint8, seed=number) for number in range(8)] for n in (300, 2500))
        for items, source in ((medium, medium), (large, large), (large, iter(large))):
            batches, copies = xl.prefetch(source, device=self.target_device), []
            for _ in items:
                stream = self.stream()
                with stream:
                    copies.append((stream, self.up(next(batches))))  # the batch goes before its copy is made
            for item, (stream, copied) in zip(items, copies, strict=True):
                assert_same_bits(self.down(copied, stream=stream), item)

    def test_trees_keep_their_structure(self) -> None:
        items: list[dict[str, Any]] = [
            {"x": bits_of(70 << 10, np.uint8, seed=n), "t": (np.arange(n), n, None)} for n in range(5)
        ]
        for source in (items, iter(items)):
            for item, batch in zip(items, xl.prefetch(source, device=self.target_device), strict=True):
                assert_same_bits(self.down(batch["x"]), item["x"])
                assert_same_bits(self.down(batch["t"][0]), item["t"][0])
                assert batch["t"][1:] == item["t"][1:]

    def test_a_transform_runs_on_the_device(self) -> None:
        items = [bits_of(nbytes, np.uint8, seed=number) for number, nbytes in enumerate(_SIZES)]

        def copied(batch: Any) -> Any:
            assert xl.device_of(batch) is self.target_device
            return self.up(batch), batch

        for source in (items, iter(items)):
            batches = xl.prefetch(source, device=self.target_device, transform=copied)
            for item, (copy, batch) in zip(items, batches, strict=True):
                assert_same_bits(self.down(copy), item)
                assert_same_bits(self.down(batch), item)

    def test_an_error_comes_after_every_batch_before_it_and_again(self) -> None:
        def fails(items: list[HostArray]) -> Iterator[HostArray]:
            yield from items
            raise _FailureError

        for count, nbytes in itertools.product((0, 1, 4), (70 << 10, 300 << 10)):
            items = [bits_of(nbytes, np.uint8, seed=number) for number in range(count)]
            wrong = [*items, np.array([{}])]
            for source, error in ((fails(items), _FailureError), (wrong, UnsupportedDTypeError)):
                batches = xl.prefetch(source, device=self.target_device)
                for item in items:
                    assert_same_bits(self.down(next(batches)), item)
                for _ in range(2):
                    with pytest.raises(error):
                        next(batches)

    def test_an_endless_source_ends_with_its_prefetcher(self) -> None:
        ended = threading.Event()

        def source() -> Iterator[HostArray]:
            try:
                while True:
                    yield bits_of(70 << 10, np.uint8, seed=1)
            finally:
                ended.set()

        with xl.prefetch(source(), device=self.target_device) as batches:
            for _ in range(4):
                assert_same_bits(self.down(next(batches)), bits_of(70 << 10, np.uint8, seed=1))
        assert ended.wait(60.0)

    # --- stream_map

    def test_mapped_rows_come_back_in_their_places(self) -> None:
        def check(rows: int, chunk_rows: int, depth: int, width: int) -> None:
            source = bits_of(rows * width, np.uint8, seed=rows).reshape(rows, width)
            found = xl.stream_map(self.up, source, chunk_rows=chunk_rows, devices=self.target_device, depth=depth)
            if rows:
                assert_same_bits(found, source)
            out = np.zeros_like(source)
            xl.stream_map(lambda chunk: chunk, source, chunk_rows=chunk_rows, out=out, devices=[self.target_device])
            assert_same_bits(out, source)

        self.forall(
            check,
            st.integers(0, 40),
            st.integers(1, 15),
            st.integers(1, 4),
            st.sampled_from((1, 999, 50_000)),
            share=0.3,
        )

    def test_large_chunks_are_mapped_from_and_into_any_memory(self) -> None:
        source = bits_of(12 << 20, np.uint8, seed=3).reshape(12, -1)
        for given in (source, self.pinned(source), np.asfortranarray(source)):
            for out in (np.zeros_like(source), self.pinned(np.zeros_like(source)), None):
                found = xl.stream_map(lambda chunk: chunk, given, chunk_rows=5, out=out, devices=self.target_device)
                assert_same_bits(found, source)

    def test_reduction_is_in_the_order_of_the_chunks_on_any_number_of_devices(self) -> None:
        source = np.arange(300, dtype=np.int64).reshape(100, 3)
        here = [each for each in self.raw.devices() if each.kind == self.target_device.kind]
        for devices in ([self.target_device], here):
            found = xl.stream_map(
                lambda chunk: chunk, source, chunk_rows=7, devices=devices, reduce=lambda a, b: np.concatenate([a, b])
            )
            assert_same_bits(found, source)

    def test_a_map_that_fails_says_how_far_it_came_and_goes_on_from_there(self) -> None:
        source = bits_of(100 * 3000, np.uint8, seed=4).reshape(100, 3000)
        for fails_at in (0, 1, 5):
            numbers = itertools.count()

            def sometimes(chunk: Any, numbers: Any = numbers, fails_at: int = fails_at) -> Any:
                if next(numbers) == fails_at:
                    raise KeyboardInterrupt
                return chunk

            with pytest.raises(KeyboardInterrupt) as stopped:
                xl.stream_map(sometimes, source, chunk_rows=9, devices=self.target_device)
            error: Any = stopped.value
            assert error.rows_complete == 9 * fails_at
            rest = {"start": error.rows_complete, "out": error.out}
            assert_same_bits(xl.stream_map(sometimes, source, chunk_rows=9, devices=self.target_device, **rest), source)


# Conformance: streams, events, and the order that they give to copies.

_ARRAYS, _STREAMS, _LENGTH = 4, 3, 96 << 10

_OPERATION = st.tuples(
    st.sampled_from(["upload", "copy", "download"]),
    st.integers(0, _ARRAYS - 1),
    st.integers(0, _ARRAYS - 1),
    st.integers(0, _STREAMS - 1),
    st.sampled_from(["event", "stream", "transfer"]),
)


class _Program:
    """Operations on device arrays over several streams, each waiting for exactly what it depends on."""

    def __init__(self, suite: Harness) -> None:
        self.suite = suite
        self.host = [bits_of(_LENGTH, np.uint8, seed=i) for i in range(_ARRAYS)]
        self.device = [suite.up(x) for x in self.host]
        self.streams = [suite.stream() for _ in range(_STREAMS)]
        self.last: list[list[tuple[int, Any]]] = [[] for _ in range(_ARRAYS)]
        self.downloads: list[tuple[xl.Transfer, Any]] = []
        suite.synchronize()

    def run(self, kind: str, one: int, two: int, stream: int, how: str) -> None:
        if kind == "copy" and one == two:
            return
        used = {one, two} if kind == "copy" else {one}
        order = self.streams[stream]
        for array in used:
            for other, awaited in self.last[array]:
                if other != stream or isinstance(awaited, xl.Transfer):
                    order.wait(awaited)
        awaited = getattr(self, kind)(one, two, order)
        if how == "event" or awaited is None:
            awaited = order.record(xl.Event(timing=False))
        elif how == "stream":
            order.synchronize()  # which covers the transfer, so that waiting for the stream does too
            awaited = order
        for array in used:
            self.last[array].append((stream, awaited))

    def upload(self, one: int, two: int, order: xl.Stream) -> xl.Transfer:
        source = bits_of(_LENGTH, np.uint8, seed=1000 + len(self.last[one]) * _ARRAYS + one)
        self.host[one] = source.copy()
        is_pinned = two % 2
        return self.suite.up_async(
            self.suite.pinned(source) if is_pinned else source, out=self.device[one], stream=order
        )

    def copy(self, one: int, two: int, order: xl.Stream) -> None:
        # A copy between arrays follows the source library's current stream, so that is the one to give it.
        with order:
            self.suite.up(self.device[one], out=self.device[two], stream=order)
        self.host[two] = self.host[one].copy()

    def download(self, one: int, two: int, order: xl.Stream) -> xl.Transfer:
        transfer = xl.to_host_async(self.device[one], stream=order)
        self.downloads.append((transfer, self.host[one].copy()))
        return transfer

    def check(self) -> None:
        for transfer, expected in self.downloads:
            assert_same_bits(transfer.result(), expected)
        for stream in self.streams:
            stream.synchronize()
        for d, expected in zip(self.device, self.host, strict=True):
            assert_same_bits(self.suite.down(d), expected)


class Ordering(Harness):
    """Record, wait and synchronise, on our own streams, the current one, and other libraries'."""

    def test_random_programs_over_three_streams_give_what_one_thread_gives(self) -> None:
        self.need("in_place")

        def check(operations: list[Any]) -> None:
            program = _Program(self)
            for operation in operations:
                program.run(*operation)
            program.check()

        self.forall(check, st.lists(_OPERATION, max_size=14))

    @pytest.mark.parametrize("is_named", [False, True])
    def test_new_arrays_of_alternating_streams_hold_their_uploads(self, is_named: bool) -> None:
        """Memory is given back and taken again, with the arrays and with what is put in order between them."""
        streams = [self.stream() for _ in range(2)]
        kept: list[tuple[Any, Any]] = []
        for number in range(16):
            stream = streams[number % 2]
            x = bits_of(300 * 400, np.uint8, seed=number).reshape(300, 400)
            sent: list[tuple[Any, Any]] = [(x, x.dtype), (x.T, x.dtype), (x[::2].T, x.dtype), (x, np.dtype("float32"))]
            expected = [each.astype(dtype) for each, dtype in sent]
            options: Any = {"stream": stream} if is_named else {}
            with contextlib.nullcontext() if is_named else stream:
                made = [self.up(each, dtype=dtype, **options) for each, dtype in sent]
            scribble(x)
            if number % 3:  # the others die at once
                kept += zip(made, expected, strict=True)
        self.synchronize()
        for d, wanted in kept:
            assert_same_bits(self.down(d), wanted)

    @pytest.mark.parametrize("is_pinned", [False, True])
    def test_a_source_may_be_overwritten_on_return_and_a_pinned_one_after_its_stream(self, is_pinned: bool) -> None:
        stream = self.stream()
        for nbytes in (100, 200 << 10, 3 << 20):
            source = bits_of(nbytes, np.uint8, seed=5)
            given = self.pinned(source) if is_pinned else source.copy()
            d = self.up(given, stream=stream)
            if is_pinned:
                stream.record().synchronize()
            scribble(given)
            stream.synchronize()
            assert_same_bits(self.down(d), source)

    def test_to_host_follows_the_work_on_its_stream(self) -> None:
        self.need("in_place")
        stream = self.stream()
        for nbytes in (100, 200 << 10, 3 << 20):
            d = self.up(np.zeros(nbytes, np.uint8))
            self.synchronize()
            source = self.pinned(bits_of(nbytes, np.uint8, seed=7))
            self.up(source, out=d, stream=stream)
            assert_same_bits(self.down(d, stream=stream), source)

    def test_an_event_is_done_once_its_stream_has_been_synchronised(self) -> None:
        stream = self.stream()
        self.up(self.pinned(bits_of(1 << 20, np.uint8, seed=8)), stream=stream)
        event = stream.record()
        stream.synchronize()
        assert event.is_done
        assert stream.is_done

    def test_a_stream_is_done_no_sooner_than_its_events(self) -> None:
        stream = self.stream()
        source = self.pinned(bits_of(1 << 20, np.uint8, seed=13))
        for _ in range(20):
            self.up(source, stream=stream)
            event = stream.record()
            assert not stream.is_done or event.is_done
        stream.synchronize()

    def test_an_event_is_recorded_again_in_place(self) -> None:
        stream = self.stream()
        event = stream.record()
        assert stream.record(event) is event
        event.synchronize()
        assert event.is_done

    def test_an_event_never_recorded_is_done_and_waiting_for_it_does_nothing(self) -> None:
        event = xl.Event()
        assert event.is_done
        event.synchronize()
        self.stream().wait(event)

    def test_elapsed_ms_is_positive_and_needs_two_timed_recorded_events(self) -> None:
        stream = self.stream()
        start = stream.record()
        self.up(bits_of(1 << 20, np.uint8, seed=9), stream=stream)
        end = stream.record()
        assert end.elapsed_ms(start) > 0
        with pytest.raises(StreamError, match="timing=True"):
            end.elapsed_ms(xl.Event())
        with pytest.raises(StreamError, match="timing=True"):
            stream.record(xl.Event(timing=False)).elapsed_ms(start)

    def test_a_host_function_runs_behind_the_work_before_it_and_ahead_of_the_work_behind_it(self) -> None:
        stream, other = self.stream(), self.stream()
        source = self.pinned(bits_of(1 << 20, np.uint8, seed=14))
        seen: list[Any] = []
        self.up(source, stream=stream)
        before = stream.record()
        stream.call(seen.append, 1)
        stream.call(seen.append, 2)
        other.wait(stream.record(xl.Event(timing=False, blocking=True)))
        other.call(seen.append, 3)
        other.synchronize()
        assert before.is_done
        assert seen == [1, 2, 3]

    # --- the current stream

    def test_with_makes_a_stream_current_nests_and_restores_after_errors(self) -> None:
        before = xl.current_stream(self.target_device)
        one, two = self.stream(), self.stream()
        with one:
            assert xl.current_stream(self.target_device) == one
            with two, one, one:
                assert xl.current_stream(self.target_device) == one
            assert xl.current_stream(self.target_device) == one
            with pytest.raises(KeyError), two:
                raise KeyError
            assert xl.current_stream(self.target_device) == one
        assert xl.current_stream(self.target_device) == before

    def test_a_stream_stays_current_once_it_is_used(self) -> None:
        before, stream = xl.current_stream(self.target_device), self.stream()
        try:
            assert stream.use() == xl.current_stream(self.target_device) == stream
        finally:
            before.use()
        assert xl.current_stream(self.target_device) == before

    def test_the_current_stream_carries_calls_without_a_stream(self) -> None:
        stream = self.stream()
        source = bits_of(300 << 10, np.uint8, seed=10)
        with stream:
            d = self.up(self.pinned(source))
            copied = self.up(d)
        stream.synchronize()
        assert_same_bits(self.down(copied), source)

    def test_the_librarys_own_operations_follow_the_current_stream(self) -> None:
        self.need("native_current_stream")
        self.need("namespace")
        xp = self.raw.namespace()
        stream = self.stream()
        source = np.arange(200_000, dtype=np.int32)
        with stream:
            d = self.up(self.pinned(source))
            total = xp.add(d, d)
            host = self.down(total)
        assert_same_bits(host, source + source)

    def test_the_current_stream_is_each_threads_own(self) -> None:
        self.need("streams")
        seen: dict[str, Any] = {}
        barrier = threading.Barrier(2)

        def work(name: str) -> None:
            stream = self.stream()
            with stream:
                barrier.wait()
                seen[name] = xl.current_stream(self.target_device) == stream
                barrier.wait()

        in_threads(work, ("one", "two"))
        assert seen == {"one": True, "two": True}

    def test_one_stream_is_current_in_two_threads_at_once(self) -> None:
        stream, before = self.stream(), xl.current_stream(self.target_device)
        barrier = threading.Barrier(2)
        wrong: list[Any] = []

        def work() -> None:
            mine = xl.current_stream(self.target_device)
            with stream:
                barrier.wait()
                if xl.current_stream(self.target_device) != stream:
                    wrong.append("inside")
                barrier.wait()
            if xl.current_stream(self.target_device) != mine:
                wrong.append("after")

        thread = threading.Thread(target=work)
        thread.start()
        work()
        thread.join()
        assert not wrong
        assert xl.current_stream(self.target_device) == before

    # --- from elsewhere

    def test_streams_are_adopted_by_protocol_and_by_address(self) -> None:
        stream = self.stream()
        assert xl.Stream.from_any(stream) is stream
        if not self.raw.capabilities.streams:
            with pytest.raises(StreamError, match="cannot be used"):
                xl.Stream.from_any(1234, self.target_device)
            return
        version, handle = stream.__cuda_stream__()
        assert version == 0
        for given in (handle, _Foreign(handle)):
            adopted = xl.Stream.from_any(given, self.target_device)
            assert adopted == stream
            assert hash(adopted) == hash(stream)
            source = bits_of(200 << 10, np.uint8, seed=11)
            d = self.up(source, stream=given)
            adopted.synchronize()
            assert_same_bits(self.down(d), source)

    def test_an_adopted_stream_can_be_current(self) -> None:
        self.need("foreign_streams")
        stream = self.stream()
        with xl.Stream.from_any(_Foreign(stream.handle), self.target_device):
            assert xl.current_stream(self.target_device) == stream

    def test_what_is_no_stream_is_refused(self) -> None:
        with pytest.raises(StreamError, match="not a stream"):
            self.stream().wait("tomorrow")
        with pytest.raises(StreamError, match="not a stream"):
            self.up(np.zeros(3), stream="fast")

    def test_a_stream_of_another_device_is_refused_before_anything_is_copied(self) -> None:
        stream, out = xl.Stream(self._another_device()), self.up(np.zeros(3))
        with pytest.raises(StreamError, match="the stream is of"):
            self.up(np.ones(3), out=out, stream=stream)
        with pytest.raises(StreamError, match="the stream is of"):
            self.down(out, stream=stream)
        assert_same_bits(self.down(out), np.zeros(3))

    def _another_device(self) -> xl.Device:
        here = [each for each in registry.get(self.backend).devices() if each is not self.target_device]
        if not here and self.backend == "numpy":
            pytest.skip("numpy has one device, and no other backend is needed to run this suite")
        return here[0] if here else xl.Device("numpy:cpu")

    def test_priorities_are_accepted_or_ignored(self) -> None:
        stream = xl.Stream(self.target_device, priority=-1)
        source = bits_of(100 << 10, np.uint8, seed=12)
        assert_same_bits(self.down(self.up(source, stream=stream), stream=stream), source)


class _Foreign:
    """Another library's stream, by the protocol."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)


# Conformance: traces of copies, kernels and the program's own work.

_RESOLUTION_S = 1e-6
"""Events tell milliseconds in single precision, in steps of half a microsecond."""
_DEVICE = ("h2d", "d2h", "d2d", "peer", "kernel")
_PATHS = (None, "small", "staged")


def _line() -> int:
    return sys._getframe(1).f_lineno


class Tracing(Harness):
    """`xferlib.trace` records every operation once, with its bytes, its line and consistent times."""

    @contextmanager
    def trace_block(self) -> Iterator[xl.trace]:
        """Trace a block, with no copy in flight at its beginning and end."""
        streams.settle_all()  # a trace sees all threads, and with them what earlier tests have left behind
        with xl.trace() as t:
            yield t
            self.synchronize()

    def sum_bytes(self, t: xl.trace, kind: str, line: int) -> int:
        """Sum the bytes of all operations of a kind that one line of this file requested."""
        found = [each for each in t.operations if each.kind == kind and each.line == line]
        assert all(each.file == __file__ for each in found)
        return sum(each.nbytes for each in found)

    def test_every_copy_appears_once_with_its_bytes_and_its_line(self) -> None:
        def check(nbytes: int, path: str | None, is_async: bool) -> None:
            x = bits_of(nbytes, np.uint8, seed=nbytes)
            with forced(path, chunk_nbytes=64 << 10), self.trace_block() as t:
                if is_async:
                    d, up = xl.to_device_async(x, device=self.target_device).result(), _line()
                    h, down = xl.to_host_async(d).result(), _line()
                else:
                    d, up = xl.to_device(x, device=self.target_device), _line()
                    h, down = xl.to_host(d), _line()
            assert_same_bits(h, x)
            assert self.sum_bytes(t, "h2d", up) == self.sum_bytes(t, "d2h", down) == nbytes
            assert t.nbytes["h2d"] == t.nbytes["d2h"] == nbytes
            if self.backend != "sim":  # which shows every piece
                assert [each.kind for each in t.operations if each.kind in _DEVICE] == ["h2d", "d2h"]

        sizes = st.sampled_from([1, 1000, 64 << 10, 65 << 10, 600_000, 3 << 20])
        self.forall(check, sizes, st.sampled_from(_PATHS), st.booleans(), share=0.5)

    def test_copies_from_pinned_memory_appear(self) -> None:
        self.need("pinned_memory")
        x = self.pinned(bits_of(200_000, np.uint8, seed=0))
        with self.trace_block() as t:
            stream = self.stream()
            d, line = xl.to_device(x, device=self.target_device, stream=stream), _line()
        assert self.sum_bytes(t, "h2d", line) == x.nbytes
        del d

    def test_operations_on_one_stream_do_not_overlap(self) -> None:
        stream = self.stream()
        x = bits_of(2 << 20, np.uint8, seed=0)
        with self.trace_block() as t:
            for path in ("staged", "small", "staged"):
                with forced(path, chunk_nbytes=64 << 10):
                    d = self.up(x[: 2 << 20 if path == "staged" else 64 << 10], stream=stream)
                    xl.to_device(d, device=self.target_device, stream=stream)
                    xl.to_host(d, stream=stream)
        self.check_apart(t, 3 * 3)

    def test_operations_that_threads_enqueue_on_one_stream_do_not_overlap(self) -> None:
        """No thread's operation comes between another's and the events around it."""
        stream = self.stream()
        x = bits_of(16 << 10, np.uint8, seed=0)

        def send(_: int) -> None:
            for _ in range(20):
                with forced("small"):
                    xl.to_host(self.up(x, stream=stream), stream=stream)

        with self.trace_block() as t:
            in_threads(send, range(4))
        self.check_apart(t, 4 * 20 * 2)

    def check_apart(self, t: xl.trace, least: int) -> None:
        found = sorted((each.start_s, each.end_s) for each in t.operations if each.kind in _DEVICE)
        assert len(found) >= least
        assert all(start <= end + _RESOLUTION_S for start, end in found)
        if self.is_async:  # else every thread does its own, at the same time
            assert all(two[0] >= one[1] - _RESOLUTION_S for one, two in itertools.pairwise(found))

    def test_a_device_begins_nothing_before_it_was_asked_to(self) -> None:
        with self.trace_block() as t:
            for _ in range(5):
                self.down(self.up(bits_of(300_000, np.uint8, seed=0)))
        slack_s = t.clock_error_s + _RESOLUTION_S
        assert 0 <= t.clock_error_s < 0.1
        for each in t.operations:
            assert -slack_s <= each.host_start_s <= each.start_s + slack_s
            assert each.start_s <= each.end_s + _RESOLUTION_S
            assert each.host_start_s <= each.host_end_s
            assert each.is_timed

    def test_a_kernel_appears_with_its_name_and_the_bytes_of_its_arrays(self) -> None:
        if self.target_device.kind not in ("cpu", "cuda") and self.backend != "sim":
            pytest.skip(f"{self.target_device}: its kernels are not made by xferlib")
        double = xl.elementwise("T x", "T y", "y = x + x", name="double_of_it")
        d = self.up(np.ones(1000, np.float32))
        double(d)
        with self.trace_block() as t:
            e, line = double(d), _line()
        found = [each for each in t.operations if each.kind == "kernel" and each.name == "double_of_it"]
        assert [(each.nbytes, each.line) for each in found] == [(8000, line)]
        assert self.down(e)[0] == 2.0

    def test_a_range_lasts_as_long_as_what_is_in_it(self) -> None:
        d = self.up(bits_of(1 << 20, np.uint8, seed=0))
        with self.trace_block() as t, t.range("copying", device=self.target_device):
            xl.to_device(d, device=self.target_device)
        (block,) = [each for each in t.operations if each.kind == "range"]
        inside = [each for each in t.operations if each.kind in _DEVICE]
        assert block.name == "copying"
        assert inside
        assert all(block.start_s <= each.start_s + _RESOLUTION_S for each in inside)
        assert all(each.end_s <= block.end_s + _RESOLUTION_S for each in inside)

    def test_the_ranges_of_a_copy_by_another_library_count_as_copies(self) -> None:
        with self.trace_block() as t, xl.trace.range("own", kind="h2d", nbytes=4096, device=self.target_device):
            pass
        assert t.nbytes["h2d"] == 4096

    def test_a_trace_within_a_trace_gets_its_own_part(self) -> None:
        x = bits_of(1000, np.uint8, seed=0)
        with self.trace_block() as outer:
            self.up(x)
            with self.trace_block() as inner:
                self.up(x)
            self.up(x)
        assert (inner.nbytes["h2d"], outer.nbytes["h2d"]) == (1000, 3000)

    def test_nothing_is_recorded_when_no_trace_is_open(self) -> None:
        with self.trace_block() as t:
            self.up(bits_of(1000, np.uint8, seed=0))
        self.up(bits_of(1000, np.uint8, seed=0))
        self.synchronize()
        assert observe.active is None
        assert t.nbytes["h2d"] == 1000

    def test_an_exception_leaves_what_was_recorded_before_it(self) -> None:
        streams.settle_all()
        t = xl.trace()

        def stop() -> None:
            with t:
                self.up(bits_of(1000, np.uint8, seed=0))
                raise InterruptedError

        with pytest.raises(InterruptedError):
            stop()
        assert t.nbytes["h2d"] == 1000
        assert observe.active is None

    def test_more_operations_than_there_are_events(self) -> None:
        """Events are recycled; the times that they gave are not lost."""
        self.need("in_place")
        d = self.up(np.zeros(16, np.uint8))
        x: Any = np.zeros(16, np.uint8)
        with self.trace_block() as t:
            for value in range(1500):
                x[:] = value % 251
                self.up(x, out=d)
        assert t.nbytes["h2d"] == 1500 * 16
        times = [each.start_s for each in t.operations if each.kind == "h2d"]
        assert times == sorted(times)
        assert self.down(d)[0] == 1499 % 251


# Conformance: asynchronous transfers, and the lifetimes of the memory that they use.

_PATH_NAMES = {"empty", "small", "pinned", "staged", "permuted", "device", "host"}
_TRANSFER_SIZES = (0, 1, 5000, 100 << 10, 700 << 10, 5 << 20)


class Transfers(Harness):
    """`to_device_async`, `to_host_async` and `Transfer`."""

    def test_every_layout_survives_the_asynchronous_round_trip(self) -> None:
        def check(source: HostArray, path: Any, chunk: Any, is_pinned: bool) -> None:
            given = self.pinned(source) if is_pinned else source
            with forced(path, chunk_nbytes=chunk):
                up = self.up_async(given)
                down = xl.to_host_async(up.result())
                assert_same_bits(down.result(), source)

        chunks = st.sampled_from([None, TINY_CHUNK])
        self.forall(check, strategies.host_arrays(), st.sampled_from(PATHS), chunks, st.booleans())

    def test_asynchronous_copies_fill_out_of_any_strides(self) -> None:
        self.need("strided")

        def check(data: Any, steps: strategies.Steps, dtype: np.dtype[Any], path: Any) -> None:
            expected = np.zeros(steps.parent, dtype)
            d = self.up(expected)
            view = steps.of(d)
            source = data.draw(strategies.host_arrays(dtype=dtype, shape=self.shape_of(view)))
            layout = data.draw(strategies.destinations(dtype, source.shape))
            out = layout.over(np.zeros(layout.nbytes, np.uint8))
            with forced(path):
                assert self.up_async(source, out=view).result() is view
                assert xl.to_host_async(view, out=out).result() is out
            assert_same_bits(out, source)
            _assign(steps.of(expected), source)
            assert_same_bits(self.down(d), expected)

        views = strategies.views(negative=self.negative_steps)
        self.forall(check, st.data(), views, strategies.dtypes(), st.sampled_from(PATHS))

    def test_dtype_converts_on_the_way(self) -> None:
        source = np.array([1.9, -1.9, 3e9, np.nan], np.float64)
        expected = np.array([1, -1, 2**31 - 1, 0], np.int32)
        for path in PATHS:
            with forced(path):
                assert_same_bits(self.down(self.up_async(source, dtype="int32").result()), expected)
                assert_same_bits(xl.to_host_async(self.up(source), dtype="int32").result(), expected)

    @pytest.mark.parametrize("nbytes", _TRANSFER_SIZES)
    def test_a_transfer_tells_of_itself(self, nbytes: int) -> None:
        source = bits_of(nbytes, np.uint8, seed=1)
        up = self.up_async(source)
        d = up.result()
        assert up.result() is d
        self.synchronize()
        assert up.done()
        assert up.source_released
        assert up.is_upload
        assert up.stats.nbytes == nbytes
        assert up.stats.path in _PATH_NAMES
        down = xl.to_host_async(d)
        host = down.result()
        assert down.result() is host
        assert down.done()
        assert not down.is_upload
        assert down.stats.seconds >= 0
        assert "Transfer" in repr(down)
        assert_same_bits(host, source)

    def test_a_result_is_ordered_on_the_stream_that_is_current_when_it_is_asked_for(self) -> None:
        source = bits_of(3 << 20, np.uint8, seed=2)
        for given in (source, self.pinned(source)):
            transfer = self.up_async(given)
            with self.stream():
                copied = self.up(transfer.result())
                assert_same_bits(self.down(copied), source)

    def test_a_stream_that_waits_for_a_transfer_comes_after_it(self) -> None:
        self.need("in_place")
        source = bits_of(3 << 20, np.uint8, seed=3)
        for given in (source, self.pinned(source)):
            one, two = self.stream(), self.stream()
            d = self.up(np.zeros_like(source))
            self.synchronize()
            two.wait(self.up_async(given, out=d, stream=one))
            assert_same_bits(self.down(d, stream=two), source)

    def test_synchronising_a_stream_covers_transfers_whose_source_is_still_being_read(self) -> None:
        self.need("in_place")
        stream = self.stream()
        source = bits_of(6 << 20, np.uint8, seed=4)
        d = self.up(np.zeros_like(source))
        self.synchronize()
        with forced(None, chunk_nbytes=64 << 10):
            transfer = self.up_async(source, out=d, stream=stream)
        stream.synchronize()
        assert transfer.done()
        assert stream.is_done
        assert_same_bits(self.down(d), source)

    def test_a_released_source_may_change(self) -> None:
        for path, is_pinned in [(None, False), (None, True), *((path, False) for path in PATHS[1:])]:
            for nbytes in _TRANSFER_SIZES:
                source = bits_of(nbytes, np.uint8, seed=5)
                expected = source.copy()
                given = self.pinned(source) if is_pinned else source
                with forced(path):
                    transfer = self.up_async(given)
                while not transfer.source_released:
                    transfer.done()
                scribble(given)
                assert_same_bits(self.down(transfer.result()), expected)

    def test_a_download_is_complete_when_it_says_so(self) -> None:
        source = bits_of(3 << 20, np.uint8, seed=6)
        d = self.up(source)
        for out in (np.zeros_like(source), xl.pinned_zeros(source.shape, source.dtype, backend=self.backend)):
            transfer = xl.to_host_async(d, out=out)
            while not transfer.done():
                pass
            assert_same_bits(out, source)

    def test_result_takes_a_timeout_and_goes_on_where_it_is_none(self) -> None:
        source = bits_of(1 << 20, np.uint8, seed=7)
        transfer = self.up_async(source)
        wrong: Any
        for wrong in ("soon", -1, float("nan"), [1]):
            with pytest.raises(ArgumentError, match=r"not a number of seconds from 0.*None"):
                transfer.result(wrong)
        wrong = np.float32(600)  # a number like any other
        assert_same_bits(xl.to_host(transfer.result(wrong)), source)
        assert_same_bits(xl.to_host_async(transfer.result(timeout=600)).result(timeout=float("inf")), source)

    def test_a_copy_that_fails_on_the_way_says_so_and_the_next_one_works(self) -> None:
        self.need("streams")
        source = bits_of(3 << 20, np.uint8, seed=8).reshape(3, -1)[:, ::2]

        def fail(*args: Any, **options: Any) -> None:
            raise OSError("the link went away")

        # The parts in C call the driver by themselves.
        with configured(native="off"), replace_attribute(self.raw, "copy", fail):
            transfer = self.up_async(source)
            with pytest.raises(TransferError, match="the link went away"):
                transfer.result()
            with pytest.raises(TransferError, match="nothing of use"):
                transfer.wait(self.stream())
            with pytest.raises(OSError, match="went away"):
                self.up(source)
            assert transfer.done()
        assert_same_bits(self.down(self.up_async(source).result()), np.ascontiguousarray(source))

    def test_sixteen_threads_transfer_at_once(self) -> None:
        barrier = threading.Barrier(16)

        def work(number: int) -> None:
            barrier.wait()
            for count, nbytes in enumerate((100, 40 << 10, 300 << 10, 3 << 20)):
                source = bits_of(nbytes, np.uint8, seed=number * 10 + count)
                given = source if (number + count) % 2 else self.pinned(source)
                with forced(None, chunk_nbytes=64 << 10):
                    if number % 3:
                        d = self.up(given)
                        assert_same_bits(self.down(d), source)
                    else:
                        d = self.up_async(given).result()
                        assert_same_bits(xl.to_host_async(d).result(), source)

        in_threads(work, range(16))

    # --- lifetimes

    def test_handles_may_be_dropped_at_any_time(self) -> None:
        def check(seed: int) -> None:
            chance = random.Random(seed)
            live: list[tuple[xl.Transfer, HostArray]] = []
            for number in range(24):
                nbytes = chance.choice(_TRANSFER_SIZES[:-1])
                source = bits_of(nbytes, np.uint8, seed=number)
                expected = source.copy()
                given = self.pinned(source) if chance.random() < 0.5 else source
                transfer = self.up_async(given, stream=self.stream() if chance.random() < 0.5 else None)
                if chance.random() < 0.5:
                    transfer = xl.to_host_async(transfer.result())
                del source, given
                live.append((transfer, expected))
                chance.shuffle(live)
                while live and chance.random() < 0.4:
                    self._drop_or_check(chance, *live.pop())
                if chance.random() < 0.1:
                    gc.collect(1)
            for transfer, expected in live:
                self._drop_or_check(random.Random(1), transfer, expected)

        self.forall(check, st.integers(0, 1 << 32), share=0.08)

    def _drop_or_check(self, chance: random.Random, transfer: xl.Transfer, expected: HostArray) -> None:
        if chance.random() < 0.3:
            return
        result = transfer.result()
        del transfer
        gc.collect(0)
        assert_same_bits(result if isinstance(result, np.ndarray) else self.down(result), expected)

    def test_a_pinned_source_may_be_dropped_at_once_and_its_memory_is_not_handed_out_too_early(self) -> None:
        stream = self.stream()
        arrived = []
        for number in range(12):
            source = self.pinned(bits_of(300 << 10, np.uint8, seed=number))
            arrived.append(self.up(source, stream=stream))
            del source
            xl.pinned_empty(300 << 10, np.uint8, backend=self.backend).fill(0)
        stream.synchronize()
        for number, d in enumerate(arrived):
            assert_same_bits(self.down(d), bits_of(300 << 10, np.uint8, seed=number))

    def test_a_device_array_may_be_dropped_under_copies_from_and_to_it(self) -> None:
        stream = self.stream()
        for number in range(12):
            source = bits_of(300 << 10, np.uint8, seed=number)
            d = self.up(source)
            stream.wait(xl.current_stream(self.target_device))
            transfer = xl.to_host_async(d, stream=stream)
            del d
            self.up_async(self.pinned(np.zeros(300 << 10, np.uint8)))  # dropped, and its memory with it
            again = self.up(np.ones(300 << 10, np.uint8))
            assert_same_bits(transfer.result(), source)
            del again

    def test_a_result_dropped_while_another_stream_reads_it_is_not_overwritten(self) -> None:
        self.need("native_current_stream")
        self.need("namespace")
        xp = self.raw.namespace()
        one, two = self.stream(), self.stream()
        zeros = self.pinned(np.zeros(1 << 20, np.int32))
        for number in range(12):
            source = np.full(1 << 20, number, np.int32)
            transfer = self.up_async(self.pinned(source), stream=one)
            with two:
                d = transfer.result()
                total = xp.add(d, d)
            del d, transfer
            self.up(zeros, stream=one)
            assert_same_bits(self.down(total, stream=two), source + source)


class BackendConformance(Choosing, Copying, Transfers, Ordering, Pinning, Tracing, Overlapping, Processes):
    """Every sentence of the semantics, as tests of one backend on one device.

    Subclass it in a test module and name the backend; pytest does the rest.
    """

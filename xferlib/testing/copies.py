"""Conformance: copies and conversions of any layout and dtype, over every path, compared bit by bit."""

from __future__ import annotations

import math
import tempfile
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import LayoutError
from xferlib.testing import strategies
from xferlib.testing.asserts import assert_same_bits, native_bits, scribble, with_one_nan
from xferlib.testing.harness import PATHS, Harness, HostArray
from xferlib.testing.settings import forced

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
            return strategies.bits_of(rows * 64 * 8, np.float32, seed=1).reshape(rows, 128)[:, ::2]
        flat = strategies.bits_of(rows * 64 * 4, np.float32, seed=2).reshape(rows, 64)
        if kind == "transposed":
            return flat.T
        if kind == "reversed":
            return flat[::-1, ::-1]
        if kind == "swapped":
            return flat.view(flat.dtype.newbyteorder())
        return self.pinned(flat) if kind == "pinned" else flat

    @pytest.mark.parametrize("kind", ["contiguous", "transposed", "strided", "reversed", "swapped", "pinned"])
    def test_large_arrays_come_back_whole_into_new_and_given_memory(self, kind: str) -> None:
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
            layout.over(expected)[...] = np.frombuffer(source.astype(layout.dtype).tobytes(), layout.dtype).reshape(
                source.shape
            )
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
            expected = converted(source, target)
            with forced(path):
                moved = self.down(self.up(source, dtype=target)) if upward else self.down(self.up(source), dtype=target)
            assert_same_bits(moved, expected)

        self.forall(check, st.data(), strategies.dtypes(), st.sampled_from(PATHS), st.booleans())

    @pytest.mark.parametrize("target", strategies.DTYPES)
    def test_large_arrays_convert_as_small_ones_do(self, target: str) -> None:
        wanted = np.dtype(target)
        for name in strategies.DTYPES if self.is_async else ("int8", "float32"):  # a CPU has no second way
            few = strategies.bits_of(1024 * np.dtype(name).itemsize, name, seed=11)
            if few.dtype.kind == "c" and wanted.kind not in "cb":
                continue
            times = -(-_LARGE_NBYTES // (1024 * max(few.itemsize, wanted.itemsize)))
            source, expected = np.tile(few, times), with_one_nan(np.tile(converted(few, wanted), times))
            assert_same_bits(with_one_nan(self.down(self.up(source, dtype=wanted))), expected)
            assert_same_bits(with_one_nan(self.down(self.up(source), dtype=wanted)), expected)
            if self.is_async and name in ("float64", "int16"):  # pinned memory may be converted elsewhere
                pinned = xl.pinned_array(source, backend=self.backend)
                assert_same_bits(with_one_nan(self.down(self.up(pinned, dtype=wanted))), expected)
                out = self.up(np.zeros(source.shape, wanted))
                self.up(pinned, out=out, dtype=wanted)
                assert_same_bits(with_one_nan(self.down(out)), expected)

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

    def test_sequences_and_scalars_are_taken(self) -> None:
        assert_same_bits(self.down(self.up([[1, 2], [3, 4]])), np.array([[1, 2], [3, 4]]))
        assert_same_bits(self.down(self.up(2.5)), np.array(2.5))
        assert_same_bits(self.down(self.up(np.float32(2.5))), np.array(2.5, np.float32))

    def test_a_memory_mapped_file_is_taken_read_only(self) -> None:
        data = strategies.bits_of(3 << 20, np.uint16, seed=3)
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


def converted(source: HostArray, target: np.dtype[Any]) -> HostArray:
    """Convert as the library should: as NumPy does, but floats saturate to integers and NaN becomes 0.

    The saturation is computed in exact arithmetic, independently of the library.
    """
    with np.errstate(all="ignore"):
        if source.dtype.kind != "f" or target.kind not in "iu":
            return source.astype(target)
        values = source.astype(np.float64).ravel()
    limits = np.iinfo(target)
    flat = [_truncated(float(value), int(limits.min), int(limits.max)) for value in values]
    return np.array(flat, dtype=object).astype(target).reshape(source.shape)


def _truncated(value: float, low: int, high: int) -> int:
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return high if value > 0 else low
    return min(max(math.trunc(Fraction(value)), low), high)

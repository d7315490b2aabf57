"""Conformance: the backend and device that a call uses, and the arrays that may not mix."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib._core import defaults, registry
from xferlib.errors import (
    BackendNotFoundError,
    BackendUnavailableError,
    DeviceNotFoundError,
    LayoutError,
    MixedBackendsError,
    MixedDevicesError,
    UnsupportedError,
)
from xferlib.testing import strategies
from xferlib.testing.asserts import assert_same_bits
from xferlib.testing.harness import Harness


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

    def test_scalars_alone_are_numpys(self) -> None:
        assert xl.get_array_module(1, 2.5) is np
        assert xl.get_array_module() is np

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
        before = defaults._process_choice
        seen: dict[str, str] = {}

        def look(when: str) -> None:
            thread = threading.Thread(target=lambda: seen.__setitem__(when, xl.get_backend().name))
            thread.start()
            thread.join()

        try:
            xl.use_backend("numpy")
            with xl.use_backend(self.backend):
                look("in a scope")
            assert xl.get_backend().name == "numpy"
            xl.use_backend(self.backend)
            look("after a plain call")
        finally:
            defaults._process_choice = before
        assert seen == {"in a scope": "numpy", "after a plain call": self.backend}

    def test_a_device_is_one_object_however_it_is_named(self) -> None:
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

"""Every bad input: its typed error, with the fact, the value and the remedy, before anything is allocated or copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib import errors as e
from xferlib.testing import configured, load_backend

pytestmark = pytest.mark.usefixtures("plugins")

X = np.arange(6, dtype=np.float32)


class _Here:
    """Objects that the cases use: an array on the fake device, its other device, and a stream there."""

    def __init__(self) -> None:
        self.d = xl.to_device(X, device="fake:sim:0")
        self.elsewhere = xl.to_device(X, device="fake:sim:1")
        self.stream = xl.Stream("fake:sim:1")
        self.read_only = np.zeros(6, np.float32)
        self.read_only.flags.writeable = False


def _environment(given: dict[str, str]) -> None:
    with configured(given):
        pass


def _on_fake(x: Any, **options: Any) -> Callable[[_Here], Any]:
    return lambda here: xl.to_device(x, device="fake:sim:0", **options)


STRUCTURED = np.zeros(2, [("a", "i4")])
MASKED = np.ma.masked_array([1.0, 2.0], [True, False])

CASES: dict[str, tuple[Callable[[_Here], Any], type[Exception], str]] = {
    "unknown backend": (lambda h: xl.to_device(X, backend="abacus"), e.BackendNotFoundError, "'abacus'.*registered"),
    "unknown default": (lambda h: xl.use_backend("abacus"), e.BackendNotFoundError, "'abacus'.*registered.*numpy"),
    "unusable backend": (lambda h: xl.to_device(X, backend="broken"), e.BackendUnavailableError,
     "'broken'.*not plugged in.*pip install"),
    "no such device": (lambda h: xl.to_device(X, device="fake:sim:9"), e.DeviceNotFoundError,
     "'fake:sim:9' does not exist.*fake:sim:0, fake:sim:1"),
    "no such kind": (lambda h: xl.zeros(2, device="numpy:cuda:0"), e.DeviceNotFoundError, "numpy:cuda:0.*numpy:cpu"),
    "unreadable device": (lambda h: xl.Device("??"), e.DeviceNotFoundError, "'\\?\\?' cannot be read.*write 'cpu'"),
    "device of NumPy's int": (lambda h: xl.zeros(2, device=np.int64(0)), e.DeviceNotFoundError, "int64.*Python int"),
    "device of a float": (lambda h: xl.zeros(2, device=0.0), e.DeviceNotFoundError, "0.0 is float.*'cuda:0'"),
    "device against backend": (lambda h: xl.to_device(X, backend="fake", device="numpy:cpu"), e.DeviceNotFoundError,
     "'numpy:cpu' belongs to backend 'numpy'.*'fake'.*leave one"),
    "object dtype": (_on_fake(np.array([{}])), e.UnsupportedDTypeError, "'object'.*astype.*supported"),
    "string dtype": (_on_fake(np.array(["a"])), e.UnsupportedDTypeError, "'<U1'.*astype"),
    "datetime dtype": (_on_fake(np.zeros(2, "M8[s]")), e.UnsupportedDTypeError, "datetime64.*astype"),
    "timedelta dtype": (_on_fake(np.zeros(2, "m8[s]")), e.UnsupportedDTypeError, "timedelta64.*astype"),
    "structured dtype": (_on_fake(STRUCTURED), e.UnsupportedDTypeError, r"'a', '<i4'.*x\['a'\]"),
    "longdouble dtype": (_on_fake(np.zeros(2, np.longdouble)), e.UnsupportedDTypeError, "float128.*astype"),
    "void dtype": (_on_fake(np.zeros(2, "V3")), e.UnsupportedDTypeError, "V3.*tobytes"),
    "no dtype": (_on_fake(X, dtype="float8"), e.UnsupportedDTypeError, "'float8' is not a dtype.*supported"),
    "wanted object": (_on_fake(X, dtype=object), e.UnsupportedDTypeError, "dtype.*'object'.*give one of"),
    "complex to real": (_on_fake(X + 1j, dtype="float32"), e.UnsupportedDTypeError, "imaginary.*complex64.*x.real"),
    "complex to real down": (lambda h: xl.to_host(xl.to_device(X + 1j, device="fake:sim:0"), dtype="int8"),
     e.UnsupportedDTypeError, "imaginary.*abs"),
    "None": (_on_fake(None), e.UnsupportedArrayError, "x is NoneType.*pass a NumPy array"),
    "text": (_on_fake("text"), e.UnsupportedArrayError, r"x is str.*load\(path\)"),
    "bytes": (_on_fake(b"text"), e.UnsupportedArrayError, "x is bytes.*frombuffer"),
    "dict": (_on_fake({"a": 1}), e.UnsupportedArrayError, r"x is dict.*tree\.to_device"),
    "some object": (_on_fake(object()), e.UnsupportedArrayError, "x is object.*pass a NumPy array"),
    "ragged list": (_on_fake([[1], [1, 2]]), e.UnsupportedArrayError, "x is list.*pass an array"),
    "masked array": (_on_fake(MASKED), e.UnsupportedArrayError, "masked.*filled"),
    "text to the host": (lambda h: xl.to_host("text"), e.UnsupportedArrayError, r"d is str.*load\(path\)"),
    "out of another shape": (lambda h: xl.to_device(X[:3], out=h.d), e.LayoutError, r"\(6,\).*\(3,\).*reshape"),
    "out of another dtype": (lambda h: xl.to_device(X.astype("f8"), out=h.d), e.LayoutError,
     "out has dtype float32.*float64 arrives.*dtype='float32'"),
    "out that is no array": (lambda h: xl.to_device(X, out=[0] * 6), e.UnsupportedArrayError, "out is list.*empty"),
    "out of another backend": (lambda h: xl.to_device(X, backend="numpy", out=h.d), e.MixedBackendsError,
     "numpy.*fake.*to_device"),
    "out on another device": (lambda h: xl.to_device(X, device="fake:sim:1", out=h.d), e.MixedDevicesError,
     "fake:sim:1.*out is on fake:sim:0.*leave device out"),
    "read-only out": (lambda h: xl.to_device(X + 1, backend="numpy", out=h.read_only), e.LayoutError,
     "read-only.*may be written"),
    "read-only host out": (lambda h: xl.to_host(h.d, out=h.read_only), e.LayoutError, "read-only.*may be written"),
    "host out of another shape": (lambda h: xl.to_host(h.d, out=X[:2]), e.LayoutError, r"\(2,\).*\(6,\).*reshape"),
    "host out of another dtype": (lambda h: xl.to_host_async(h.d, out=np.zeros(6)), e.LayoutError,
     "float64.*float32 arrives.*dtype='float64'"),
    "host out that is no array": (lambda h: xl.to_host(h.d, out=[0]), e.UnsupportedArrayError, "out is list.*pinned"),
    "host out on the device": (lambda h: xl.to_host(h.d, out=h.d), e.UnsupportedArrayError, "FakeArray.*numpy.empty"),
    "no copy": (_on_fake(X, copy=False), e.LayoutError, "copy=False.*fake:sim:0.*copy=None"),
    "no copy across devices": (lambda h: xl.to_device(h.elsewhere, device="fake:sim:0", copy=False), e.LayoutError,
     "copy=False.*fake:sim:1, not fake:sim:0.*copy=True"),
    "two backends": (lambda h: xl.get_backend(X, h.d), e.MixedBackendsError,
     "argument 0 is a numpy array and argument 1 a fake array.*to_device"),
    "a list among arrays": (lambda h: xl.get_array_module(X, [1]), e.UnsupportedArrayError,
     "argument 1 is list.*to_device"),
    "no namespace": (lambda h: xl.get_array_module(h.d), e.UnsupportedError, "'fake'.*computes nothing"),
    "device of a number": (lambda h: xl.device_of(3), e.UnsupportedArrayError, "int is not an array.*get_device"),
    "stream of another device": (lambda h: xl.to_device(X, out=h.d, stream=h.stream), e.StreamError,
     "fake:sim:1.*fake:sim:0.*Stream\\('fake:sim:0'\\)"),
    "download on another device's stream": (lambda h: xl.to_host(h.d, stream=h.stream), e.StreamError,
     "fake:sim:1.*fake:sim:0"),
    "no stream": (lambda h: xl.to_host(h.d, stream="fast"), e.StreamError, "str is (no|not a) stream.*__cuda_stream__"),
    "a stream for a CPU": (lambda h: xl.to_device(X, device="numpy:cpu", stream=12345), e.StreamError,
     "numpy:cpu.*complete.*leave it out or give an xferlib.Stream"),
    "unrecorded event": (lambda h: xl.Event().elapsed_ms(xl.Event()), e.StreamError,
     "two recorded events.*the start is not.*record"),
    "negative extent": (lambda h: xl.zeros((2, -1)), e.LayoutError, r"\(2, -1\).*negative.*0 or more"),
    "shape of text": (lambda h: xl.empty("3"), e.LayoutTypeError, "'3' is (no|not a) shape.*int"),
    "shape of a float": (lambda h: xl.empty(2.5), e.LayoutTypeError, "2.5 is (no|not a) shape.*int"),
    "fill with an array": (lambda h: xl.full(3, X), e.LayoutError, r"\(6,\).*to_device"),
    "like of no array": (lambda h: xl.zeros_like([1]), e.UnsupportedArrayError, "list is not an array.*pass an array"),
    "pin with gaps": (lambda h: xl.pin(X[::2], backend="fake"), e.LayoutError, r"\(3,\).*\(8,\).*pinned_array"),
    "pin of a list": (lambda h: xl.pin([1], backend="fake"), e.LayoutError, "contiguous.*list.*pinned_array"),
    "policy of a pool": (lambda h: xl.PinnedPool(load_backend("fake"), when_full="pray"), ValueError,
     "'pray'.*'stage'"),
    "unknown setting": (lambda h: xl.configure(speed=11), e.ConfigError, "'speed' is (no|not a) setting.*threads"),
    "bad threads": (lambda h: _environment({"XFERLIB_THREADS": "0"}), e.ConfigError,
     "XFERLIB_THREADS='0'.*1 to 256.*unset"),
    "threads in words": (lambda h: _environment({"XFERLIB_THREADS": "many"}), e.ConfigError,
     "XFERLIB_THREADS='many'.*whole number of threads from 1 to 256.*unset"),
    "half a thread": (lambda h: xl.configure(threads=0.5), e.ConfigError, "threads=0.5.*whole number of threads"),
    "one number for batches": (lambda h: xl.prefetch(np.float32(3), device="fake:sim:0"), e.UnsupportedArrayError,
     "float32.*not an iterable.*list"),
    "bad size": (lambda h: _environment({"XFERLIB_PINNED_LIMIT": "lots"}), e.ConfigError,
     "XFERLIB_PINNED_LIMIT='lots'.*256MiB"),
    "bad strictness": (lambda h: _environment({"XFERLIB_STRICT": "very"}), e.ConfigError,
     "XFERLIB_STRICT='very'.*pageable"),
    "bad name": (lambda h: _environment({"XFERLIB_BACKEND": "a b"}), e.ConfigError, "XFERLIB_BACKEND='a b'.*cupy"),
}  # fmt: skip


@pytest.fixture
def here(fake: Any) -> _Here:
    found = _Here()
    fake.machine.finish()
    return found


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_with_fact_value_and_remedy(
    case: str, here: _Here, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, error, message = CASES[case]

    def forbidden(*args: Any, **options: Any) -> None:
        raise AssertionError("something was allocated or copied before the error")

    if case != "complex to real down":  # which uploads its own array first
        for owner, name in [(fake.machine, "allocate"), (fake.machine, "enqueue"), (load_backend("numpy"), "empty")]:
            monkeypatch.setattr(owner, name, forbidden)
    with pytest.raises(error, match=f"(?s){message}"):
        call(here)
    monkeypatch.undo()
    assert (xl.to_host(here.d) == X).all()
    assert not here.read_only.any()


def test_every_refusal_is_of_one_tree() -> None:
    for _, error, _ in CASES.values():
        assert issubclass(error, e.XferError) or error is ValueError


def test_strictness_refuses_staging_and_names_the_way_round(fake: Any) -> None:
    before = xl.configure(strict=frozenset({"pageable"}))
    try:
        for call in (xl.to_device, xl.to_device_async):
            with pytest.raises(e.SlowPathError, match=r"800000 bytes of pageable.*pinned_empty"):
                call(np.zeros(100_000), device="fake:sim:0")
        found = xl.to_device(xl.pinned_zeros(100_000, backend="fake"), device="fake:sim:0")
        for back in (xl.to_host, xl.to_host_async):
            with pytest.raises(e.SlowPathError, match=r"800000 bytes of pageable.*pinned_empty"):
                back(found, out=np.zeros(100_000))
        xl.to_host(found, out=xl.pinned_zeros(100_000, backend="fake"))
    finally:
        xl.configure(strict=before.strict)

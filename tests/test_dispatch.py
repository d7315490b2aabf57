"""From arrays to their namespace, backend and device: moved to one backend, and arrays of the current one."""

from __future__ import annotations

import gc
import importlib.metadata
import inspect
import itertools
import multiprocessing
import os
import pickle
import pydoc
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

import xferlib as xl
from tests.fake import FakeBackend
from tests.processes import printed
from xferlib.backends.base import WHY_HOST, ArrayInfo, Capabilities, Device, HostBackend, RawStream
from xferlib.errors import (
    ArgumentError,
    BackendUnavailableError,
    ForkError,
    LayoutError,
    MixedBackendsError,
    MixedDevicesError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
    UnsupportedError,
)
from xferlib.testing import assert_same_bits, fresh_registry, in_python, load_backend, native
from xferlib.testing.strategies import DTYPES, bits_of

pytestmark = pytest.mark.usefixtures("plugins")

torch = pytest.importorskip("torch")

X = np.arange(3.0)
compiled = pytest.mark.skipif(
    not inspect.isbuiltin(xl.get_array_module), reason="calls.c is not compiled, or not wanted"
)
on_each = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
"""The fixture `backend` chooses a backend for all examples alike."""


@pytest.fixture(params=[pytest.param("compiled", marks=compiled), "python"])
def get_array_module(request: pytest.FixtureRequest) -> Iterator[Callable[..., ModuleType]]:
    """The function with nothing learned yet."""
    found = xl.get_array_module if request.param == "compiled" else in_python(xl.get_array_module)
    assert inspect.isbuiltin(found) == (request.param == "compiled")
    with fresh_registry():
        yield found


Find = Callable[..., ModuleType]


# --- get_array_module


def test_it_is_a_function_like_any_other() -> None:
    found = xl.get_array_module
    assert (found.__name__, found.__qualname__) == ("get_array_module", "get_array_module")
    assert found.__module__ == xl.get_backend.__module__
    assert inspect.getdoc(found) == inspect.getdoc(in_python(found))
    assert in_python(xl.get_backend) is xl.get_backend
    assert list(inspect.signature(found).parameters) == ["arrays"]
    assert "Array-API namespace" in pydoc.render_doc(found)
    assert pickle.loads(pickle.dumps(found)) is found
    with pytest.raises(TypeError, match="keyword"):
        found(x=X)


def test_scalars_decide_nothing_beside_an_array(get_array_module: Find) -> None:
    t = torch.ones(3)
    for scalar in (True, 2, 2.5, 1j, None, np.float64(1)) * 2:
        assert get_array_module(t, scalar) is get_array_module(scalar, t) is get_array_module(t, scalar, 2, np.int8(3))
        assert get_array_module(t, scalar) is get_array_module(t)
        assert get_array_module(scalar) is get_array_module() is get_array_module(X, scalar) is np
        assert xl.get_backend(scalar, t).name == "torch"
    assert xl.get_backend(np.float64(1)).name == "numpy"
    with pytest.raises(MixedBackendsError, match="argument 1 is a torch array and argument 2 a numpy array"):
        get_array_module(np.float64(1), t, X)


class _Own(np.ndarray[Any, Any]):
    pass


class _Ours(torch.Tensor):  # type: ignore[name-defined]
    pass


class _Number(int):
    pass


def test_each_look_up_finds_the_backend_of_the_array_or_its_base_class(get_array_module: Find) -> None:
    t, s = torch.nn.Parameter(torch.ones(3)), xl.zeros(3, backend="sim")
    for _ in range(2):
        assert get_array_module(s) is load_backend("sim").namespace()
        assert get_array_module(t) is get_array_module(t, t) is load_backend("torch").namespace()
        assert get_array_module(X.view(_Own)) is get_array_module(np.ma.masked_array(X), X) is np
        assert get_array_module(t, torch.ones(3).as_subclass(_Ours)) is get_array_module(torch.ones(3))
        assert get_array_module(_Number(3), t) is get_array_module(t)


def test_arrays_of_two_backends_are_refused_each_time(get_array_module: Find) -> None:
    t = torch.ones(3)
    for _ in range(2):
        get_array_module(X)
        get_array_module(t)
        for mixed, positions in (((X, t), (0, 1)), ((X, X, 1, t), (0, 3)), ((t, None, X), (0, 2))):
            first, second = positions
            with pytest.raises(MixedBackendsError, match=rf"argument {first} is .*argument {second} .*xferlib\.common"):
                get_array_module(*mixed)


class _Foreign:
    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        raise AssertionError("asked")


class _HashedAtWill(type):
    def __hash__(cls) -> int:
        raise SystemError("asked for its hash")


class _Hostile(metaclass=_HashedAtWill):
    pass


def test_what_is_no_array_is_refused_by_its_position(get_array_module: Find) -> None:
    for place, wrong in itertools.product((0, 1) * 2, ([1], "text", object(), _Foreign())):
        said = rf"argument {place} is .*{type(wrong).__name__}.*(to_device|use_backend)"
        with pytest.raises(UnsupportedArrayError, match=said):
            get_array_module(*[X] * place, wrong, X)
    with pytest.raises(UnsupportedArrayError, match=rf"{__name__}\._Foreign.*x\.__array_namespace__\(\)"):
        get_array_module(_Foreign())
    for given_ in ((_Hostile(),), (X, _Hostile()), (_Hostile(), X), (_Hostile(), X, X)):
        with pytest.raises(SystemError, match="asked for its hash"):  # a foreign type's own error is passed on
            get_array_module(*given_)


def test_a_backend_without_namespace_says_why_each_time(get_array_module: Find) -> None:
    for name, why in (("tiny", "cannot compute"), ("fake", "computes nothing")):
        d = xl.to_device(X, backend=name)
        for _ in range(2):
            with pytest.raises(UnsupportedError, match=why):
                get_array_module(d, 1)


class _Held:
    """Owns a NumPy array and does nothing else."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self.data = data


class _Holder(HostBackend):
    """A library on the CPU that computes with NumPy's own functions."""

    name = "holder"
    array_class: type = _Held
    array_types = (f"{__name__}._Held",)
    capabilities = Capabilities(namespace=True, why=WHY_HOST)

    def namespace(self) -> ModuleType:
        return np

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> Any:
        return self.array_class(np.empty(shape, dtype))

    def view(self, array: Any) -> ArrayInfo:
        a = array.data
        return ArrayInfo(a.ctypes.data, a.shape, a.strides, a.dtype, self.device, a.flags.writeable)

    def host_view(self, array: Any) -> np.ndarray[Any, Any]:
        held: np.ndarray[Any, Any] = array.data
        return held


def test_two_backends_with_one_namespace_do_not_mix(get_array_module: Find) -> None:
    with fresh_registry(holder=_Holder):
        d = xl.zeros(3, backend="holder")
        for _ in range(2):
            assert get_array_module(d) is get_array_module(X) is np
            with pytest.raises(MixedBackendsError):
                get_array_module(X, d)


def test_arrays_are_recognised_though_their_type_was_seen_before_their_backend() -> None:
    class Late(_Held):
        pass

    class LateBackend(_Holder):
        name = "late"
        array_class = Late
        array_types = ("elsewhere.Late",)

    Late.__module__, Late.__qualname__, LateBackend.__module__ = "elsewhere", "Late", "another"
    seen = Late(X)
    with fresh_registry(late=LateBackend):
        with pytest.raises(UnsupportedArrayError):
            xl.get_backend(seen)
        with xl.use_backend("late") as made:
            assert xl.get_backend(seen) is made


def test_a_slow_look_for_plug_ins_does_not_undo_a_faster_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Faster(_Holder):
        name = "faster"

    look = importlib.metadata.entry_points
    with ExitStack() as stack:

        def looks(**group: Any) -> Any:
            stack.enter_context(fresh_registry(faster=Faster))
            return look(**group)

        stack.enter_context(fresh_registry())
        monkeypatch.setattr(importlib.metadata, "entry_points", looks)
        with pytest.raises(UnsupportedArrayError):
            xl.get_backend(object.__new__(type("Stranger", (), {})))
        assert "faster" in xl.available_backends()


def test_no_library_is_imported_only_to_look_at_a_type() -> None:
    def loaded() -> HostBackend:
        raise AssertionError("imported")

    loaded.__module__ = "not_imported.plug_in"
    with fresh_registry(not_imported=loaded):
        for stranger in (_Foreign(), object(), pydoc.HTMLDoc()):
            with pytest.raises(UnsupportedArrayError):
                xl.get_array_module(stranger)


def test_a_type_is_found_under_the_name_that_an_imported_module_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = type("Hidden", (_Held,), {"__module__": "some._inner.part"})
    public: Any = ModuleType("some_public")
    public.Named = hidden
    monkeypatch.setitem(sys.modules, "some_public", public)
    names = {"name": "some_public", "array_class": hidden, "array_types": ("some_public.Named",)}
    with fresh_registry(some_public=type("Aliased", (_Holder,), names)):
        assert xl.get_backend(hidden(X)).name == "some_public"


def _ask_in_child(array: Any, answers: Any) -> None:
    try:
        answers.put(xl.get_array_module(array).__name__)
    except ForkError as error:
        answers.put(f"ForkError: {error}")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_forgets_the_backends_that_did_not_survive() -> None:
    d = xl.zeros(3, backend="sim")
    xl.get_array_module(d), xl.get_array_module(X)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    for array, expected in ((d, "ForkError"), (X, "numpy")):
        child = context.Process(target=_ask_in_child, args=(array, answers))
        child.start()
        assert answers.get().startswith(expected)
        child.join()
        assert child.exitcode == 0


@pytest.mark.parametrize("setting", ["on", "off"])
def test_the_setting_chooses_and_importing_settles_nothing_else(setting: str) -> None:
    script = """
import os, xferlib as xl
from xferlib import get_array_module
os.environ["XFERLIB_BACKEND"] = "sim"
import inspect, numpy, pickle
assert get_array_module(numpy.ones(3)) is numpy is get_array_module(numpy.ones(3), 2)
assert pickle.loads(pickle.dumps(get_array_module)) is get_array_module
print(inspect.isbuiltin(get_array_module), xl.get_backend().name)
"""
    is_compiled = setting == "on" and not native().why_no_calls
    found = printed("-c", script, XFERLIB_BACKEND="", XFERLIB_DEVICE="", XFERLIB_NATIVE=setting)
    assert found.split() == [str(is_compiled), "sim"]


def test_torch_compile_takes_it_without_a_warning() -> None:
    def function(*arrays: Any) -> Any:
        found = xl.get_array_module(*arrays)
        return found.add(arrays[0], arrays[0]), found.__name__

    cut = torch.compile(function, backend="eager")
    for t in (torch.ones(3), torch.ones(2, dtype=torch.int64)):
        doubled, name = cut(t, 1.5, None)
        assert torch.equal(doubled, t + t)
        assert name == load_backend("torch").namespace().__name__
    assert_same_bits(cut(X)[0], X + X)
    with pytest.raises(MixedBackendsError):
        cut(t, X)


class _LookedInto(FakeBackend):
    """A backend whose library computes where it is imported."""

    name = "looked_into"

    def __init__(self) -> None:
        super().__init__()
        self.sum = self._add(torch.ones(3))

    @staticmethod
    def _add(t: Any) -> Any:
        return t + 1


def test_torch_compile_does_not_look_into_what_a_backend_imports() -> None:
    graphs: list[Any] = []

    def count(graph: Any, _inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def function(t: Any) -> Any:
        xl.empty(3, backend="looked_into")
        return t + 1

    with fresh_registry(looked_into=_LookedInto):
        torch.compile(function, backend=count)(torch.ones(3))
    assert len(graphs) == 1


SOME = {
    "numpy": lambda: X, "scalar": lambda: np.float32(1), "torch": lambda: torch.ones(3), "none": lambda: None,
    "sim": lambda: xl.zeros(3, backend="sim"), "tiny": lambda: xl.zeros(3, backend="tiny"), "int": lambda: 3,
    "list": lambda: [1], "float": lambda: 0.5, "foreign": _Foreign,
}  # fmt: skip


def _answer(function: Find, arrays: list[Any]) -> Any:
    try:
        return function(*arrays)
    except Exception as error:
        return type(error), str(error)


@compiled
@given(st.lists(st.sampled_from(sorted(SOME)), max_size=5))
def test_the_compiled_function_and_the_python_one_are_one(kinds: list[str]) -> None:
    given_ = [SOME[kind]() for kind in kinds]
    in_c: Any = xl.get_array_module
    plain = in_python(in_c)
    for first, second in ((in_c, plain), (plain, in_c)):
        with fresh_registry():  # where the first one learns the types
            expected = _answer(first, given_)
            assert _answer(second, given_) == _answer(first, given_) == expected


# --- device_of


def test_the_device_of_a_tensor_is_exact() -> None:
    here = xl.Device("torch:cpu")
    conjugate = torch.ones(2, dtype=torch.complex64).conj()
    for tensor in (torch.ones(2), torch.ones(2, 2).T, torch.ones(2, requires_grad=True), conjugate):
        assert xl.device_of(tensor) is here
    with pytest.raises(UnsupportedArrayError, match="'meta'"):
        xl.device_of(torch.ones(2, device="meta"))


# --- common


def test_common_moves_what_is_elsewhere_and_nothing_else() -> None:
    d, t, number = xl.to_device(X, backend="sim"), torch.ones(3), 2.5
    x, same, scalar, moved, none = xl.common(X, d, number, t, None)
    assert (same is d, scalar is number, none is None) == (True, True, True)
    assert {xl.device_of(each) for each in (x, same, moved)} == {xl.device_of(d)}
    assert_same_bits(xl.to_host(x), X)
    assert_same_bits(xl.to_host(moved), t.numpy())


def test_common_follows_what_it_is_told_then_an_accelerator_then_the_first_array_and_scalars_last() -> None:
    one, other = (xl.to_device(X, device=f"sim:sim:{index}") for index in (1, 0))
    t = torch.ones(3)
    here, there = xl.common(X, one, follow=X)
    assert here is X
    assert_same_bits(there, X)
    assert xl.common(t, follow=t)[0] is t
    for arrays, options, device in (
        ((X, one, t), {"follow": t}, "torch:cpu"), ((X, one, other), {}, "sim:sim:1"), ((t, X), {}, "torch:cpu"),
        ((np.float64(1), t), {}, "torch:cpu"),
    ):  # fmt: skip
        assert {xl.device_of(each) for each in xl.common(*arrays, **options)} == {xl.Device(device)}
    assert xl.common() == ()
    assert xl.common(1, None) == (1, None)


def test_common_refuses_before_it_moves() -> None:
    d = xl.to_device(X, backend="fake")
    with pytest.raises(UnsupportedArrayError, match="common: argument 2 is list"):
        xl.common(X, d, [1])
    with pytest.raises(UnsupportedArrayError, match="common: follow is int"):
        xl.common(X, d, follow=3)


@on_each
@given(arrays_of.arrays(st.sampled_from(DTYPES), arrays_of.array_shapes(min_dims=0, max_side=4)))
def test_common_keeps_bits_shape_and_dtype(backend: str, x: np.ndarray[Any, Any]) -> None:
    target = xl.zeros(1)
    (moved,) = xl.common(x, follow=target)
    assert xl.device_of(moved) is xl.device_of(target)
    assert_same_bits(xl.to_host(moved), x)


# --- arrays by the current backend


def _is_current(d: Any, backend: str) -> bool:
    return xl.get_backend(d).name == backend and xl.device_of(d) is xl.get_device()


MADE: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "arange": [
        (args, {}) for args in
        ((3,), (2, 9), (0, 1, 0.1), (5, 0, -2), (0,), (3, 3), (np.float32(2),), (0, 3, 1, "f4"))
    ],
    "linspace": [
        *((limits, options) for limits in ((0, 1), (1 / 3, -7), (0, 1j))
          for options in ({}, {"num": 7}, {"num": 0}, {"num": 1}, {"endpoint": False})),
        *((limits, {"dtype": "i4"}) for limits in ((0, 1), (1 / 3, -7))),
    ],
    "eye": [(args, {}) for args in ((3,), (2, 4), (4, 2, 1), (3, 3, -1), (0,), (2, 2, 0, "bool"))],
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_ranges_and_eyes_are_numpys(backend: str, name: str) -> None:
    for args, options in MADE[name]:
        d = getattr(xl, name)(*args, **options)
        assert _is_current(d, backend)
        assert_same_bits(xl.to_host(d), getattr(np, name)(*args, **options))


REFUSED: list[Callable[[Any], Any]] = [
    lambda xl: xl.arange(0, 3, 0), lambda xl: xl.arange(1j), lambda xl: xl.arange([1]),
    lambda xl: xl.arange(0, float("nan")), lambda xl: xl.arange(3, dtype=bool), lambda xl: xl.linspace(0, "1"),
    lambda xl: xl.linspace(0, 1, -1), lambda xl: xl.linspace(0, 1, 2.5), lambda xl: xl.eye(-1),
    lambda xl: xl.eye(2.5), lambda xl: xl.eye(2, 2, "k"), lambda xl: xl.concat([]), lambda xl: xl.concat(X),
    lambda xl: xl.concat([1, 2]), lambda xl: xl.concat([X, 2]), lambda xl: xl.concat([X], 1),
    lambda xl: xl.concat([X], "0"), lambda xl: xl.concat([np.float64(1)]),
]  # fmt: skip


def test_arguments_that_make_no_array_are_refused() -> None:
    for number, call in enumerate(REFUSED):
        with pytest.raises(ArgumentError, match=r"; \w+"):
            call(xl)
            pytest.fail(str(number))
    for call in (xl.asarray, xl.arange, xl.eye):
        with pytest.raises(UnsupportedDTypeError):
            call(3, dtype="datetime64[s]")
    for imaginary in (lambda: xl.linspace(0, 1j, dtype="float32"), lambda: xl.concat([np.array([1j])], dtype="f8")):
        with pytest.raises(UnsupportedDTypeError, match="imaginary"):
            imaginary()


def test_no_dtype_is_numpys_default(backend: str) -> None:
    for name in ("zeros", "ones", "empty"):
        assert str(getattr(xl, name)(2, dtype=None).dtype).endswith("float64")
    for name in ("zeros_like", "ones_like", "empty_like"):
        assert getattr(xl, name)(np.ones(2, "int8"), dtype=None).dtype == np.int8


def test_python_integers_that_do_not_fit_are_refused(backend: str) -> None:
    for call in (
        lambda: xl.full(2, 300, "uint8"),
        lambda: xl.full_like(np.ones(2, "uint16"), -1),
        lambda: xl.asarray([1, 300], "uint8"),
        lambda: xl.to_device([[1], [-200]], dtype="int8"),
        lambda: xl.to_device(1 << 40, dtype="int32"),
        lambda: xl.to_device_async([300], dtype="int8"),
    ):
        with pytest.raises(OverflowError, match="out of bounds for u?int.*; give a wider dtype"):
            call()
    assert xl.to_host(xl.asarray([255, 0], "uint8")).tolist() == [255, 0]
    assert xl.to_host(xl.asarray(np.array([300]), "uint8")).tolist() == [44]  # an array is converted, as by astype
    assert xl.to_host(xl.full(1, 1e30, "int8")).tolist() == [127]


def test_each_constructor_takes_backend_and_device() -> None:
    for make in (xl.asarray, xl.arange, xl.eye, xl.zeros, xl.ones, xl.empty, lambda n, **o: xl.full(n, 2, **o),
                 lambda n, **o: xl.linspace(0, 1, n, **o)):  # fmt: skip
        assert xl.device_of(make(3, backend="torch")) is xl.get_device("torch")
        assert xl.device_of(make(3, device="sim:sim:1")) is xl.Device("sim:sim:1")
        assert xl.device_of(make(3, backend="sim", device=1)) is xl.Device("sim:sim:1")


def test_asarray_takes_anything_and_copies_what_it_must(backend: str) -> None:
    for value in (3, 2.5, [1, 2], [[1.5], [2]], (True, False), X[::-1], 1j):
        d = xl.asarray(value)
        assert _is_current(d, backend)
        assert_same_bits(xl.to_host(d), np.asarray(value))
        assert xl.asarray(d) is d
    assert_same_bits(xl.to_host(xl.asarray(X, "int8")), X.astype(np.int8))
    far = xl.to_device(X, device="sim:sim:1")
    with xl.use_backend("numpy"):  # an array stays on its accelerator unless told
        assert xl.asarray(far) is far
        assert xl.device_of(xl.asarray(far, "float32")) is xl.device_of(far)
        assert_same_bits(xl.asarray(far, backend="numpy"), X)
        assert type(xl.asarray(torch.ones(3))) is np.ndarray


# --- concat


@st.composite
def joined(draw: Any) -> tuple[list[np.ndarray[Any, Any]], int | None]:
    """Arrays of one shape but for an axis, in any strides, and that axis."""
    shape = list(draw(arrays_of.array_shapes(max_dims=3, min_side=0, max_side=4)))
    axis = draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    dtypes = draw(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=2))
    made = []
    for seed in range(draw(st.integers(1, 4))):
        if axis is not None:
            shape[axis] = draw(st.integers(0, 4))
        dtype, whole = np.dtype(dtypes[seed % len(dtypes)]), (*shape[:-1], 2 * shape[-1])
        x = bits_of(int(np.prod(whole)) * dtype.itemsize, dtype, seed=seed).reshape(whole)[..., ::2]
        made.append(np.asfortranarray(x) if draw(st.booleans()) else x)
    return made, axis


def _finite(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Without NaN, whose payload a conversion may change."""
    return np.where(np.isfinite(x), x, 0).astype(x.dtype)


@on_each
@given(joined())
def test_concat_is_numpys(backend: str, drawn: tuple[list[np.ndarray[Any, Any]], int | None]) -> None:
    given_, axis = drawn
    if len({each.dtype for each in given_}) > 1:
        if backend == "fake":  # whose device cannot convert
            return
        given_ = [_finite(each) for each in given_]
    d = xl.concat([xl.to_device(each) for each in given_], axis)
    assert _is_current(d, backend)
    assert_same_bits(xl.to_host(d), np.concatenate(given_, axis))


def test_concat_joins_views_as_their_library_makes_them(backend: str) -> None:
    if not load_backend(backend).capabilities.strided:
        pytest.skip("the library has no views")
    x = np.arange(12.0).reshape(3, 4)
    d: Any = xl.to_device(x)
    joined = xl.concat([d[:2].transpose(1, 0), d[1:].transpose(1, 0)], 1)
    assert_same_bits(xl.to_host(joined), np.concatenate([x[:2].T, x[1:].T], 1))


@pytest.mark.parametrize("backend", ["numpy", "torch", "sim"], indirect=True)
def test_concat_takes_the_dtype_that_it_is_given(backend: str) -> None:
    d = xl.concat([xl.asarray([1, 2]), xl.asarray([2.75])], dtype="int16")
    assert_same_bits(xl.to_host(d), np.array([1, 2, 2], np.int16))


def test_concat_refuses_what_does_not_fit() -> None:
    with pytest.raises(LayoutError, match=r"argument 0 has shape \(2, 3\) and argument 1 has shape \(3, 2\); reshape"):
        xl.concat([np.ones((2, 3)), np.ones((3, 2))])
    with pytest.raises(MixedBackendsError, match=r"concat: argument 0 is a numpy.*xferlib\.common"):
        xl.concat([X, torch.ones(3)])
    with pytest.raises(MixedDevicesError, match=r"concat: argument 0 is on sim:sim:0 and argument 1 on sim:sim:1"):
        xl.concat([xl.zeros(3, device="sim:sim:0"), xl.zeros(3, device="sim:sim:1")])


def test_concat_is_followed_for_derivatives() -> None:
    x, y = torch.ones(2, requires_grad=True), torch.ones(3, dtype=torch.int64)
    found = xl.concat([x, y])
    assert found.dtype == torch.float64
    found.sum().backward()
    assert torch.equal(x.grad, torch.ones(2))


def test_the_tiny_backend_without_namespace_makes_and_joins_too() -> None:
    with xl.use_backend("tiny"):
        d = xl.concat([xl.arange(3), xl.linspace(0, 1, 2), xl.eye(1)[0]])
    assert type(d).__name__ == "TinyArray"
    assert_same_bits(xl.to_host(d), np.array([0.0, 1, 2, 0, 1, 1]))


def test_a_backend_that_cannot_run_keeps_no_array_alive() -> None:
    """The error is told again at each look-up, and a traceback would hold the arrays of the first one."""
    with fresh_registry():
        d = xl.to_device(np.arange(6.0), backend="bare")
        kept = weakref.ref(d)
        for _ in range(2):
            try:
                raise KeyError(d)  # as a table that does not know the type yet
            except KeyError:
                with pytest.raises(BackendUnavailableError, match="not plugged in"):
                    load_backend("broken")
        del d
        gc.collect()
        is_alive = kept() is not None
        assert not is_alive

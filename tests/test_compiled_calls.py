"""New arrays and random numbers: what one call of C gives is what the functions in Python give, errors included."""

from __future__ import annotations

import inspect
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.kernels.bits import DTYPES, same_bits
from xferlib.testing import configured

pytestmark = pytest.mark.skipif(
    not inspect.isbuiltin(xl.get_array_module), reason="the extension is not compiled, or not wanted"
)
api: Any = xl  # for calls that no type checker lets pass
HERE = ("numpy", *(["torch"] if xl.available_backends()["torch"].is_available else []))


def outcome(call: Callable[[], Any]) -> Any:
    """Return the type and the values of a call's result, or the type and the text of its error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = call()
    except Exception as error:
        return type(error), str(error)
    return type(made), np.array(xl.to_host(made))


def check_same(call: Callable[[], Any]) -> None:
    found = outcome(call)
    with configured(native="off"):
        expected = outcome(call)
    assert found[0] is expected[0], (found, expected)
    assert found[1] == expected[1] if isinstance(found[1], str) else same_bits(found[1], expected[1]), (found, expected)


extents = st.integers(0, 4)
shapes = st.one_of(
    extents, st.lists(extents, max_size=4).map(tuple), st.lists(extents, max_size=2),
    st.sampled_from([-1, None, (2, -1), 2.0, "3", np.int64(3), True, (np.int32(2), 3), (1,) * 33, 1 << 62]),
    st.sampled_from([(1 << 40, 1 << 40), (0, 1 << 40)]),
)  # fmt: skip
dtypes = st.one_of(
    st.sampled_from(DTYPES), st.sampled_from(DTYPES).map(np.dtype),
    st.sampled_from(DTYPES).map(lambda name: np.dtype(name).type),
    st.sampled_from([None, "nonsense", float, int, bool, ">f8", "U3", [], np.dtype("i4", metadata={"a": 1})]),
)  # fmt: skip
numbers = st.one_of(
    st.integers(-300, 300), st.integers(-(1 << 65), 1 << 65), st.floats(), st.booleans(),
    st.sampled_from([0.1, 1e39, -0.0, 1 << 24, (1 << 24) + 1, (1 << 53) + 1, None, "1", 1j, np.float32(0.1), [1]]),
)  # fmt: skip
places = st.sampled_from(
    [{}, *({"device": f"{name}:cpu"} for name in HERE), *({"backend": name} for name in HERE), {"device": "cpu"},
     {"device": "nowhere"}, {"backend": "none"}, {"order": "F"}, {"device": None, "backend": None}]
)  # fmt: skip


@settings(max_examples=150)
@given(st.sampled_from(["empty", "zeros", "ones"]), shapes, dtypes, places, st.booleans())
def test_new_arrays_are_those_of_python(
    name: str, shape: Any, dtype: Any, place: dict[str, Any], is_named: bool
) -> None:
    make = getattr(xl, name)
    given_dtype = {"dtype": dtype} if is_named else {}
    arguments = (shape,) if is_named else (shape, dtype)

    def call() -> Any:
        made = make(*arguments, **given_dtype, **place)
        return xl.zeros(made.shape, device=place.get("device")) if name == "empty" else made

    check_same(call)


@settings(max_examples=200)
@given(shapes, numbers, dtypes, places)
def test_filled_arrays_are_those_of_python(shape: Any, value: Any, dtype: Any, place: dict[str, Any]) -> None:
    check_same(lambda: api.full(shape, value, dtype, **place))
    check_same(lambda: api.full(shape, value, **place))


@settings(max_examples=150)
@given(st.lists(st.one_of(st.integers(-20, 20), numbers), min_size=1, max_size=3), st.one_of(st.none(), dtypes), places)
def test_ranges_are_those_of_python(ends: list[Any], dtype: Any, place: dict[str, Any]) -> None:
    if (
        all(isinstance(each, (int, float)) and abs(each) < 1000 for each in ends)
        and min(map(abs, ends[2:]), default=1) > 0.01
    ):
        check_same(lambda: api.arange(*ends, dtype=dtype, **place))
        check_same(lambda: api.arange(*ends, **place))


@settings(max_examples=100)
@given(st.sampled_from(DTYPES), st.sampled_from(["C", "T", "step", "swapped", "list", "number"]), dtypes, places)
def test_arrays_stay_where_they_fit_as_in_python(own: str, form: str, dtype: Any, place: dict[str, Any]) -> None:
    base = np.arange(24).reshape(4, 6).astype(own)
    forms = {"C": base, "T": base.T, "step": base[::2, ::3], "swapped": base.astype(base.dtype.newbyteorder()),
             "list": base.tolist(), "number": base[1, 1]}  # fmt: skip
    x = forms[form]
    for call in (lambda: xl.asarray(x, dtype, **place), lambda: xl.to_device(x, copy=None, dtype=dtype, **place)):
        check_same(call)
        if isinstance(outcome(call)[1], np.ndarray):
            made = call()
            with configured(native="off"):
                assert (call() is x) is (made is x)


plain = st.one_of(
    st.lists(st.floats(), max_size=4), st.lists(st.integers(-(1 << 54), 1 << 54), max_size=4),
    st.lists(st.booleans(), max_size=3), st.lists(numbers, max_size=3),
)  # fmt: skip
nested = st.one_of(
    numbers, plain, plain.map(lambda row: [row, row[::-1]]), plain.map(lambda row: [[row], [row]]),
    st.lists(plain, max_size=3), plain.map(tuple),
    st.sampled_from([[], [[]], [[], []], [np.ones(2)], [(1, 2)], [[1], 2]]),
)  # fmt: skip


@settings(max_examples=300)
@given(nested, st.one_of(st.none(), dtypes), places)
def test_lists_become_arrays_as_in_python(values: Any, dtype: Any, place: dict[str, Any]) -> None:
    options = {key: each for key, each in place.items() if key != "order"}
    check_same(lambda: api.asarray(values, dtype, **options))


@pytest.mark.skipif(len(HERE) < 2, reason="torch is not installed")
def test_tensors_stay_where_they_fit() -> None:
    import torch

    x, followed = torch.ones(3), torch.ones(3, requires_grad=True)
    for each in (x, followed, x[::2], torch.ones(2, dtype=torch.complex64).conj()):
        assert xl.to_device(each, device="torch:cpu", copy=None) is each
        assert xl.asarray(each, device="torch:cpu") is each
    with xl.use_backend("torch"):
        assert xl.asarray(x, device="cpu") is x
        assert type(xl.zeros(3)) is type(xl.arange(3)) is torch.Tensor
    assert type(xl.zeros(3, backend="numpy")) is np.ndarray
    assert type(xl.to_device(x, copy=None, device="numpy:cpu")) is np.ndarray


def test_a_block_and_a_choice_of_the_backend_are_followed() -> None:
    def kinds() -> list[type]:
        return [type(xl.zeros(2)), type(xl.zeros(2, device="cpu")), type(xl.random.default_rng(1).random(2))]

    outside = kinds()
    with xl.use_backend(HERE[-1]):
        inside = kinds()
    assert kinds() == outside
    assert inside == [type(xl.zeros(2, backend=HERE[-1]))] * 3


def test_the_functions_show_their_arguments_and_travel() -> None:
    for function in (xl.empty, xl.zeros, xl.ones, xl.full, xl.asarray, xl.arange):
        assert pickle.loads(pickle.dumps(function)) is function
        assert "device" in inspect.signature(function).parameters
        assert function.__doc__
    assert str(inspect.signature(xl.full)).startswith("(shape, fill_value, dtype=None, *, backend=None")
    for moves in (inspect.signature(xl.to_device), inspect.signature(xl.to_host)):  # without what is always refused
        kinds = {each.kind for each in moves.parameters.values()}
        assert kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


# --- random numbers

sizes = st.one_of(
    st.integers(0, 70),
    st.lists(st.integers(0, 5), max_size=3).map(tuple),
    st.sampled_from([None, -1, "a", 300, (2, 2.5)]),
)
floats = st.one_of(
    st.floats(-100, 100),
    st.integers(-5, 5),
    st.sampled_from([np.float32(0.5), float("inf"), 1e300, 1 << 25, 1 << 2000, "x"]),
)
wholes = st.one_of(
    st.integers(-3, 300), st.integers(-(1 << 64), 1 << 64),
    st.sampled_from([1 << n for n in (1, 31, 32, 33, 62, 63, 64)]), st.sampled_from([None, 2.0, np.int64(9), True]),
)  # fmt: skip


@settings(max_examples=250)
@given(st.data())
def test_random_numbers_are_those_of_the_kernels(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["random", "uniform", "normal", "integers"]))
    block = data.draw(st.sampled_from([0, 5, (1 << 32) - 3, (1 << 64) - 9, (1 << 64) - 1, 1 << 64]))
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = {"size": data.draw(sizes)}
    if name == "integers":
        arguments = (data.draw(wholes), data.draw(wholes))
        options["dtype"] = data.draw(st.sampled_from(["int64", *DTYPES, None]))
        options["endpoint"] = data.draw(st.booleans())
    else:
        options["dtype"] = data.draw(st.sampled_from(["float64", "float32", np.float32, "int8", None]))
        if name != "random":
            arguments = (data.draw(floats), data.draw(floats))
    generator = xl.random.default_rng(data.draw(st.integers(0, 9)), backend=data.draw(st.sampled_from([None, *HERE])))
    generator.set_state({**generator.state, "block": block})
    other = pickle.loads(pickle.dumps(generator))
    found = outcome(lambda: getattr(generator, name)(*arguments, **options))
    with configured(native="off"):
        expected = outcome(lambda: getattr(other, name)(*arguments, **options))
    assert found[0] is expected[0], (found, expected)
    assert found[1] == expected[1] if isinstance(found[1], str) else same_bits(found[1], expected[1]), (found, expected)
    assert generator.state == other.state


def test_integers_of_each_method_are_those_of_the_kernels() -> None:
    for count in (
        1,
        2,
        3,
        1 << 31,
        (1 << 32) - 1,
        1 << 32,
        (1 << 32) + 1,
        1 << 33,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 1,
    ):
        for low, dtype in ((-5, "int64"), (-(1 << 63), "int64"), (0, "uint64"), (0, "uint32"), (-(1 << 31), "int32")):
            check_same(lambda: xl.random.default_rng(3).integers(low, low + count, 9, dtype))  # noqa: B023 - called here
            check_same(lambda: xl.random.default_rng(3).integers(low, low + count - 1, 9, dtype, endpoint=True))  # noqa: B023


def test_many_numbers_are_those_of_the_kernels() -> None:
    for name, dtype in (("random", "float32"), ("random", "float64"), ("normal", "float32"), ("normal", "float64")):
        with xl.use_backend("numpy"):
            one, two = xl.random.default_rng(4), xl.random.default_rng(4)
            found = getattr(one, name)(size=40_003, dtype=dtype)
            with configured(native="off"):
                assert same_bits(found, getattr(two, name)(size=40_003, dtype=dtype))


def test_threads_take_no_block_twice() -> None:
    generator = xl.random.default_rng(1)
    drawn: list[float] = []
    size: Any = (np.int64(2),)

    def draw() -> None:
        for _ in range(300):
            drawn.extend(generator.random(2).tolist())
            drawn.extend(xl.to_host(generator.random(size)).tolist())  # by way of Python

    workers = [threading.Thread(target=draw) for _ in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert len(set(drawn)) == len(drawn) == 4800
    assert generator.state["block"] == 2400

"""The block in which tensors' operators and indexing do what NumPy's do; outside it nothing changes."""

from __future__ import annotations

import asyncio
import itertools
import operator
import os
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

torch = pytest.importorskip("torch")

from torch import overrides  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402

import xferlib as xl  # noqa: E402
from tests.comparing import FORMS, SCALARS, TABLE, difference, label, numpys, report, rules  # noqa: E402
from tests.processes import TORCH, printed  # noqa: E402
from xferlib.errors import ArgumentError, LayoutError, UnsupportedArrayError  # noqa: E402
from xferlib.testing import DTYPES, configured  # noqa: E402

OPERATORS: dict[str, Callable[..., Any]] = {
    name: getattr(operator, f"__{each}__") for each, name in {**rules.BINARY_OPERATORS, **rules.COMPARISONS}.items()
}
IN_PLACE = {name: getattr(operator, f"__i{each}__") for each, name in rules.BINARY_OPERATORS.items()}
ONE: dict[str, Callable[..., Any]] = {
    "negative": operator.neg, "positive": operator.pos, "abs": operator.abs, "bitwise_invert": operator.invert,
}  # fmt: skip
xp: Any = xl.get_array_module(torch.ones(1))
ENTRIES = TABLE["torch, CPU"]


@pytest.fixture
def block() -> Iterator[None]:
    with xp.numpy_operators():
        yield


def _tensor(x: Any) -> Any:
    return torch.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x


def _wrong(name: str, operate: Callable[..., Any], *args: Any) -> tuple[str, str | None]:
    """A call, and the difference from NumPy's result."""
    expected = numpys(operate, *(x.copy() if isinstance(x, np.ndarray) else x for x in args))
    found = numpys(operate, *map(_tensor, args))
    first = args[0].dtype.name if hasattr(args[0], "dtype") else ""
    return f"{name}({', '.join(map(label, args))})", difference(ENTRIES, name, found, expected, refuses=first)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.usefixtures("block")
def test_operators_of_two_give_numpys_dtype_shape_and_values(name: str) -> None:
    wrong = []
    for one, two in itertools.product(DTYPES, DTYPES):
        if "complex" not in one + two or name not in ("less", "less_equal", "greater", "greater_equal"):
            for first, second in (("array", "0-d"), ("0-d", "array"), ("array", "array"), ("array", "scalar")):
                wrong.append(_wrong(name, OPERATORS[name], FORMS[first](one), FORMS[second](two)))
    for one, scalar in itertools.product(DTYPES, SCALARS):
        if "complex" not in one and scalar != 2j and (name, one) != ("pow", "bool"):  # NumPy squares, in int8
            wrong.append(_wrong(name, OPERATORS[name], FORMS["array"](one), scalar))
            wrong.append(_wrong(name, OPERATORS[name], scalar, FORMS["array"](one)))
    report(wrong)


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.usefixtures("block")
def test_operators_in_place_keep_the_dtype_or_refuse_as_numpy_does(name: str) -> None:
    pairs = [(FORMS["array"](one), FORMS["0-d"](two)) for one, two in itertools.product(DTYPES, DTYPES)]
    report([_wrong(name, IN_PLACE[name], one, two) for one, two in pairs])


@pytest.mark.usefixtures("block")
def test_operators_of_one_and_products_of_matrices_give_numpys_dtype_shape_and_values() -> None:
    wrong = [
        _wrong(name, ONE[name], FORMS[form](dtype)) for name in ONE for dtype in DTYPES for form in ("array", "0-d")
    ]
    pairs = [(FORMS["array"](one), FORMS["array"](two)) for one, two in itertools.product(DTYPES, DTYPES)]
    report(wrong + [_wrong("matmul", operator.matmul, one, two) for one, two in pairs])


def _keys(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    basic = hnp.basic_indices(shape, allow_newaxis=True)
    if not shape or 0 in shape:
        return basic
    rows = st.lists(st.integers(0, shape[0] - 1), min_size=1, max_size=3).map(lambda found: np.array(found))
    steps = [st.slices(extent) for extent in shape[1:]]
    return basic | st.tuples(rows, *steps) | hnp.arrays(bool, shape[0])


def _as_tensors(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(_as_tensors, key))
    return _tensor(key)


@pytest.mark.usefixtures("block")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_arrays_are_read_and_written_at_numpys_keys(data: Any) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    dtype, key = data.draw(st.sampled_from(DTYPES)), data.draw(_keys(shape))
    host = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    tensor = _tensor(host)
    np.testing.assert_array_equal(tensor[_as_tensors(key)].numpy(), host[key], strict=True)
    value = np.flip(host[key] * 0 + 1 if dtype != "bool" else ~host[key])
    tensor[_as_tensors(key)] = _tensor(np.asarray(value))
    host[key] = value
    np.testing.assert_array_equal(tensor.numpy(), host)


@pytest.mark.usefixtures("block")
def test_a_negative_step_reads_numbers_and_masks_too() -> None:
    host = np.arange(24.0).reshape(2, 3, 4)
    mask = host[0] % 2 == 0
    cases: list[Any] = [
        (0, slice(None, None, -1)), (..., slice(None, None, -2)), (np.int64(-1), slice(2, 0, -1)),
        (None, slice(None, None, -1), mask), (slice(None, None, -1), [0, 2]), (slice(0, 2, -1),),
    ]  # fmt: skip
    for key in cases:
        np.testing.assert_array_equal(_tensor(host)[_as_tensors(key)].numpy(), host[key])
    tensor = _tensor(host)
    tensor[::-1, 0, ::-3] = np.float32(7)
    host[::-1, 0, ::-3] = 7
    np.testing.assert_array_equal(tensor.numpy(), host)
    with pytest.raises(IndexError):
        _ = tensor[5, ::-1]


@pytest.mark.usefixtures("block")
def test_small_integers_are_indices_and_empty_masks_choose_nothing() -> None:
    x = torch.arange(3)
    assert x[torch.tensor([2, 0, 1], dtype=torch.uint8)].tolist() == [2, 0, 1]
    assert x[torch.zeros(0, dtype=torch.bool)].tolist() == []
    for shape in ((2, 0), (0, 3), (0, 0, 0)):
        with pytest.raises(IndexError):
            _ = torch.ones(3, 4)[torch.zeros(shape, dtype=torch.bool)]


@pytest.mark.usefixtures("block")
def test_gradients_pass_through() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x[::-2] / torch.tensor([2, 4])).sum().backward()
    assert x.grad.tolist() == [0.25, 0, 0.5]


@pytest.mark.usefixtures("block")
def test_what_does_not_fit_in_place_or_is_no_number_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"divide in place: a int32 tensor .* write x = x \+ y"):
        operator.itruediv(torch.ones(2, dtype=torch.int32), 2)
    x = torch.ones(2)
    assert x.__eq__(None) is NotImplemented or (x == None) is False  # noqa: E711
    with pytest.raises(TypeError):
        _ = x + "a"


def test_the_block_ends_and_is_the_threads_own() -> None:
    ints, found = torch.ones(2, dtype=torch.int32), []
    with xp.numpy_operators():
        assert (ints / 2).dtype == torch.float64
        other = threading.Thread(target=lambda: found.append((ints / 2).dtype))
        other.start()
        other.join()
    assert found == [torch.float32]
    assert (ints / 2).dtype == torch.float32
    with pytest.raises(ValueError, match="step"):
        _ = ints[::-1]


def test_assignments_convert_and_overlap_as_numpys() -> None:
    for dtype in ("uint8", "uint16", "int64", "float32", "bool"):
        host = (np.arange(9) % 5).astype(dtype).reshape(3, 3)
        tensor = torch.from_numpy(host.copy())
        with xp.numpy_operators():
            for each in (host, tensor):
                each[np.bool_(True), 0] = 2.0
                each[1] = np.float32(1)
                each[...] = each.T
                each[1:] = each[:-1]
                each[:, ::-1] = each
        np.testing.assert_array_equal(tensor.numpy(), host)


_NUMBERS = st.one_of(st.integers(-200, 200), st.sampled_from([0.1, -2.5, 1e39, -1e300, float("inf"), True, 1 << 40]))


@pytest.mark.usefixtures("block")
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    dtype=st.sampled_from(["uint8", "int32", "int64", "float16", "float32", "float64"]),
    name=st.sampled_from(["add", "subtract", "multiply"]), begin=st.integers(0, 4), step=st.integers(1, 2),
    number=_NUMBERS,
)  # fmt: skip
def test_views_of_one_array_and_numbers_change_another_in_place_as_numpys(
    dtype: str, name: str, begin: int, step: int, number: Any
) -> None:
    host = (np.arange(12) % 7 + 1).astype(dtype)
    tensor = _tensor(host)
    with np.errstate(all="ignore"):
        for each in (host, tensor):
            IN_PLACE[name](each[begin : begin + 4 * step : step], each[:4])
        np.testing.assert_array_equal(tensor.numpy(), host)
        outcomes = []
        for each in (host, tensor):
            try:
                IN_PLACE[name](each[2:9], number)
                each[0] = number
            except (TypeError, ValueError, OverflowError) as error:  # as NumPy's, and UFuncTypeError
                outcomes.append(type(error).__name__ != "")
            else:
                outcomes.append(False)
    assert outcomes[0] == outcomes[1]
    np.testing.assert_array_equal(tensor.numpy(), host)


def test_assignments_that_numpy_refuses_are_refused() -> None:
    tensor = torch.zeros(3, dtype=torch.uint16)
    with xp.numpy_operators():
        for wrong in (1 << 16, -1):
            with pytest.raises(OverflowError):
                tensor[0] = wrong
        with pytest.raises(UnsupportedArrayError, match="assignment: NoneType"):
            tensor[0] = None
        with pytest.raises(IndexError, match=r"several '\.\.\.'"):
            tensor[..., ...]
        with pytest.raises(LayoutError, match=r"assignment: shapes \(2,\) and \(3,\)"):
            tensor[1:] = tensor
        with pytest.raises(LayoutError, match="does not fit into"):
            tensor += torch.zeros((2, 3), dtype=torch.uint16)


# --- by a setting


def test_a_setting_gives_every_thread_that_uses_xferlib_numpys_operators() -> None:
    """In each by the first of these calls, beneath modes that are open there, until the setting is taken back."""
    tensor = torch.arange(4)
    firsts: list[Callable[[], Any]] = [
        lambda: xl.get_array_module(tensor), lambda: xl.zeros(2), lambda: xl.to_device(np.arange(3)),
        lambda: xl.get_device("torch"), lambda: xl.get_array_module(tensor).arange(3),
    ]  # fmt: skip

    def work(first: Callable[[], Any]) -> list[Any]:
        torch.set_default_device("cpu")  # whose mode torch keeps lowest
        with torch.device("cpu"), _Counting() as counting:
            first()
            found = [(tensor * 0.5).dtype, (xp.arange(4) * 0.5).dtype]
        found += [(tensor * 0.5).dtype, tensor[::-1].tolist()]
        return [*found, counting.count > 0]

    def in_threads() -> None:  # all of them new ones: the setting stays in the one that gives it
        with xl.use_backend("numpy"), configured(torch_operators="numpy"):
            for first in firsts:
                xl.get_array_module(tensor)
                with ThreadPoolExecutor(1, initializer=lambda: xl.use_backend("torch").__enter__()) as new_thread:
                    assert new_thread.submit(work, first).result() == [*[torch.float64] * 3, [3, 2, 1, 0], True]
                    with configured(torch_operators="torch"):
                        assert new_thread.submit(lambda: (tensor * 0.5).dtype).result() == torch.float32

    with ThreadPoolExecutor(1) as new_thread:
        new_thread.submit(in_threads).result()
        with pytest.raises(ValueError, match="step"):
            new_thread.submit(work, firsts[0]).result()


class _Counting(TorchFunctionMode):
    count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


TOLD = """
import os, warnings
import numpy as np
import torch

for variables, program in {cases!r}:  # each in a process of its own, that need not import torch
    if not (child := os.fork()):
        try:
            os.environ.update(variables)
            import xferlib as xl
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                for _ in range(2):
                    exec(program)
            os.write(1, b"%d " % len([each for each in found if "XFERLIB_TORCH_OPERATORS=numpy" in str(each.message)]))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
"""
BY_TORCH = {"XFERLIB_BACKEND": "torch", "XFERLIB_DEVICE": "", "XFERLIB_TORCH_OPERATORS": ""}
WHERE_TOLD: list[tuple[dict[str, str], str, int]] = [
    (BY_TORCH, "xl.get_array_module(xl.zeros(3)).arange(4) * 0.5", 1),
    ({**BY_TORCH, "XFERLIB_BACKEND": "", "XFERLIB_DEVICE": "torch:cpu"}, "xl.arange(4) * 0.5; xl.asarray([1])", 1),
    (BY_TORCH, "xl.zeros(3) * 0.5; xl.linspace(0, 1, 3)", 0),
    (BY_TORCH, "xl.use_backend('torch'); xl.arange(3)", 0),
    ({**BY_TORCH, "XFERLIB_TORCH_OPERATORS": "torch"}, "xl.arange(3)", 0),
]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_torch_by_the_variable_alone_is_told_once_where_numbers_promote_otherwise() -> None:
    found = printed("-c", TOLD.format(cases=[case[:2] for case in WHERE_TOLD]), after=TORCH)
    assert [int(each) for each in found.split()] == [case[2] for case in WHERE_TOLD]


# --- warnings


WARNED: list[tuple[str, int]] = [
    ("integers * 0.5", 1), ("integers / 2", 1), ("integers + floats", 0), ("integers + singles", 1),
    ("integers + 1", 0),
    ("singles * 0.5", 0), ("flags + flags", 0), ("0.5 * integers", 1), ("-integers", 0), ("integers < 0.5", 0),
    ("singles.max(0)", 1), ("singles.max()", 0), ("singles.std()", 1), ("singles.std(correction=0)", 0),
    ("singles.var(unbiased=True)", 0), ("torch.std(singles)", 0), ("xp.std(singles)", 0), ("singles.sum(0)", 0),
    ("torch.nn.functional.gumbel_softmax(singles, hard=True)", 0),
]  # fmt: skip


@pytest.mark.parametrize(("line", "count"), WARNED, ids=[line for line, _ in WARNED])
def test_a_setting_warns_once_for_each_line_where_numpys_result_is_another(line: str, count: int) -> None:
    """Of the program's own lines: torch's functions mean what they say."""
    values = {
        "integers": torch.arange(4), "floats": torch.ones(4, dtype=torch.float64), "singles": torch.ones(4),
        "flags": torch.ones(4, dtype=torch.bool), "torch": torch, "xp": xp,
    }  # fmt: skip
    code = compile(line, f"<{line}, {uuid.uuid4()}>", "eval")

    def work() -> list[str]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            xl.get_array_module(values["floats"])
            for _ in range(2):
                eval(code, values)
        return [str(each.message) for each in found]

    found = _in_new_thread(work)
    assert len(found) == count, found


def _in_new_thread(work: Callable[[], Any]) -> Any:
    """Work where operators warn, in a thread that ends with it: a thread keeps what the setting has given it."""

    def warned() -> Any:
        with configured(torch_operators="warn"):
            return work()

    with ThreadPoolExecutor(1) as new_thread:
        return new_thread.submit(warned).result()


def test_numpys_numbers_are_assigned_where_operators_warn() -> None:
    def work() -> list[float]:
        x = torch.zeros(3)
        xl.get_array_module(x)
        x[1] = np.float32(2.5)
        x[2] = np.int64(3)
        return list(x.tolist())

    assert _in_new_thread(work) == [0.0, 2.5, 3.0]


# --- by the choice of a backend

RULES = {"numpy": torch.float64, "torch": torch.float32, "warn": torch.float32}


def _half() -> Any:
    """The dtype of half an integer tensor, which tells whose operators hold; no call of xferlib's comes before."""
    return (torch.arange(4) * 0.5).dtype


@settings(max_examples=30)
@given(st.lists(st.sampled_from([*RULES, None]), max_size=5), st.sampled_from([*RULES, None]))
def test_the_innermost_choice_of_operators_holds_in_its_block_and_thread(rules: list[str | None], process: Any) -> None:
    """Then that of a plain call, then the setting, which says 'torch' here."""

    def nest(rest: list[Any], around: Any) -> None:
        assert _half() is around
        if rest:
            with xl.use_backend("torch", operators=rest[0]):
                nest(rest[1:], RULES.get(rest[0], around))
            assert _half() is around

    def work() -> None:
        with configured(torch_operators="torch"):
            if process is not None:
                xl.use_backend("torch", operators=process)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                nest(rules, RULES.get(process, torch.float32))
                with (
                    xl.use_backend("torch", operators="numpy" if process != "numpy" else "torch"),
                    ThreadPoolExecutor(1) as other,  # which has the choice of the process from its first array on
                ):
                    found = other.submit(lambda: (xl.get_array_module(torch.ones(2)), _half())[1]).result()
        assert found is RULES.get(process, torch.float32)

    with ThreadPoolExecutor(1) as new_thread:
        new_thread.submit(work).result()


def test_a_plain_choice_of_operators_holds_at_once_and_until_the_next_one() -> None:
    with ThreadPoolExecutor(1) as new_thread, configured(torch_operators="torch"):

        def work() -> list[Any]:
            found = []
            for rules in ("numpy", "torch", "numpy", None):
                xl.use_backend("torch", operators=rules)
                found.append(_half())
            with xl.use_backend("torch"):
                xl.use_backend("torch", operators="numpy")  # until the block ends
                found.append(_half())
            return [*found, _half()]

        expected = [RULES[each] for each in ("numpy", "torch", "numpy", "torch", "numpy", "torch")]
        assert new_thread.submit(work).result() == expected


def test_tasks_of_one_thread_have_operators_of_their_own() -> None:
    async def work(rules: Any) -> set[Any]:
        found = set()
        with xl.use_backend("torch", operators=rules):
            for _ in range(5):
                await asyncio.sleep(0)
                found.add(_half())
        return found

    async def both() -> list[set[Any]]:
        return [*await asyncio.gather(work("numpy"), work("torch"))]

    with configured(torch_operators="torch"):
        assert asyncio.run(both()) == [{torch.float64}, {torch.float32}]
        assert _half() is torch.float32


def test_a_block_leaves_no_mode_behind_in_its_thread() -> None:
    """A mode costs a microsecond an operation, also one that changes nothing."""

    def work() -> list[int]:
        count = overrides._len_torch_function_stack
        with configured(torch_operators="torch"):
            before = count()
            with _Counting(), xl.use_backend("torch", operators="numpy"):
                within = count()
            return [before, within, count()]

    with ThreadPoolExecutor(1) as new_thread:
        before, within, after = new_thread.submit(work).result()
    assert (within, after) == (before + 2, before)


def test_operators_that_a_backend_does_not_have_are_refused_before_anything_changes() -> None:
    before = xl.get_backend()
    for name, chosen in (("torch", "cupy"), ("torch", True), ("numpy", "torch"), ("sim", "warn")):
        with pytest.raises(ArgumentError, match=f"use_backend: operators={chosen!r} with {name}, whose .* leave"):
            xl.use_backend(name, operators=chosen)  # type: ignore[arg-type]
        assert xl.get_backend() is before
    for name in ("numpy", "sim"):
        with xl.use_backend(name, operators="numpy"):
            assert xl.get_backend().name == name

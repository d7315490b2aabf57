"""C functions called by address, compiled and through ctypes, and whole copies in one step."""

from __future__ import annotations

import contextvars
import ctypes
import functools
import gc
import itertools
import re
import struct
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from xferlib import _native
from xferlib._native import build
from xferlib.testing import assert_same_bits, fresh_registry
from xferlib.testing.strategies import bits_of
from xferlib.testing.tools import in_threads, load_backend

pytestmark = pytest.mark.usefixtures("compiled_parts")

WORD, LARGEST = ctypes.c_uint64, (1 << 64) - 1
CONTEXT = 0xC0
compiled = pytest.mark.skipif(_native._load_calls()[0] is None, reason=f"calls in C: {_native.why_calls_absent()}")


@pytest.fixture(params=[pytest.param("compiled", marks=compiled), "ctypes"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(_native, "is_wanted", lambda: request.param == "compiled")
    return str(request.param)


def address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def test_arguments_and_result_arrive_whole(way: str) -> None:
    for count, keeps_lock in itertools.product(range(5), (True, False)):
        seen: list[tuple[int, ...]] = []
        noted = ctypes.CFUNCTYPE(ctypes.c_int, *[WORD] * count)(lambda *given, seen=seen: seen.append(given) or -7)
        words = (LARGEST, 0, 1 << 63, 12345)[:count]
        assert _native.bind(address_of(noted), count, keeps_lock=keeps_lock)(*words) == -7
        assert seen == [words]


def test_wrong_arguments_are_refused_and_nothing_is_called(way: str) -> None:
    never = ctypes.CFUNCTYPE(ctypes.c_int, WORD, WORD)(lambda *_: pytest.fail("called"))
    call = _native.bind(address_of(never), 2, keeps_lock=True)
    for wrong in ((), (1,), (1, 2, 3)):
        if way == "compiled" or len(wrong) < 2:  # ctypes takes more than a C function declares
            with pytest.raises(TypeError):
                call(*wrong)
    if way == "compiled":
        for given in (-1, LARGEST + 1, 1.0, None, "1"):
            with pytest.raises((TypeError, OverflowError)):
                call(given, 1)
        for address, count in ((0, 1), (1, 5), (1, -1)):
            with pytest.raises(ValueError, match="needs an address and 0 to 4"):
                _native.bind(address, count, keeps_lock=True)
        with pytest.raises(ValueError, match="needs an address"):
            _native.bind_question(0)


@pytest.mark.parametrize(("fails", "expected"), [(0, LARGEST - 1), (1, 0)])
def test_a_question_has_its_answer(way: str, fails: int, expected: int) -> None:
    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(WORD))
    def asked(answer: Any) -> int:
        answer[0] = LARGEST - 1
        return fails

    ask = _native.bind_question(address_of(asked))
    assert [ask(), ask()] == [expected, expected]


def test_a_function_that_waits_lets_other_threads_run(way: str) -> None:
    entered, go = threading.Event(), threading.Event()

    @ctypes.CFUNCTYPE(ctypes.c_int)
    def waits() -> int:
        entered.set()
        return int(go.wait(60))

    results: list[int] = []
    call = _native.bind(address_of(waits), 0, keeps_lock=False)
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    assert entered.wait(60)
    go.set()
    thread.join()
    assert results == [1]


# --- compiling


def _name(path: str | Path) -> str:
    return Path(path).name


def test_the_module_is_compiled_where_there_is_a_compiler() -> None:
    """Otherwise all tests of compiled code would be skipped unnoticed."""
    posix_only = {name: library for name, library in build.LIBRARIES.items() if name in build.POSIX_ONLY}
    assert {
        _name(_native.SOURCE): _name(_native.LIBRARY),
        _name(_native.CALLS_SOURCE): _name(_native.CALLS_LIBRARY),
        **posix_only,
    } == build.LIBRARIES
    if not build._compiler():
        pytest.skip("no C compiler")
    assert all(Path(build.FOLDER, library).is_file() for library in posix_only.values())
    assert not _native.why_absent()
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        pytest.skip("no CPython headers")
    assert not _native.why_calls_absent()


@compiled
def test_a_module_of_another_source_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "checksum", lambda: 12345)
    with pytest.raises(ImportError, match=r"other C files; run python -m xferlib\._native\.build"):
        _native.load_calls(_native.MODULE)


@compiled
def test_constants_of_python_that_c_returns_are_counted() -> None:
    """Python 3.11 counts their references. Headers of 3.12 do not, and what they have made runs in 3.11 too."""
    folder = Path(_native.CALLS_SOURCE).parent
    used = {name for path in folder.glob("*.c") for name in re.findall(r"\bPy_RETURN_\w+", path.read_text("utf-8"))}
    counted = re.findall(r"#define (Py_RETURN_\w+) return Py_NewRef", Path(folder, "calls.h").read_text("utf-8"))
    assert used <= {*counted}
    module: Any = _native._load_calls()[0]
    before = sys.getrefcount(None)
    for _ in range(1000):
        module.inherit_vectorcall(type(xl.elementwise(lambda x: x)))
    assert sys.getrefcount(None) > before - 500


def test_without_the_headers_of_python_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_compiler", lambda: ["cc"])
    assert "python3-dev" in build.build(Path(_native.CALLS_SOURCE), tmp_path / "_calls.abi3.so", 1, tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_the_module_the_remedy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "CALLS_LIBRARY", str(tmp_path / "absent"))
    monkeypatch.setattr(_native, "_load_calls", _native._load_calls.__wrapped__)
    assert "python -m xferlib._native.build" in _native.why_calls_absent()


@compiled
def test_arrays_are_located_where_they_lie() -> None:
    arrays = [bits_of(12, np.int16, seed=n) for n in range(5)]
    arrays[2].flags.writeable = False
    parts = (_native.Part * 5)()
    locate = _native.find_calls().locate
    places = [100 + 64 * n for n in range(5)]
    assert locate(arrays, places, ctypes.addressof(parts)) == 0
    assert [(part.host, part.place, part.nbytes) for part in parts] == [
        (array.ctypes.data, place, 12) for array, place in zip(arrays, places, strict=True)
    ]
    arrays[1] = arrays[1][::2]  # no plain bytes
    assert locate(arrays, places, ctypes.addressof(parts)) == 1
    assert [part.host is None for part in parts] == [False, True, False, False, False]
    assert locate([], [], ctypes.addressof(parts)) == 0
    there = ctypes.addressof(parts)
    for wrong in ((tuple(arrays), places, there), (arrays, places), (arrays, [1], there), ([3], [1], there)):
        with pytest.raises(TypeError):
            locate(*wrong)
    with pytest.raises(TypeError):
        locate(arrays, ["x"] * 5, there)


@compiled
def test_a_strided_array_has_no_single_address() -> None:
    find = _native.find_calls().address
    assert find(np.arange(6).reshape(2, 3).T) == find(np.arange(6)[::2]) == 0
    with pytest.raises(TypeError):
        find(3)


# --- a copy between two streams


class Streams:
    """Notes the requests to a driver, each in the current context; the request of that number fails."""

    def __init__(self, failing: int = -1, context: int = 0) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.context = context
        self._failing = failing
        note = self._note
        self.functions = (
            ctypes.CFUNCTYPE(ctypes.c_int, WORD, WORD)(lambda *given: note("record", *given)),
            ctypes.CFUNCTYPE(ctypes.c_int, WORD, WORD, WORD)(lambda *given: note("wait", *given)),
            ctypes.CFUNCTYPE(ctypes.c_int, WORD, WORD, WORD, WORD)(lambda *given: note("copy", *given)),
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(WORD))(self._tell),
            ctypes.CFUNCTYPE(ctypes.c_int, WORD)(self._enter),
        )

    def _note(self, *request: Any) -> int:
        self.asked.append((*request, self.context) if self.context else request)
        return 700 if len(self.asked) - 1 == self._failing else 0

    def _tell(self, answer: Any) -> int:
        answer[0] = self.context
        return 0

    def _enter(self, context: int) -> int:
        self.context = context
        return 0

    def bound(self) -> Callable[..., int]:
        made = _native.bind_copy_behind(*map(address_of, self.functions))
        assert made is not None
        return made


TARGET, SOURCE, OWNER, FREE, CARRIER, COPIED = LARGEST, 1 << 63, 0, 11, 12, 13
REQUESTS = [
    ("record", FREE, OWNER),
    ("wait", CARRIER, FREE, 0),
    ("copy", TARGET, SOURCE, 4096, CARRIER),
    ("record", COPIED, CARRIER),
]


@compiled
@pytest.mark.parametrize("failing", range(-1, 4))
def test_a_copy_comes_behind_another_streams_work_and_nothing_after_a_failure(failing: int) -> None:
    streams = Streams(failing)
    result = streams.bound()(TARGET, SOURCE, 4096, OWNER, FREE, CARRIER, COPIED, 0, 0, False)
    assert result == (0 if failing < 0 else 700)
    assert streams.asked == (REQUESTS if failing < 0 else REQUESTS[: failing + 1])


@compiled
@pytest.mark.parametrize("current", [21, 22, 23])
@pytest.mark.parametrize("failing", range(-1, 5))
def test_a_copy_between_devices_asks_in_the_context_of_each_stream_and_leaves_both(failing: int, current: int) -> None:
    streams = Streams(failing, current)
    result = streams.bound()(TARGET, SOURCE, 4096, OWNER, FREE, CARRIER, COPIED, 21, 22, True)
    assert result == (0 if failing < 0 else 700)
    places = [21, 22, 22, 22, 21]
    expected = [(*each, place) for each, place in zip([*REQUESTS, ("wait", OWNER, COPIED, 0)], places, strict=True)]
    assert streams.asked == (expected if failing < 0 else expected[: failing + 1])
    assert streams.context == current


@compiled
def test_a_copy_between_streams_asks_for_nothing_where_an_argument_is_wrong() -> None:
    streams = Streams()
    enqueue = streams.bound()
    with pytest.raises(TypeError, match="10 arguments, not 6"):
        enqueue(TARGET, SOURCE, 4096, OWNER, FREE, CARRIER)
    for wrong in (-1, LARGEST + 1, None):
        with pytest.raises((TypeError, OverflowError)):
            enqueue(TARGET, SOURCE, 4096, OWNER, FREE, CARRIER, wrong, 0, 0, False)
    assert not streams.asked
    with pytest.raises(ValueError, match="needs an address"):
        _native.bind_copy_behind(address_of(streams.functions[0]), 0, 1, 1, 1)


def test_without_the_module_no_function_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "is_wanted", lambda: False)
    assert _native.bind_copy_behind(1, 1, 1, 1, 1) is None
    assert _native.bind_copy_each(1) is None
    assert _native.find_calls() is None


@compiled
def test_small_arrays_of_a_list_are_copied() -> None:
    copied = _native.find_calls().copy_small

    class Other(np.ndarray[Any, Any]):
        pass

    arrays = [np.arange(3), np.arange(4.0)[::2], np.arange(3, dtype=">i4"), np.zeros(100), np.zeros(2).view(Other)]
    given = [*arrays, np.zeros(2, "M8[s]"), "text", None, np.float64(3)]
    made, others = copied(given, 100)
    assert others == 7
    assert [one is two for one, two in zip(made, given, strict=True)] == [False, False, *[True] * 7]
    assert_same_bits(made[0], arrays[0])
    assert_same_bits(made[1], arrays[1].copy())
    wrongs: Any = (((), 1), ([], "x"), ([],))
    for wrong in wrongs:
        with pytest.raises(TypeError):
            copied(*wrong)


@compiled
@pytest.mark.parametrize("count", [0, 1, 2, 9, 5000])
def test_an_object_that_is_twice_in_a_list_is_found(count: int) -> None:
    is_distinct = _native.find_calls().is_distinct
    objects = [object() for _ in range(count)]
    assert is_distinct(objects)
    for number in {0, count // 2, count - 1} if count else ():
        assert not is_distinct([*objects, objects[number]])
    with pytest.raises(TypeError):
        is_distinct(())


@compiled
def test_plain_containers_are_taken_apart_and_built_anew() -> None:
    flat, rebuilt = _native.find_calls().flatten, _native.find_calls().rebuild
    one, two, odd = np.ones(3), np.zeros(2), object()
    tree = {"a": [one, (two, 1.5, None)], 7: {}, "b": (), "c": {"d": one}}
    leaves = flat(tree, {np.ndarray: object()}, {float, type(None)})
    assert [id(leaf) for leaf in leaves or ()] == [id(leaf) for leaf in (one, two, 1.5, None, one)][:2] + [
        id(tree["a"][1][1]), id(None), id(one)  # type: ignore[index]
    ]  # fmt: skip
    assert rebuilt(tree, ["v", "w", "x", "y", "z"]) == {"a": ["v", ("w", "x", "y")], 7: {}, "b": (), "c": {"d": "z"}}
    assert tree["c"] == {"d": one}
    assert flat(one, {np.ndarray: object()}, set()) == [one]
    assert flat([one, odd], {np.ndarray: object()}, set()) is None
    assert flat([one], {np.ndarray: None}, set()) is None  # a type that is known to be no array's
    wrongs: Any = ((tree, {}), (tree, [], set()), (tree, {}, []))
    for wrong in wrongs:
        with pytest.raises(TypeError):
            flat(*wrong)
    wrongs = ((tree,), (tree, ()))
    for wrong in wrongs:
        with pytest.raises(TypeError):
            rebuilt(*wrong)


@compiled
def test_a_tree_that_was_changed_meanwhile_or_is_nested_without_end_is_found_out() -> None:
    flat, rebuilt = _native.find_calls().flatten, _native.find_calls().rebuild
    tree: list[Any] = [1.0, [2.0, 3.0]]
    leaves = flat(tree, {}, {float})
    assert leaves == [1.0, 2.0, 3.0]
    for change in (lambda: tree[1].append(4.0), tree[1].clear):
        change()
        with pytest.raises(RuntimeError, match="the tree was changed while its arrays were copied"):
            rebuilt(tree, leaves)
    tree.append(tree)
    assert flat(tree, {}, {float}) is None
    deep: Any = 1.0
    for _ in range(100):
        deep = [deep]
    assert flat(deep, {}, {float}) == [1.0]
    assert flat({"deeper": deep}, {}, {float}) is None


# --- many copies


COPY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)


@compiled
def test_many_copies_are_one_call_and_end_with_the_first_that_fails() -> None:
    made: list[tuple[int, ...]] = []

    def copy(*arguments: int) -> int:
        made.append(arguments)
        return 7 if arguments[0] == 30 else 0

    called = COPY(copy)
    copies = _native.bind_copy_each(ctypes.cast(called, ctypes.c_void_p).value or 0)
    assert copies is not None
    assert copies([10, 20], [1, 2], [100, 200], 5) == 0
    assert made == [(10, 1, 100, 5), (20, 2, 200, 5)]
    assert copies([2**64 - 1, 30, 40], [1, 2, 3], [4, 5, 6], 0) == 7
    assert [each[0] for each in made[2:]] == [2**64 - 1, 30]
    assert copies([], [], [], 0) == 0
    for wrong in (([1], [1], [1]), ([1], [1, 2], [1], 0), ((1,), [1], [1], 0), ([1], [1], ["x"], 0)):
        with pytest.raises(TypeError):
            copies(*wrong)
    with pytest.raises(OverflowError):
        copies([-1], [1], [1], 0)
    with pytest.raises(ValueError, match="address"):
        _native.bind_copy_each(0)


# --- launches

Field = _native.LaunchField
NOT_FIT = _native.NOT_FIT
CONFIG, STREAM_AT = bytes(range(56)), 32
RANGES = {code: (-(1 << bits - 1), (1 << bits - 1) - 1) for code, bits in zip("bhiq", (8, 16, 32, 64), strict=True)}
RANGES |= {code: (0, (1 << bits) - 1) for code, bits in zip("BHIQ", (8, 16, 32, 64), strict=True)}


def on_stream(config: bytes, handle: int) -> bytes:
    """A configuration with a stream in it."""
    return config[:STREAM_AT] + struct.pack("Q", handle) + config[STREAM_AT + 8 :]


class Owned:
    """A library's array, as the C code sees it: something that leads to an address."""

    def __init__(self, pointer: Any) -> None:
        self.data = SimpleNamespace(ptr=pointer)

    def data_ptr(self) -> Any:
        return self.data.ptr


class Launcher:
    """Notes what it is launched with."""

    def __init__(self, sizes: list[int], *results: int) -> None:
        results = results or (0,)
        self.seen: list[tuple[bytes, int, list[bytes]]] = []
        words = ctypes.POINTER(ctypes.c_void_p)

        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, words, words)
        def launch(config: int, kernel: int, arguments: Any, _: Any) -> int:
            values = [ctypes.string_at(arguments[n], size) for n, size in enumerate(sizes)]
            self.seen.append((ctypes.string_at(config, len(CONFIG)), kernel, values))
            return results[min(len(self.seen), len(results)) - 1]

        self._kept = launch
        self.address = ctypes.cast(launch, ctypes.c_void_p).value or 0


def bound(driver: Launcher, fields: tuple[Field, ...], **options: Any) -> Any:
    matches = options.get("matches", lambda *arrays: True)
    address = options.get("address", _native.ArrayAddress(("data", "ptr")))
    run = _native.bind_launch(driver.address, 77, CONFIG, STREAM_AT, matches, address, options.get("note"), fields)
    assert run is not None
    return run


@compiled
def test_arguments_stream_and_result_arrive() -> None:
    driver = Launcher([8, 4, 8], 719)
    fields = (
        Field(Owned, "A", 0, 3),
        Field(int, "i", 8),
        Field(float, "d", 16),
    )
    run = bound(driver, fields)
    assert run((Owned(4096), -5, 0.1), 0xABCD) == 719
    assert run([Owned(8), 6, 2.0], 0) == 719
    (config, kernel, values), (_, _, others) = driver.seen
    assert config == CONFIG[:STREAM_AT] + struct.pack("Q", 0xABCD) + CONFIG[STREAM_AT + 8 :]
    assert kernel == 77
    assert values == [struct.pack("Q", 4096), struct.pack("i", -5), struct.pack("d", 0.1)]
    assert others[0] == struct.pack("Q", 8)


@compiled
def test_the_exact_types_count() -> None:
    driver = Launcher([8, 4])
    run = bound(driver, (Field(Owned, "A", 0), Field(int, "i", 8)))
    wrong: list[Any] = [
        (Owned(8), True),
        (Owned(8), 1.0),
        (8, 1),
        (Owned(8),),
        (Owned(8), 1, 1),
        (Owned(8), np.int32(1)),
    ]
    assert [run(each, 0) for each in wrong] == [NOT_FIT] * len(wrong)
    assert driver.seen == []


@compiled
def test_the_owner_compares_the_arrays_in_order() -> None:
    driver, asked = Launcher([8, 8, 8]), []
    one, two = Owned(16), Owned(32)

    def matches(*arrays: Any) -> bool:
        asked.append(arrays)
        return arrays != (two, one)

    fields = (
        Field(Owned, "A", 0),
        Field(int, "q", 8),
        Field(Owned, "A", 16),
    )
    run = bound(driver, fields, matches=matches)
    assert run((one, 3, two), 0) == 0
    assert run((two, 3, one), 0) == NOT_FIT
    assert asked == [(one, two), (two, one)]
    assert len(driver.seen) == 1


@compiled
def test_an_address_may_be_a_method_none_or_what_int_takes() -> None:
    driver = Launcher([8])
    run = bound(
        driver,
        (Field(Owned, "A", 0, 7),),
        address=_native.ArrayAddress(("data_ptr",), is_method=True),
    )
    allocation = type("Allocation", (), {"__int__": lambda self: 64})()
    assert [run((Owned(each),), 0) for each in (8, None, allocation, np.uint64(16), 12)] == [
        0,
        0,
        0,
        0,
        NOT_FIT,
    ]
    assert [struct.unpack("Q", values[0])[0] for _, _, values in driver.seen] == [8, 0, 64, 16]


@compiled
def test_writes_are_noted_before_the_launch() -> None:
    driver, noted = Launcher([8, 8]), []

    def note(array: Any, label: str) -> None:
        if label == "refused":
            raise ValueError(label)
        noted.append((array, label, len(driver.seen)))

    one, two = Owned(8), Owned(16)
    run = bound(
        driver,
        (Field(Owned, "A", 0), Field(Owned, "A", 8, 0, "y")),
        note=note,
    )
    assert run((one, two), 0) == 0
    assert noted == [(two, "y", 0)]
    run = bound(
        driver,
        (Field(Owned, "A", 0, 0, "refused"), Field(Owned, "A", 8)),
        note=note,
    )
    with pytest.raises(ValueError, match="refused"):
        run((one, two), 0)
    assert len(driver.seen) == 1


@compiled
@given(st.sampled_from("bhiqBHIQ"), st.integers(-(1 << 70), 1 << 70))
def test_integers_are_those_of_struct_or_do_not_fit(code: str, value: int) -> None:
    driver = Launcher([struct.calcsize(code)])
    low, high = RANGES[code]
    for number in (value, low, high, low - 1, high + 1):
        driver.seen.clear()
        result = bound(driver, (Field(int, code, 0),))((number,), 0)
        assert result == (0 if low <= number <= high else NOT_FIT)
        assert [values for _, _, values in driver.seen] == ([[struct.pack(code, number)]] if result == 0 else [])


@compiled
@given(st.sampled_from("fd"), st.floats() | st.integers(-(1 << 60), 1 << 60))
def test_floats_are_those_of_struct_or_do_not_fit(code: str, value: float) -> None:
    driver = Launcher([struct.calcsize(code)])
    run = bound(driver, (Field(type(value), code, 0),))
    try:
        expected = [[struct.pack(f"={code}", value)]]  # which checks the range
    except OverflowError:
        expected = []
    assert run((value,), 0) == (0 if expected else NOT_FIT)
    if value == value:
        assert [values for _, _, values in driver.seen] == expected


@compiled
def test_numpy_numbers_and_bools() -> None:
    driver = Launcher([4, 1, 2, 8])
    kinds = (np.float32, np.bool_, np.uint16, np.float64)
    fields = tuple(Field(k, c, at) for k, c, at in zip(kinds, "f?Hd", (0, 4, 6, 8), strict=True))
    given = tuple(kind(1) for kind in kinds)
    assert bound(driver, fields)(given, 0) == 0
    assert driver.seen[0][2] == [each.tobytes() for each in given]
    assert bound(Launcher([8]), (Field(int, "d", 0),))((10**400,), 0) == NOT_FIT


@compiled
def test_an_error_of_what_is_called_comes_out() -> None:
    def matches(*arrays: Any) -> bool:
        raise KeyError("asked")

    run = bound(Launcher([8]), (Field(Owned, "A", 0),), matches=matches)
    with pytest.raises(KeyError, match="asked"):
        run((Owned(8),), 0)
    run = bound(Launcher([8]), (Field(int, "A", 0),))
    with pytest.raises(AttributeError, match="data"):
        run((8,), 0)
    with pytest.raises(OverflowError):
        bound(Launcher([8]), (Field(Owned, "A", 0),))((Owned(-8),), 0)


@compiled
def test_a_list_may_change_while_its_arrays_are_compared() -> None:
    driver, args = Launcher([8, 4]), [Owned(8), 7]

    def matches(*arrays: Any) -> bool:
        args.clear()
        return True

    run = bound(driver, (Field(Owned, "A", 0), Field(int, "i", 8)), matches=matches)
    assert run(args, 0) == 0
    assert driver.seen[0][2] == [struct.pack("Q", 8), struct.pack("i", 7)]


@compiled
def test_threads_do_not_mix_their_arguments() -> None:
    driver = Launcher([8, 8])
    run = bound(driver, (Field(int, "q", 0), Field(int, "q", 8)))

    def work(number: int) -> None:
        for _ in range(300):
            assert run((number, number), number) == 0

    in_threads(work, range(4))
    assert len(driver.seen) == 1200
    assert all(values[0] == values[1] == config[STREAM_AT : STREAM_AT + 8] for config, _, values in driver.seen)


@compiled
def test_too_many_arguments_are_left_to_python() -> None:
    driver = Launcher([])
    assert (
        _native.bind_launch(
            driver.address,
            0,
            CONFIG,
            STREAM_AT,
            bool,
            _native.ArrayAddress(()),
            None,
            (Field(int, "q", 0),) * 65,
        )
        is None
    )
    far = (Field(int, "q", 1 << 20),)
    assert _native.bind_launch(driver.address, 0, CONFIG, STREAM_AT, bool, _native.ArrayAddress(()), None, far) is None
    with pytest.raises(ValueError, match="kind x"):
        bound(driver, (Field(int, "x", 0),))


# --- whole calls


class Stream:
    def __init__(self, handle: int) -> None:
        self.handle = handle


class Owner:
    """The backend of a whole call."""

    has_made_streams: Any = False
    is_current: Any = True

    def __init__(self) -> None:
        self.made: list[Owned] = []
        self.made_on: list[Stream] = []
        self.stream = Stream(0)
        self.asked = 0
        self.captures: list[Any] = []
        self.noted: list[tuple[Owned, Stream]] = []

    def make(self) -> Owned:
        self.made.append(Owned(4096 * (1 + len(self.made))))
        return self.made[-1]

    def make_on(self, stream: Stream) -> Owned:
        self.made_on.append(stream)
        return self.make()

    def find_stream(self, device: Any) -> Stream:
        self.asked += 1
        return self.stream

    def streams(self, kind: Any = None) -> Any:
        note = lambda array, stream: self.noted.append((array, stream))
        tell = lambda place: SimpleNamespace(ptr=self.stream.handle) if place == 3 else None
        memory = _native.MemoryPath(("data",), kind, ("handle",))
        current = _native.CurrentStream(tell, 3, ("ptr",))
        return _native.LaunchStreams(memory, note, current, self.find_stream, self.captures)


def whole_call(driver: Launcher, owner: Owner, fields: tuple[Field, ...], outputs: int = 1, **options: Any) -> Any:
    """A call whose kernel takes its arguments, its outputs and eight bytes of its own."""
    offsets = tuple(range(0, 8 * (len(fields) + outputs + 1), 8))
    block = b"x" * (offsets[-1] + 8)
    calls_on = options.get("calls_on", ((owner.make_on, ()),))
    run = _native.bind_new_launch(
        driver.address, ((77, CONFIG, offsets),), STREAM_AT, options.get("matches", lambda *arrays: True),
        _native.ArrayAddress(("data", "ptr")), options.get("note"), fields, block,
        tuple((options.get("calls", ((owner.make, ()),)), calls_on, at, at) for at in offsets[len(fields) : -1]), 0,
        options.get("given"), options.get("only"), options.get("others"), owner,
        options.get("streams") or owner.streams(), "device", options.get("is_current"),
    )  # fmt: skip
    assert run is not None
    return run


@compiled
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_whole_call_makes_its_outputs_and_launches_with_what_is_the_kernels_own(outputs: int) -> None:
    owner = Owner()
    driver = Launcher([8] * (3 + outputs))
    run = whole_call(driver, owner, (Field(Owned, "N", 0, 15), Field(float, "d", 8)), outputs)
    found = run((Owned(64), 0.5), None)
    assert (found is owner.made[0]) if outputs == 1 else (found == tuple(owner.made))
    ((config, kernel, values),) = driver.seen
    assert (config, kernel) == (on_stream(CONFIG, 0), 77)
    addresses = [struct.pack("Q", each.data.ptr) for each in owner.made]
    assert values == [struct.pack("Q", 64), struct.pack("d", 0.5), *addresses, b"x" * 8]
    assert run((Owned(128), 1.5)) is not found


@compiled
@pytest.mark.parametrize(
    "change",
    [
        "type",
        "count",
        "alignment",
        "no memory",
        "output",
        "other arrays",
        "stream",
        "capture",
        "device",
        "refused",
        "only",
    ],
)
def test_a_whole_call_that_does_not_fit_is_left_to_python(change: str) -> None:
    owner = Owner()
    driver = Launcher([8, 8, 8], 2 if change == "refused" else 0)
    run = whole_call(
        driver, owner, (Field(Owned, "N", 0, 15, None, 4),),
        matches=lambda *arrays: change != "other arrays", is_current=lambda device: change != "device",
        only=48 if change == "only" else None,
    )  # fmt: skip
    owner.stream = Stream({"stream": 2, "capture": 32}.get(change, 0))
    owner.captures += ["a capture"] * (change == "capture")
    address = {"alignment": 8, "no memory": 0}.get(change, 68)
    args: tuple[Any, ...] = (7 if change == "type" else Owned(address),) * (2 if change == "count" else 1)
    assert run(args, Owned(4096) if change == "output" else None) is NotImplemented
    assert len(driver.seen) == (change == "refused")
    assert len(owner.made) == (change == "refused")


@compiled
@pytest.mark.parametrize("handle", [0, 32])
@pytest.mark.parametrize("is_made", [False, True])
def test_uses_on_another_stream_than_the_memorys_own_are_noted_before_the_launch(handle: int, is_made: bool) -> None:
    owner, own, other, unknown = Owner(), Owned(64), Owned(128), Owned(256)
    owner.has_made_streams, owner.stream = is_made, Stream(handle)
    own.data.handle, other.data.handle = handle, handle + 16
    driver = Launcher([8] * 6)
    fields = (Field(Owned, "N", 0), Field(float, "d", 8), Field(Owned, "A", 16), Field(Owned, "A", 24))
    run = whole_call(driver, owner, fields)
    made = run((own, 0.5, other, unknown))
    ((config, _, _),) = driver.seen
    assert config == on_stream(CONFIG, handle)
    assert owner.made == [made]
    assert owner.made_on == [owner.stream] * bool(handle)
    expected = [(other, owner.stream), (unknown, owner.stream)] if handle or is_made else []
    assert owner.noted == expected
    for _ in range(5):
        run((own, 0.5, other, own))
    assert owner.asked <= 1


@compiled
def test_each_use_is_noted_where_a_library_does_not_tell_whose_the_memory_is() -> None:
    owner, array = Owner(), Owned(64)
    run = whole_call(
        Launcher([8] * 3), owner, (Field(Owned, "N", 0),), calls_on=None, streams=owner.streams()._replace(memory=None)
    )
    assert run((array,)) is not NotImplemented
    owner.stream = Stream(32)
    assert run((array,)) is not NotImplemented
    assert owner.noted == [(array, owner.stream)]
    assert owner.made_on == []


@compiled
def test_memory_of_another_kind_is_not_noted() -> None:
    owner, array = Owner(), Owned(64)
    owner.stream = Stream(32)
    run = whole_call(Launcher([8] * 3), owner, (Field(Owned, "N", 0),), streams=owner.streams(int))
    assert run((array,)) is not NotImplemented
    assert owner.noted == []


@compiled
def test_a_stream_that_has_died_is_not_taken_for_the_next_one_of_its_handle() -> None:
    owner = Owner()
    run = whole_call(Launcher([8] * 3), owner, (Field(Owned, "N", 0),))
    for number in range(3):
        owner.made_on.clear()
        owner.noted.clear()
        owner.stream = Stream(32 + number // 2)
        for _ in range(2):
            run((Owned(64),))
        assert owner.made_on == [owner.stream] * 2
        assert owner.asked == number + 1


@compiled
def test_a_call_for_one_stream_gives_those_on_others_to_another_call() -> None:
    owner, drivers = Owner(), [Launcher([8] * 3) for _ in range(3)]
    run = None
    for number, driver in enumerate(drivers):
        run = whole_call(driver, owner, (Field(Owned, "N", 0),), only=16 * number, others=run)
    assert run is not None
    for number in (2, 0, 1, 0):
        owner.stream = Stream(16 * number)
        assert run((Owned(64),), None) is owner.made[-1]
    assert [len(each.seen) for each in drivers] == [2, 1, 1]
    owner.stream = Stream(48)
    assert run((Owned(64),), None) is NotImplemented


@compiled
@pytest.mark.parametrize(("status", "result", "is_left"), [(0, 0, False), (1, 0, True), (2, 0, True), (0, 900, True)])
def test_memory_of_a_stream_stays_out_of_what_another_library_records(status: int, result: int, is_left: bool) -> None:
    asked: list[int] = []

    @ctypes.CFUNCTYPE(ctypes.c_int, WORD, ctypes.POINTER(ctypes.c_int))
    def is_captured(stream: int, answer: Any) -> int:
        asked.append(stream)
        answer[0] = status
        return result

    owner, driver = Owner(), Launcher([8] * 3)
    streams = owner.streams()._replace(is_captured=address_of(is_captured))
    on_any = whole_call(driver, owner, (Field(Owned, "N", 0),), streams=streams)
    on_default = whole_call(driver, owner, (Field(Owned, "N", 0),), streams=streams, only=0)
    on_one = whole_call(driver, owner, (Field(Owned, "N", 0),), streams=streams, only=32, others=on_default)
    assert on_one((Owned(64),), None) is owner.made[-1]
    owner.stream = Stream(32)
    assert on_any((Owned(64),), None) is owner.made[-1]
    assert asked == []
    assert (on_one((Owned(64),), None) is NotImplemented) is is_left
    assert asked == [32]
    assert len(driver.seen) == len(owner.made) == 3 - is_left


@compiled
@pytest.mark.parametrize(("error", "is_left"), [(MemoryError, True), (ValueError, True), (KeyboardInterrupt, False)])
@pytest.mark.parametrize("calls", [lambda fail: ((fail, ()),), lambda fail: ((Owned, (16,)), (fail, ()), (Owned, ()))])
def test_an_output_that_cannot_be_made_is_left_to_python_and_ctrl_c_is_not(
    error: Any, is_left: bool, calls: Any
) -> None:
    def fail(*_: Any) -> None:
        raise error

    driver, owner = Launcher([8, 8, 8]), Owner()
    run = whole_call(driver, owner, (Field(Owned, "N", 0, 15),), calls=calls(fail))
    if is_left:
        assert run((Owned(16),), None) is NotImplemented
    else:
        with pytest.raises(error):
            run((Owned(16),), None)
    assert driver.seen == []


@compiled
@given(st.lists(st.tuples(st.booleans(), st.lists(st.integers(1, 9), max_size=6)), max_size=5))
def test_further_calls_change_an_output_or_put_another_in_its_place(steps: list[tuple[bool, list[int]]]) -> None:
    def change(array: Owned, *given: int) -> None:
        array.data.ptr += 16 * sum(given)

    def replace(array: Owned, *given: int) -> Owned:
        return Owned(2 * array.data.ptr + sum(given))

    calls = ((Owned, (64,)), *((replace if is_new else change, tuple(given)) for is_new, given in steps))
    driver, owner = Launcher([8, 8, 8]), Owner()
    found = whole_call(driver, owner, (Field(Owned, "N", 0),), calls=calls)((Owned(16),), None)
    expected = Owned(64)
    for function, rest in calls[1:]:
        expected = function(expected, *rest) or expected
    assert found.data.ptr == expected.data.ptr
    assert driver.seen[0][2][1] == struct.pack("Q", expected.data.ptr)
    streams: list[Stream] = []
    owner.stream = Stream(32)

    def first(stream: Stream, *given: int) -> Owned:
        streams.append(stream)
        return Owned(*given)

    run = whole_call(driver, owner, (Field(Owned, "N", 0),), calls=(), calls_on=((first, (64,)), *calls[1:]))
    assert run((Owned(16),), None).data.ptr == expected.data.ptr
    assert streams == [owner.stream]


@compiled
@pytest.mark.parametrize("calls", [(), ((int,),), ((int, [1]),), ((int, (1,) * 9),)])
def test_an_output_is_made_by_functions_with_a_few_arguments(calls: Any) -> None:
    run = lambda: whole_call(Launcher([8, 8, 8]), Owner(), (Field(Owned, "N", 0),), calls=calls)
    if not calls:
        assert run()((Owned(16),), None) is NotImplemented
        return
    with pytest.raises((TypeError, ValueError)):
        run()


@compiled
def test_what_a_whole_call_holds_dies_with_it() -> None:
    owner = Owner()
    run = whole_call(Launcher([8, 8, 8]), owner, (Field(Owned, "N", 0),))
    held = weakref.ref(owner)
    del owner
    gc.collect()
    assert held() is not None
    del run
    gc.collect()
    assert held() is None


@compiled
@pytest.mark.parametrize("refused", [None, 0, 1])
def test_two_launches_hand_on_what_only_they_see(refused: int | None) -> None:
    owner, others = Owner(), CONFIG[::-1]
    driver = Launcher([8, 8], *(2 * (number == refused) for number in range(2)))
    run = _native.bind_new_launch(
        driver.address, ((77, CONFIG, (0, 8)), (78, others, (16, 24))), STREAM_AT, lambda *arrays: True,
        _native.ArrayAddress(("data", "ptr")), None, (Field(Owned, "N", 0, 15),), b"x" * 32,
        ((((owner.make, ()),), None, 24, 24), (((owner.make, ()),), None, 8, 16)), 1, None, None, None, owner,
        owner.streams(), "device", None,
    )  # fmt: skip
    assert run is not None
    found = run((Owned(64),), None)
    result, nodes = (struct.pack("Q", each.data.ptr) for each in owner.made)
    seen = [
        (on_stream(CONFIG, 0), 77, [struct.pack("Q", 64), nodes]), (on_stream(others, 0), 78, [nodes, result])
    ]  # fmt: skip
    assert driver.seen == (seen[:1] if refused == 0 else seen)
    assert found is (owner.made[0] if refused is None else NotImplemented)


@compiled
def test_parameters_beyond_the_block_are_refused() -> None:
    owner, address = Owner(), _native.ArrayAddress(("data", "ptr"))
    bind = lambda offsets: _native.bind_new_launch(
        1,
        ((0, CONFIG, offsets),),
        STREAM_AT,
        bool,
        address,
        None,
        (),
        b"x" * 8,
        (),
        0,
        None,
        None,
        None,
        owner,
        owner.streams(),
        "device",
        None,
    )
    assert bind((0,) * 65) is None
    with pytest.raises(ValueError, match="in a block of 8 bytes"):
        bind((16,))
    for outputs in (_native.GivenOutputs(((0, 1, 0, 0, None),), ()), _native.GivenOutputs((), (1,))):
        with pytest.raises(ValueError, match="argument"):
            whole_call(Launcher([8] * 2), owner, (Field(Owned, "N", 0),), 0, given=outputs)


# --- comparisons of arrays with earlier ones


@compiled
@given(
    st.lists(st.tuples(st.sampled_from(["f4", "i2"]), st.integers(0, 2), st.booleans()), max_size=4),
    st.lists(st.tuples(st.sampled_from(["f4", "i2"]), st.integers(0, 2), st.booleans()), max_size=4),
)
def test_arrays_are_alike_if_their_types_and_attributes_are(first: list[Any], second: list[Any]) -> None:
    def made(rows: list[Any]) -> list[Any]:
        return [(np.zeros if is_array else np.ma.zeros)(extent, dtype) for dtype, extent, is_array in rows]

    alike = _native.bind_alike(("dtype", "shape"), made(first))
    assert alike is not None
    assert alike(*made(second)) == (first == second)
    assert alike(*made(first))


@compiled
def test_an_error_of_an_attribute_reaches_the_caller() -> None:
    class Leaving:
        has_gone = False

        @property
        def shape(self) -> Any:
            if self.has_gone:
                raise RuntimeError("it has gone")
            return (3,)

    array = Leaving()
    alike = _native.bind_alike(("shape",), [array])
    assert alike is not None
    assert alike(array)
    assert not alike(SimpleNamespace(shape=(3,))), "of another type, which is not asked"
    assert not alike()
    Leaving.has_gone = True
    with pytest.raises(RuntimeError, match="gone"):
        alike(array)


@pytest.mark.skipif(_native.replay() is None, reason="replay.c is not compiled, or not wanted")
def test_names_that_c_does_not_know_or_misses_are_refused_with_nothing_kept() -> None:
    front = _native.replay()
    with pytest.raises(KeyError, match="epoch"):
        front.bind_replay({}, [], np._core.multiarray._ARRAY_API, "module", ("up", "down"))  # type: ignore[attr-defined]
    with fresh_registry():  # behind which C forgets the devices that are added here
        before = front.add_device(object(), -1, 0, 0, {}, {}, 0)
        for functions, addresses in [({"unknown": None}, {}), ({}, {"sent": 0})]:
            with pytest.raises(KeyError, match="has names that C does not know"):
                front.add_device(object(), -1, 0, 0, functions, addresses, 0)
        with pytest.raises(OverflowError):
            front.add_device(object(), -1, 0, 0, {}, {"send": -1}, 0)
        assert front.add_device(object(), -1, 0, 0, {}, {}, 0) == before + 1


@compiled
@pytest.mark.parametrize("failing", ["", "before", "function", "after", "before after", "function after"])
def test_what_follows_a_call_follows_it_whatever_fails(failing: str) -> None:
    done: list[str] = []

    def step(name: str) -> Callable[[], str]:
        def run() -> str:
            done.append(name)
            if name in failing.split() and done.count(name) == 1:
                raise KeyboardInterrupt(name)
            return name

        return run

    steps = [step(name) for name in ("before", "function", "after")]
    calls: Any = _native.find_calls()
    if failing:
        with pytest.raises(KeyboardInterrupt, match=failing.split(maxsplit=1)[0]):
            calls.call_between(*steps)
    else:
        assert calls.call_between(*steps) == "function"
    assert done.count("after") == 1 + ("after" in failing)
    assert ("function" in done) == ("before" not in failing)


@compiled
@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize("handle", [0, 32])
def test_a_call_with_given_outputs_returns_them_and_refuses_other_overlaps(is_apart: bool, handle: int) -> None:
    owner, x, y = Owner(), Owned(64), Owned(96)
    owner.stream, written = Stream(handle), []
    outputs = _native.GivenOutputs(((1, 0, -16, 16, None), (2, 0, -16, 16, 32)), (1, 2))
    fields = (Field(Owned, "N", 0), Field(Owned, "N", 8, label="y"), Field(Owned, "N", 16, label="z"))
    driver = Launcher([8] * 4)
    run = whole_call(driver, owner, fields, 0, given=outputs, note=lambda *what: written.append(what))
    z = Owned(32)
    assert run((x, y), z) == (y, z) if is_apart else run((x, y, z)) == (y, z)
    assert written == [(y, "y"), (z, "z")]
    assert owner.made == []
    assert [array for array, _ in owner.noted] == ([x, y, z] if handle else [])
    (_, _, values) = driver.seen.pop()
    assert values[:3] == [struct.pack("Q", address) for address in (64, 96, 32)]
    for other in (Owned(33), Owned(1024)):  # which the checked call's kernel is not for
        assert run((x, y, other)) is NotImplemented
    for overlapping in (Owned(64), Owned(79), Owned(49)):
        assert run((x, overlapping, z)) is NotImplemented
    assert run((x, Owned(80), z), None) is not NotImplemented
    assert run((x, y), (z,)) is NotImplemented
    assert len(driver.seen) == 1


@compiled
def test_an_output_beside_the_arguments_is_none_of_a_call_that_makes_its_own() -> None:
    owner = Owner()
    run = whole_call(Launcher([8] * 4), owner, (Field(Owned, "N", 0), Field(Owned, "N", 8)))
    assert run((Owned(64),), Owned(128)) is NotImplemented
    returned = whole_call(
        Launcher([8] * 2), owner, (Field(Owned, "N", 0),), 0, given=_native.GivenOutputs(((0, 0, 0, 0, None),), ())
    )
    assert returned((Owned(64),)) is None


# --- the first look at a kernel's call


@compiled
def test_kernel_calls_are_taken_by_c_within_blocks_and_behind_them_on_what_is_current_there() -> None:
    device, backend = xl.get_device("sim:0"), load_backend("sim")
    seen: list[Any] = []
    known = [[lambda args, out: seen.append((args, backend.stream_current(device).handle))], None]
    call = _native.bind_front(lambda *args, **options: "python", known, [None], {"active": None}, "active", "out")
    default = backend.stream_current(device).handle
    with xl.Stream(device) as stream:
        assert call(1) is None
        inside = contextvars.copy_context()
    assert call(2) is None
    assert inside.run(call, 3) is None
    assert call(4) is None
    assert seen == [((1,), stream.handle), ((2,), default), ((3,), stream.handle), ((4,), default)]


@compiled
def test_kernels_are_called_without_a_dict_of_their_keywords() -> None:
    """Python allows it for a class of its own only since 3.12."""
    has_vectorcall = 1 << 11

    class Plain(functools.partial[Any]):
        pass

    class WithCall(functools.partial[Any]):
        def __call__(self, *args: Any, **options: Any) -> str:
            return "its own"

    kernels = type(xl.reduction("T x", "T y", map_expr="x", reduce_expr="a + b", name="total"))
    same = xl.elementwise("T x", "T y", "y = x", name="same")
    for kind in (kernels, type(same), _native.inherit_vectorcall(Plain)):
        assert kind.__flags__ & has_vectorcall
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(same), "__call__", lambda *args, **options: "patched")
        assert same(np.ones(2)) == same(np.ones(2), out=None) == "patched"
    assert same(np.ones(2), out=None).tolist() == [1.0, 1.0]
    assert not _native.inherit_vectorcall(WithCall).__flags__ & has_vectorcall
    assert Plain(dict, a=1)(b=2) == {"a": 1, "b": 2}
    assert WithCall(dict, a=1)(b=2) == "its own"
    with pytest.raises(TypeError, match="takes a type"):
        _native.inherit_vectorcall(1)  # type: ignore[type-var]


@compiled
def test_what_runs_a_reduction_lives_while_the_blocks_are_followed() -> None:
    class Direct:
        def __call__(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
            return given

    known: list[Any] = [Direct(), None, False]
    held, are_alive = weakref.ref(known[0]), list[bool]()
    call = _native.bind_front(
        lambda *args, **options: "python", known, [None], {"active": None}, "active", "axis", "keepdims"
    )

    def forget(frame: Any, event: str, function: Any) -> None:
        if event == "call":
            known[0] = None
            are_alive.append(held() is not None)

    with xl.Stream("sim:0"):
        assert call(1) == (1,)
    sys.setprofile(forget)  # the next call follows the end of the block, by functions of Python's
    try:
        found = call(2)
    finally:
        sys.setprofile(None)
    assert all(are_alive)
    assert are_alive
    assert found == (2,)
    assert call(3) == "python"


@compiled
def test_ctrl_c_within_the_question_whether_a_call_still_holds_ends_it() -> None:
    def ask(error: type[BaseException]) -> Any:
        def holds() -> bool:
            raise error

        known = [[lambda args, out: pytest.fail("called")], holds]
        return _native.bind_front(lambda *args, **options: "python", known, [], {"active": None}, "active", "out")

    assert ask(ValueError)(1) == "python"
    with pytest.raises(KeyboardInterrupt):
        ask(KeyboardInterrupt)(1)

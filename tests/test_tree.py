"""Trees of arrays: structure, bits, packing, and what is refused."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import random
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from xferlib.testing import assert_same_bits, cores, staging_stats
from xferlib.testing.strategies import bits_of

pytestmark = pytest.mark.usefixtures("backend")

DTYPES = ["bool", "int8", "uint16", "int32", "float16", "float32", "float64", "complex128"]


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Layer:
    weight: Any
    bias: Any
    name: str


def _same(got: Any, expected: np.ndarray[Any, Any]) -> None:
    assert_same_bits(np.asarray(got), np.asarray(expected))


def test_structure_and_other_leaves_are_kept() -> None:
    tree = {
        "layer": Layer(np.ones((2, 3), np.float32), np.zeros(3), "dense"),
        "pair": Pair([np.arange(3)], (np.int8(1), None)),
        "odd": OrderedDict(b=1, a="text"),
    }
    back = xl.tree.to_host(xl.tree.to_device(tree))
    assert isinstance(back["layer"], Layer)
    assert back["layer"].name == "dense"
    assert isinstance(back["pair"], Pair)
    assert back["pair"].right == (1, None)
    assert list(back["odd"].items()) == [("b", 1), ("a", "text")]
    _same(back["layer"].weight, np.ones((2, 3), np.float32))
    _same(back["pair"].left[0], np.arange(3))


@given(
    kinds=st.lists(
        st.tuples(st.lists(st.integers(0, 5), max_size=3), st.sampled_from(DTYPES), st.integers(1, 3)), max_size=8
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_leaf_keeps_its_bits(kinds: list[tuple[list[int], str, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    leaves = []
    for shape, name, repeats in kinds:
        dtype = np.dtype(name)
        for _ in range(repeats):
            raw = np.frombuffer(rng.bytes(int(np.prod(shape, dtype=int)) * dtype.itemsize), np.uint8)
            leaves.append((raw & 1 if name == "bool" else raw).view(dtype).reshape(shape))
    for got, leaf in zip(xl.tree.to_host(xl.tree.to_device(leaves)), leaves, strict=True):
        _same(got, leaf)


def test_leaves_of_any_layout_and_size_travel_together() -> None:
    base = np.arange(240, dtype=np.float32).reshape(2, 4, 30)
    leaves = [base[:, ::2, ::-1], base.T, base.astype(">f4"), np.asfortranarray(base), np.ones(200_000), base[:0]]
    for got, leaf in zip(xl.tree.to_host(xl.tree.to_device(leaves)), leaves, strict=True):
        _same(got, np.ascontiguousarray(leaf, leaf.dtype.newbyteorder("=")))


def test_sources_may_change_after_the_call() -> None:
    leaves = [np.full(100, number) for number in range(20)]
    sent = xl.tree.to_device(leaves)
    for leaf in leaves:
        leaf[:] = -1
    for number, got in enumerate(xl.tree.to_host(sent)):
        assert (got == number).all()


def test_a_dtype_converts_every_array() -> None:
    back = xl.tree.to_host(xl.tree.to_device([np.array([1.5, np.nan, 1e30]), np.arange(3)], dtype="int16"))
    assert [leaf.dtype for leaf in back] == [np.int16, np.int16]
    assert back[0].tolist() == [1, 0, 32767]


def test_a_leaf_that_no_device_holds_is_refused_before_anything_moves() -> None:
    with pytest.raises(xl.errors.UnsupportedDTypeError, match="datetime64"):
        xl.tree.to_device([np.ones(3), np.array(["2026-01-01"], dtype="datetime64[D]")])


def test_leaves_on_the_device_may_be_written_apart_from_each_other() -> None:
    sent = xl.tree.to_device([np.zeros(4, np.float32), np.zeros(4, np.float32), np.zeros(3, np.float32)])
    xl.to_device(np.ones(4, np.float32), out=sent[1])
    assert [leaf.sum() for leaf in xl.tree.to_host(sent)] == [0, 4, 0]


def test_a_registered_class_is_a_node() -> None:
    class Box:
        def __init__(self, inside: Any) -> None:
            self.inside = inside

    xl.tree.register(Box, lambda box: ((box.inside,), None), lambda _, children: Box(*children))
    back = xl.tree.to_host(xl.tree.to_device(Box(np.arange(5))))
    assert isinstance(back, Box)
    _same(back.inside, np.arange(5))


def test_every_leaf_in_a_slab_is_aligned_for_the_vector_loads_that_its_size_allows(fake: Any) -> None:
    shapes, names = ((3,), (4,), (5, 7), (32,)), ("int8", "float32", "complex128")
    leaves = [np.ones(shape, name) for shape in shapes for name in names for _ in range(3)]
    sent = [fake.view(each) for each in xl.tree.to_device(leaves, backend="fake")]
    for each, leaf in zip(sent, leaves, strict=True):
        assert each.pointer % min(leaf.nbytes & -leaf.nbytes, 64) == 0
    ends = sorted((each.pointer, each.pointer + leaf.nbytes) for each, leaf in zip(sent, leaves, strict=True))
    assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(ends))
    assert len({each.allocation.block.pointer for each in xl.tree.to_device(leaves, backend="fake")}) == 1


@pytest.mark.parametrize("make", [list, tuple, lambda arrays: {f"z{9 - n}": x for n, x in enumerate(arrays)}])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_flat_trees_of_arrays_keep_type_order_and_shapes(make: Any, count: int) -> None:
    arrays = [bits_of(4 * (n + 1), np.int32, seed=n).reshape(1, n + 1) for n in range(count)]
    tree = make(arrays)
    there = xl.tree.to_device(tree)
    back = xl.tree.to_host(there)
    assert type(there) is type(back) is type(tree)
    if isinstance(tree, dict):
        assert list(there) == list(back) == list(tree)
        back = list(back.values())
    for found, expected in zip(back, arrays, strict=True):
        assert_same_bits(found, expected)


@pytest.mark.parametrize("odd", ["none", "strided", "swapped", "read-only", "small"])
def test_many_leaves_are_there_when_the_call_returns(odd: str) -> None:
    """More than half a MiB in all, which threads collect where every leaf is plain bytes."""
    leaves = [bits_of(4000 + 8 * (n % 3), np.float32, seed=n) for n in range(200)]
    if odd == "strided":
        leaves[77] = bits_of(8000, np.float32, seed=77)[::2]
    elif odd == "swapped":
        leaves[77] = leaves[77].astype(">f4")
    elif odd == "read-only":
        leaves[77].flags.writeable = False
    elif odd == "small":
        leaves.append(bits_of(3, np.int8, seed=1))
    expected = [np.array(leaf, leaf.dtype.newbyteorder("=")) for leaf in leaves]
    sent = xl.tree.to_device({"all": leaves})["all"]
    for leaf in leaves:
        if leaf.flags.writeable:
            leaf[...] = 0  # it has been read
    for found, wanted in zip(sent, expected, strict=True):
        _same(xl.to_host(found), wanted)


SIZES = (1, 3, 700, 5000, 65_537, 262_143, 262_145, 600_000, 2_097_151, 2_097_153)
"""In bytes, about those at which leaves change their way."""


@pytest.mark.parametrize("is_pinned", [False, True])
@pytest.mark.parametrize("count", [2, 3, 5, 9, 40])
def test_leaves_of_any_sizes_come_back(count: int, is_pinned: bool) -> None:
    chance = np.random.default_rng(count)
    leaves = [bits_of(int(chance.choice(SIZES)), np.uint8, seed=n) for n in range(count)]
    leaves += [leaf[: leaf.size // 8 * 8].view(np.float64) for leaf in leaves if leaf.size > 8]
    there = xl.tree.to_device(leaves)
    for _ in range(2):  # the second time memory is recycled
        back = xl.tree.to_host(there, pinned=is_pinned)
        for found, leaf in zip(back, leaves, strict=True):
            _same(found, leaf)
            assert found.flags.writeable
            found[...] = 0  # and none shares bytes with another
        kept = xl.tree.to_host(there, pinned=is_pinned)[-1]
        del back
        xl.tree.to_host(there, pinned=is_pinned)
        _same(kept, leaves[-1])  # while one leaf lives, so does the memory that it shares


@pytest.mark.parametrize("most", [40, 3_000, 60_000, 450_000])
@pytest.mark.parametrize("memory", ["ordinary", "pinned", "mixed"])
def test_a_tree_that_comes_again_brings_its_own_data(memory: str, most: int) -> None:
    chance = np.random.default_rng(most)
    kinds = [(int(chance.integers(1, most)), np.dtype(name)) for name in ("f4", "u1", "f4", "f8", "f4", "i2", "f4")]
    for seed in range(4):
        leaves = [bits_of(size * dtype.itemsize, dtype, seed=9 * seed + n) for n, (size, dtype) in enumerate(kinds)]
        sources: list[Any] = [leaf.reshape(-1, 1) if n % 3 else leaf for n, leaf in enumerate(leaves)]
        for n in range(len(sources)):
            if memory == "pinned" or (memory == "mixed" and n % 2):
                sources[n] = xl.pinned_array(sources[n])
        tree = {"all": [None, *sources], "twice": tuple(sources[:2])} if seed % 2 else sources
        there = xl.tree.to_device(tree)
        expected = [source.copy() for source in sources]
        for source in sources:
            source[...] = 0  # it has been read
        found = there["all"][1:] if seed % 2 else there
        for is_pinned in (False, True):
            back = xl.tree.to_host(found, pinned=is_pinned)
            for leaf, source in zip(back, expected, strict=True):
                assert leaf.shape == source.shape
                _same(leaf, source)


def test_an_interrupted_tree_leaves_nothing_that_reads_its_arrays(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = [bits_of(4096, np.uint8, seed=n) for n in range(300)]
    xl.tree.to_device(leaves, backend="fake")

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(fake, "subarrays", interrupted)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            xl.tree.to_device(leaves, backend="fake")
    monkeypatch.undo()
    assert staging_stats("fake")[1:] == (0, 0)
    for found, wanted in zip(xl.tree.to_device(leaves, backend="fake"), leaves, strict=True):
        _same(xl.to_host(found), wanted)


def test_an_object_in_several_places_travels_once(backend: str) -> None:
    small, large, other = np.arange(6.0), np.ones(1 << 17), np.arange(6.0)
    host = {"a": small, "b": [small, large, 3], "c": (large, other, small)}
    up = xl.tree.to_device(host)
    assert up["a"] is up["b"][0] is up["c"][2]
    assert up["b"][1] is up["c"][0]
    assert up["c"][1] is not up["a"]
    assert up["b"][2] == 3
    down = xl.tree.to_host(up)
    assert down["a"] is down["b"][0] is down["c"][2]
    assert down["b"][1] is down["c"][0]
    for before, after in zip([small, large, other], [down["a"], down["b"][1], down["c"][1]], strict=True):
        assert_same_bits(after, before)
    batch = next(iter(xl.prefetch([host])))
    assert batch["a"] is batch["b"][0] is batch["c"][2]
    assert_same_bits(xl.to_host(batch["c"][0]), large)
    same = xl.tree.to_device([small, small])
    assert same[0] is same[1]


def test_trees_are_a_module_of_their_own() -> None:
    import xferlib.tree

    assert xferlib.tree is xl.tree


def test_what_is_there_stays_itself_if_copies_are_not_asked_for() -> None:
    there, host = xl.to_device(np.arange(3.0)), np.arange(4)
    sent = xl.tree.to_device({"there": there, "again": there, "host": host, "none": None}, copy=None)
    assert sent["there"] is there
    assert sent["again"] is there
    assert sent["none"] is None
    _same(xl.to_host(sent["host"]), host)
    converted = xl.tree.to_device([host, host], dtype="float32", copy=None)
    assert converted[0] is converted[1]
    _same(xl.to_host(converted[0]), np.arange(4, dtype="float32"))


def test_a_tree_that_must_be_copied_is_refused_if_copies_are_ruled_out() -> None:
    there = xl.to_device(np.arange(3.0))
    assert xl.tree.to_device([there, "text"], copy=False)[0] is there
    with pytest.raises(xl.errors.LayoutError, match="copy=False"):
        xl.tree.to_device([there], dtype="int8", copy=False)


def test_numpy_arrays_of_a_tree_stay_themselves_on_the_host() -> None:
    there, host = xl.to_device(np.arange(3.0)), np.arange(4)
    fetched = xl.tree.to_host((there, host, host), copy=None)
    assert fetched[1] is host
    assert fetched[2] is host
    _same(fetched[0], np.arange(3.0))
    assert xl.tree.to_host([host], copy=False)[0] is host
    if type(there) is not np.ndarray:
        with pytest.raises(xl.errors.LayoutError, match="copy=None"):
            xl.tree.to_host([there, host], copy=False)


def test_pinned_results_of_a_tree_are_copies() -> None:
    host = np.arange(4)
    (found,) = xl.tree.to_host([host], copy=None, pinned=True)
    assert found is not host
    _same(found, host)
    with pytest.raises(xl.errors.LayoutError, match="pinned=True"):
        xl.tree.to_host([host], copy=False, pinned=True)


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize("pinned", [False, True])
def test_a_recording_has_each_trees_bytes_once(pinned: bool) -> None:
    tree = [np.full(1 << 20, number, np.float32) for number in range(3)]
    with xl.use_backend("sim"):
        with xl.trace() as up:
            sent = xl.tree.to_device(tree)
        with xl.trace() as down:
            xl.tree.to_host(sent, pinned=pinned)
    for recording in (up, down):
        calls = [each.nbytes for each in recording.operations if each.kind == "call"]
        assert sum(calls) == sum(each.nbytes for each in tree)


@pytest.mark.parametrize("kind", [list, dict])
def test_a_container_that_holds_itself_is_refused(kind: Any) -> None:
    tree = kind()
    if isinstance(tree, dict):
        tree["self"] = tree
    else:
        tree.append(tree)
    for call in (xl.tree.to_device, xl.tree.to_host):
        with pytest.raises(xl.errors.ArgumentError, match="holds itself"):
            call(tree)


BAD_LEAVES: list[Any] = [
    np.array([2**70]), np.array(["a"]), np.array(["2020-01-01"], "M8[D]"), np.zeros(2, [("a", "f4")])
]  # fmt: skip
WAYS: dict[str, Any] = {
    "to_device": xl.tree.to_device,
    "without a copy": lambda tree: xl.tree.to_device(tree, copy=None),
    "as float16": lambda tree: xl.tree.to_device(tree, dtype="float16"),
    "to_host": xl.tree.to_host,
    "pinned": lambda tree: xl.tree.to_host(tree, pinned=True),
    "prefetch a list": lambda tree: next(iter(xl.prefetch([tree] * 2))),
    "prefetch": lambda tree: next(iter(xl.prefetch(iter([tree] * 2)))),
}


@pytest.mark.parametrize("size", [3, 1 << 20], ids=["small", "large"])
@pytest.mark.parametrize("way", WAYS)
def test_an_error_names_the_leaf_its_type_and_the_remedy(way: str, size: int) -> None:
    good = np.ones(size, np.float32)
    for bad in BAD_LEAVES:
        tree = {"params": {"layers": [{"w": good}, Layer((good, bad), np.ones(3), "last")]}, "kept": good}
        name = "batch" if "prefetch" in way else "tree"
        with cores(16), pytest.raises(xl.errors.UnsupportedDTypeError) as caught:
            WAYS[way](tree)
        assert str(caught.value).startswith(f"{name}['params']['layers'][1].weight[1] (ndarray): x has dtype ")
        assert "convert it first" in str(caught.value) or "one field" in str(caught.value)


def test_an_error_about_no_leaf_names_none() -> None:
    with pytest.raises(xl.errors.UnsupportedDTypeError, match=r"^dtype: 'float23' is not a dtype"):
        xl.tree.to_device({"w": np.ones(3), "b": np.ones(2)}, dtype="float23")


# --- classes of others


class Encoding(collections.UserDict[str, Any]):
    """As tokenizers' batches: other arguments than a dict, attributes from keys, and state that pickling drops."""

    def __init__(self, data: Any, encodings: Any, *, wanted: int) -> None:
        super().__init__(data)
        self._encodings, self._wanted = encodings, wanted

    def __getattr__(self, name: str) -> Any:
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, key: Any) -> Any:
        return self.data[key] if isinstance(key, str) else self._encodings[key]

    def __getstate__(self) -> Any:
        return {"data": self.data}


class Attributes(dict[str, Any]):
    """Each key is an attribute too."""

    def __init__(self, **items: Any) -> None:
        for key, value in items.items():
            self[key] = value

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)


class Own(dict[str, Any]):
    """Its attributes are its keys."""

    def __init__(self, **items: Any) -> None:
        super().__init__(**items)
        self.__dict__ = self


class Output(OrderedDict[str, Any]):
    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __iter__(self) -> Any:
        return iter(self.keys())


@dataclass
class Results(Output):
    """As the outputs of models: a dataclass and a dict of what is not None."""

    logits: Any
    hidden: Any = None
    loss: Any = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)


@dataclass(frozen=True, slots=True)
class Slotted:
    x: Any
    scale: dataclasses.InitVar[float]
    y: Any = dataclasses.field(init=False)
    z: Any = dataclasses.field(init=False)

    def __post_init__(self, scale: float) -> None:
        object.__setattr__(self, "y", self.x * scale)  # and z is not there


class Undecorated(Layer):
    def __init__(self, *fields: Any, **more: Any) -> None:
        super().__init__(*fields)
        object.__setattr__(self, "more", more)


class Bag(list[Any]):
    def __init__(self, first: Any, *others: Any) -> None:
        super().__init__([first, *others])
        self.label = "bag"


class Line(tuple[Any, ...]):  # noqa: SLOT001 - as programs have it
    def __new__(cls, *ends: Any) -> Any:
        return super().__new__(cls, ends)


class Packed(NamedTuple("PackedFields", [("data", Any), ("order", Any)])):  # noqa: SLOT002 - as programs have it
    def __new__(cls, data: Any) -> Any:  # other arguments than its fields
        self: Any = super().__new__(cls, data, None)
        self.label = "packed"
        return self


class Frozen(Mapping[str, Any]):
    __slots__ = ("_items", "_length")

    def __init__(self, items: Any) -> None:
        self._items, self._length = dict(items), len(items)

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Any:
        return iter(self._items)

    def __len__(self) -> int:
        return self._length


class Sized:
    """As attrs makes them."""

    __attrs_attrs__ = (SimpleNamespace(name="x"), SimpleNamespace(name="n"))
    __slots__ = ("__weakref__", "n", "x")

    def __init__(self, x: Any) -> None:
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "n", len(x))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("frozen")


class Model:
    """As pydantic makes them."""

    __slots__ = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")
    __pydantic_fields__: ClassVar[Any] = {"x": None}

    def __init__(self, **values: Any) -> None:
        object.__setattr__(self, "__dict__", {"x": values.pop("x")})
        object.__setattr__(self, "__pydantic_fields_set__", {"x"})
        object.__setattr__(self, "__pydantic_extra__", values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError("frozen")

    def __getattr__(self, name: str) -> Any:
        return self.__pydantic_extra__[name]


def _defaults(x: Any, y: Any) -> Any:
    made = collections.defaultdict(list, x=x)
    made["y"].append(y)
    return made


def _with_metadata(x: Any, y: Any) -> Any:
    made: Any = OrderedDict(x=x, y=y)
    made.move_to_end("x")
    made._metadata = OrderedDict([("", {"version": 1})])
    return made


CLASSES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
    "UserDict": (lambda x, y: Encoding({"x": x, "y": y}, ["text"], wanted=2), lambda n: (n.x, n["y"], n[0], n._wanted)),
    "UserList": (lambda x, y: collections.UserList([x, y]), list),
    "attribute dict": (
        lambda x, y: Attributes(x=x, inner=Attributes(y=y)),
        lambda n: (n["x"], n.x, n.inner.y, n["inner"]["y"], n.inner is n["inner"]),
    ),
    "own dict": (lambda x, y: Own(x=x, y=y), lambda n: (n["x"], n.y, n.__dict__ is n)),
    "model output": (lambda x, y: Results(x, y), lambda n: (*n.values(), n.logits, n["hidden"], n.loss, list(n))),
    "slots": (lambda x, y: Slotted(x, 2), lambda n: (n.x, n.y, hasattr(n, "z"))),
    "undecorated": (lambda x, y: Undecorated(x, 1, "n", also=[y]), lambda n: (n.weight, n.name, n.more["also"][0])),
    "list": (lambda x, y: Bag(x, y), lambda n: (*n, n.label)),
    "tuple": (lambda x, y: Line(x, y), tuple),
    "named tuple": (lambda x, y: Packed([x, y]), lambda n: (*n.data, n.order, n.label)),
    "Mapping": (lambda x, y: Frozen({"x": x, "y": y}), lambda n: (n["x"], n["y"], len(n))),
    "proxy": (lambda x, y: MappingProxyType({"x": x, "y": y}), lambda n: (n["x"], n["y"])),
    "ChainMap": (lambda x, y: collections.ChainMap({"x": x}, {"y": y}), lambda n: (n["x"], n["y"], len(n.maps))),
    "Counter": (lambda x, y: collections.Counter({"x": x, "y": y}), lambda n: (n["x"], n["y"], n["z"])),
    "deque": (lambda x, y: collections.deque([x, y], 5), lambda n: (*n, n.maxlen)),
    "defaultdict": (_defaults, lambda n: (n["x"], n["y"][0], n["z"])),
    "OrderedDict": (_with_metadata, lambda n: (*n.values(), *n, n._metadata[""]["version"])),
    "attrs": (lambda x, y: Sized(x), lambda n: (n.x, n.n)),
    "pydantic": (lambda x, y: Model(x=x, y=y), lambda n: (n.x, n.y, n.__pydantic_fields_set__)),
    "namespace": (lambda x, y: SimpleNamespace(x=x, y=[y]), lambda n: (n.x, n.y[0])),
    "arguments": (lambda x, y: argparse.Namespace(x=x, y=y), lambda n: (n.x, n.y)),
}
MOVES: dict[str, Callable[[Any], Any]] = {
    "to_device": xl.tree.to_device,
    "prefetch": lambda tree: next(iter(xl.prefetch([tree]))),
    "prefetch an iterator": lambda tree: next(iter(xl.prefetch(iter([tree])))),
}


@pytest.mark.filterwarnings("error")
def test_containers_of_other_classes_keep_type_and_state() -> None:
    x, y = np.arange(3.0), np.arange(4.0)
    for name, (make, look) in CLASSES.items():
        node = make(x, y)
        before = look(node)
        for move in MOVES.values():
            there = move({"in": [node]})["in"][0]
            back = xl.tree.to_host(there)
            assert type(there) is type(back) is type(node), name
            for old, new, found in zip(before, look(there), look(back), strict=True):
                if isinstance(old, np.ndarray):
                    assert new is not old, name
                    _same(found, old)
                    assert xl.get_backend(new) is xl.get_backend(xl.to_device(x)), name
                else:
                    assert old == new == found, name
            assert all(one is two for one, two in zip(look(node), before, strict=True) if isinstance(two, np.ndarray))


def _nested(chance: random.Random, depth: int) -> Any:
    kind = chance.random()
    if depth == 0 or kind < 0.2:
        return np.arange(chance.randrange(5)) + chance.randrange(100)
    if kind < 0.3:
        return chance.choice([None, 3, "t", 2.5, b"x", {1, 2}])
    if kind < 0.5:
        inner = [_nested(chance, depth - 1) for _ in range(chance.randrange(4))]
        return inner if kind < 0.4 else dict(enumerate(inner))
    make, _ = CLASSES[chance.choice([name for name in CLASSES if name not in ("slots", "attrs")])]
    return make(_nested(chance, depth - 1), _nested(chance, depth - 1))


def _described(value: Any) -> Any:
    """Everything about a tree but which objects it is made of, and which attributes are items as well."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    items: list[Any] = []
    if isinstance(value, Mapping):
        items = [(key, value[key]) for key in value if not isinstance(value, Encoding) or isinstance(key, str)]
    elif isinstance(value, (list, tuple, collections.deque, collections.UserList)):
        items = list(enumerate(value))
    own = getattr(value, "__dict__", {})
    if own is value:
        own = {}
    shared = [name for name, each in own.items() if any(each is item for _, item in items)]
    inside = [(key, _described(each)) for key, each in (*items, *own.items())]
    return type(value), inside, shared, None if inside else repr(value)


@pytest.mark.filterwarnings("error")
def test_containers_within_each_other_keep_type_state_and_identity() -> None:
    chance = random.Random(0)
    for _ in range(60):
        tree = [_nested(chance, 4)]
        before = _described(tree)
        assert _described(xl.tree.to_host(xl.tree.to_device(tree))) == before
        assert _described(tree) == before


@pytest.mark.filterwarnings("error")
def test_what_holds_no_arrays_stays_itself() -> None:
    odd = [Bag(1), Frozen({"a": 2}), Line(), collections.Counter("aab"), Path("a"), SimpleNamespace(n=1), range(3)]
    there = xl.tree.to_device({"x": np.ones(2), "odd": odd})["odd"]
    assert all(one is two for one, two in zip(there, odd, strict=True))


def test_packed_sequences_keep_their_sizes_on_the_host(backend: str) -> None:
    torch = pytest.importorskip("torch")
    rnn = torch.nn.utils.rnn
    given = rnn.pack_sequence([torch.arange(3.0), torch.arange(2.0)], enforce_sorted=False)
    there = xl.tree.to_device(given)
    assert type(there) is rnn.PackedSequence
    assert there.batch_sizes is given.batch_sizes
    back = xl.tree.to_host(there)
    for found, wanted in ((back.data, given.data), (back.sorted_indices, given.sorted_indices)):
        _same(found, wanted.numpy())
    if backend == "torch":
        same, _ = rnn.pad_packed_sequence(xl.tree.to_device(given, device="cpu"), batch_first=True)
        assert same.tolist() == [[0, 1, 2], [0, 1, 0]]


def _opaque() -> dict[str, Any]:
    """Objects with arrays, of new classes each time: a warning comes once for each."""

    class Plain:
        def __init__(self, x: Any) -> None:
            self.parts = {"x": x}

    class Late(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            return np.ones(2)

        def __iter__(self) -> Any:
            return iter(["x"])

        def __len__(self) -> int:
            return 1

    class Text(str):
        __slots__ = ("x",)

    class Image:
        def __array__(self, *_: Any, **__: Any) -> Any:
            return np.ones(2)

    class Slots:
        __slots__ = ("empty", "x")

    text: Any = Text("a")
    text.x = np.ones(2)
    slots: Any = Slots()
    slots.x = [np.ones(2)]
    return {
        r"x\.x\[0\]": slots,
        r"x\.parts\['x'\]": Plain(np.ones(2)),
        r"x\['x'\]": Late(),
        r"x\.x": text,
        r"numpy\.asarray": Image(),
    }


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("move", MOVES)
def test_arrays_that_stay_behind_are_told_once_for_each_class(move: str, number: int) -> None:
    text, hidden = list(_opaque().items())[number]
    with pytest.warns(xl.errors.XferWarning, match=rf"a \S*{type(hidden).__name__} in a tree .*{text}") as caught:
        results = [MOVES[move]([hidden, np.ones(2)]) for _ in range(2)]
    assert results[0][0] is hidden
    assert len(caught) == 1
    assert caught[0].filename == __file__
    if not hasattr(type(hidden), "__array__"):
        assert f"xferlib.tree.register({type(hidden).__qualname__}, flatten, unflatten)" in str(caught[0].message)


def test_a_class_may_be_registered_after_its_warning() -> None:
    box = _opaque()[r"x\.parts\['x'\]"]
    with pytest.warns(xl.errors.XferWarning):
        xl.tree.to_device([box])
    cls = type(box)
    xl.tree.register(cls, lambda box: ((box.parts["x"],), None), lambda _, children: cls(*children))
    assert xl.tree.to_device([box])[0].parts["x"] is not box.parts["x"]
    for call in (lambda: xl.tree.register(cls, len, len), lambda: xl.tree.register(3, len, len)):  # type: ignore[arg-type]
        with pytest.raises(xl.errors.ArgumentError, match=r"tree\.register"):
            call()


def test_trees_of_any_depth_travel_and_endless_ones_do_not() -> None:
    tree: Any = np.ones(2)
    for number in range(1500):
        tree = [tree] if number % 2 else SimpleNamespace(inner=tree)
    there: Any = xl.tree.to_device(tree)
    while isinstance(there, (list, SimpleNamespace)):
        there = there[0] if isinstance(there, list) else there.inner
    _same(xl.to_host(there), np.ones(2))
    endless = SimpleNamespace()
    endless.self = Bag(endless, endless)
    with pytest.raises(xl.errors.ArgumentError, match="holds itself"):
        xl.tree.to_device(endless)

"""The structure of trees: how each kind of container is taken apart, and made again with other arrays.

The usual dicts, lists and tuples are taken apart in C. For the others the obvious way is to call the class, as
``cls(*children)``. It fails for whatever has another constructor, checks or changes what it is given, or keeps more
than its items: ``_metadata`` of a module's state, what a subclass added to a dataclass. So a container is copied
without any code of its class: a new object of the same type, with the same items, attributes and slots, in which new
arrays take the places of the old ones.

A class is copied like that if it is a dataclass, of attrs or pydantic, a namespace, a mapping or a sequence, and keeps
all it has in Python's own containers, attributes and slots. Any other object is a leaf; if it holds arrays, a warning
says once for its class that they stay where they are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import types
import weakref
from collections import OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from itertools import chain, islice
from operator import is_not
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from xferlib import _native
from xferlib._core import registry
from xferlib._runtime import checks
from xferlib.errors import ArgumentError, XferError, quote

NAMESPACE = "xferlib"
"""Namespace of `optree` in which xferlib looks for custom nodes, besides the global one."""
LEAVES = frozenset([np.ndarray, float, int, bool, complex, str, bytes, type(None)])
"""Types of leaves, besides those of arrays that the registry has met."""
_FEW_CHILDREN = 8
"""Below, a set of their types costs more than it saves."""
_DEEPEST = 2000
"""Containers within each other: beyond, one is taken to hold itself."""


def register(cls: type, flatten: Callable[[Any], tuple[Any, Any]], unflatten: Callable[[Any, Any], Any]) -> None:
    """Make a class a node of trees.

    Args:
        cls: The class.
        flatten: ``flatten(node) -> (children, metadata)``.
        unflatten: ``unflatten(metadata, children) -> node``.

    Raises:
        ArgumentError: ``cls`` is not a class, or is a node already, as Python's own containers are.
    """
    import optree

    if not isinstance(cls, type):
        raise ArgumentError(f"tree.register: cls is {type(cls).__name__}, not a class; give the class of the nodes")
    try:
        optree.register_pytree_node(cls, flatten, unflatten, namespace=NAMESPACE)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"tree.register: {cls.__name__} cannot be registered ({error}); register it once"
        ) from error
    _forms.pop(cls, None)


def flatten(tree: Any, *, moving: str = "host") -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves, each object once, and a function that rebuilds the tree with new ones.

    An object that stands in several places, such as a weight that two layers share, is still one after its journey.

    Args:
        tree: Of any objects.
        moving: The arrays that the call is about: those on the ``"host"``, on a ``"device"``, ``"any"``; or ``""``
            where another call has looked. A warning tells of those that an object hides.

    Raises:
        ArgumentError: A container holds itself.
    """
    leaves, rebuild = take_apart(tree, moving=moving)
    calls = _native.find_calls()
    if calls.is_distinct(leaves) if calls is not None else len(set(map(id, leaves))) == len(leaves):
        return leaves, rebuild
    numbers: dict[int, int] = {}
    places = [numbers.setdefault(id(leaf), len(numbers)) for leaf in leaves]
    once = list({id(leaf): leaf for leaf in leaves}.values())
    return once, lambda new: rebuild([new[place] for place in places])


def say_where(error: XferError, tree: Any, check: Callable[[Any], object], name: str) -> None:
    """Say in an error about one leaf which it is, and of which type: ``tree['layers'][3]['w'] (ndarray): ...``.

    Args:
        error: Raised for some leaf; it stays as it is where no leaf is found.
        tree: Holds the leaf.
        check: Called with each leaf; raises such an error for that one.
        name: Of the tree, in the program's words.
    """
    for path, leaf in locate_leaves(tree, name):
        try:
            check(leaf)
        except type(error) as found:
            if path != name:  # or the tree is the leaf
                error.args = (f"{path} ({type(leaf).__name__}): {found}", *error.args[1:])
            return


class PathStep(NamedTuple):
    """The way from a container to one of its children."""

    key: Any
    is_attribute: bool = False
    is_extra: bool = False
    """An attribute beside the items or the fields of its object."""
    is_named: bool = True
    """The key is the container's own; else it only counts."""

    def __str__(self) -> str:
        return f".{self.key}" if self.is_attribute else f"[{quote(self.key)}]"


def parts(node: Any) -> list[tuple[PathStep, Any]] | None:
    """The children of a container, with all its attributes; None of a leaf."""
    form = _form(node)
    if not isinstance(form, Form):
        return None
    children, kept = form.take_all(node)
    return list(zip(form.steps(node, kept), children, strict=True))


def remake(node: Any, children: list[Any]) -> Any:
    """A container as ``node``, with other children in the places of its `parts`."""
    form = _form(node)
    assert isinstance(form, Form)
    return form.make(node, form.take_all(node)[1], children)


def locate_leaves(tree: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The leaves, each after the expression that leads to it: once for each of its places."""
    pending = [(name, tree)]
    while pending:
        path, node = pending.pop()
        inside = parts(node)
        if inside is None:
            yield path, node
        else:
            pending += [(f"{path}{step}", child) for step, child in reversed(inside)]


def take_apart(tree: Any, *, moving: str = "") -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves in the order of `locate_leaves`, and a function that rebuilds the tree, as `flatten`.

    A leaf is there once for each of its places.
    """
    calls = _native.find_calls()
    if calls is not None:
        found = calls.flatten(tree, registry.by_type, LEAVES)
        if found is not None:
            return found, functools.partial(calls.rebuild, tree)
    return _walk(tree, moving)


_Taken: TypeAlias = "tuple[Form | None, Any, Any, int | list[Any]]"
"""An object of a tree: how a container was taken apart, itself, what its form needs, and its number of children; or
the children themselves, where all are leaves: then they have no entries of their own."""


def _walk(tree: Any, moving: str) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves of any tree: without recursion, since a tree may be deeper than Python's stack."""
    leaves: list[Any] = []
    taken: list[_Taken] = []
    open_ones = [iter((tree,))]
    """The children of each container around the next object that have not been looked at."""
    find, arrays = _forms.get, registry.by_type
    while open_ones:
        for node in open_ones[-1]:
            cls = type(node)
            form = _LEAF if arrays.get(cls) is not None else find(cls) or _form(node)
            if isinstance(form, Form):
                children, kept = form.take(node)
                kinds = map(type, children)
                for kind in kinds if len(children) < _FEW_CHILDREN else set(kinds):
                    if arrays.get(kind) is None and find(kind) is not _LEAF:
                        break
                else:
                    leaves += children
                    taken.append((form, node, kept, children))
                    continue
                taken.append((form, node, kept, len(children)))
                open_ones.append(iter(children))
                break
            if form is _OPAQUE and moving:
                _warn_of(node, moving)
            leaves.append(node)
            taken.append((None, node, None, 0))
        else:
            open_ones.pop()
        if len(open_ones) > _DEEPEST:
            raise ArgumentError(
                "the tree is nested too deeply, or one of its containers holds itself; move its arrays as a list"
            )
    return leaves, functools.partial(_rebuild, taken)


def _rebuild(taken: list[_Taken], leaves: list[Any]) -> Any:
    """The tree of new leaves: children first, so that the ones of a container are on top when its turn comes."""
    made: list[Any] = []
    are_new: list[bool] = []
    left = list(leaves)
    for form, node, kept, own in reversed(taken):
        if form is None:
            made.append(left.pop())
            are_new.append(made[-1] is not node)
            continue
        if isinstance(own, list):
            start = len(left) - len(own)
            children = left[start:]
            del left[start:]
            is_new = True in map(is_not, children, own)
        else:
            start = len(made) - own
            children, is_new = made[: -own - 1 : -1], True in are_new[start:]
            del made[start:], are_new[start:]
        made.append(form.make(node, kept, children) if is_new or form.is_usual else node)
        are_new.append(is_new)
    return made[0]


# --- the kinds of containers


class Form:
    """The way in which the containers of one class are taken apart and made again."""

    is_usual = True
    """They are made anew even where none of their children is."""

    def take(self, node: Any) -> tuple[list[Any], Any]:
        """The children, and what `make` and `steps` need beside them."""
        raise NotImplementedError

    def take_all(self, node: Any) -> tuple[list[Any], Any]:
        """As `take`, with the children that hold no arrays, which `take` may leave out to save time."""
        return self.take(node)

    def make(self, node: Any, kept: Any, children: list[Any]) -> Any:
        """A container as ``node``, with other children."""
        raise NotImplementedError

    def steps(self, node: Any, kept: Any) -> list[PathStep]:
        """The ways to the children."""
        raise NotImplementedError


class _Dict(Form):
    def take(self, node: Any) -> tuple[list[Any], Any]:
        return list(node.values()), list(node)

    def make(self, node: Any, kept: Any, children: list[Any]) -> Any:
        return dict(zip(kept, children, strict=True))

    def steps(self, node: Any, kept: Any) -> list[PathStep]:
        return [PathStep(key) for key in kept]


class _Sequence(Form):
    """Items by their numbers, or by the names that a tuple gives them."""

    def __init__(self, make: Callable[[list[Any]], Any], names: tuple[str, ...] = (), *, is_usual: bool = True) -> None:
        self._make = make
        self._names = names
        self.is_usual = is_usual

    def take(self, node: Any) -> tuple[list[Any], Any]:
        return list(node), None

    def make(self, node: Any, kept: Any, children: list[Any]) -> Any:
        return self._make(children)

    def steps(self, node: Any, kept: Any) -> list[PathStep]:
        if self._names:
            return [PathStep(name, is_attribute=True) for name in self._names]
        return [PathStep(number) for number in range(tuple.__len__(node) if isinstance(node, tuple) else len(node))]


class _Registered(Form):
    """A class that the program has registered, here or with optree."""

    @staticmethod
    def is_of(node: Any) -> bool:
        optree = sys.modules.get("optree")  # where it is not imported nothing is registered
        return optree is not None and _one_level(optree, node)[1].kind == optree.PyTreeKind.CUSTOM

    def take(self, node: Any) -> tuple[list[Any], Any]:
        return _one_level(sys.modules["optree"], node)

    def make(self, node: Any, kept: Any, children: list[Any]) -> Any:
        return kept.unflatten(children)

    def steps(self, node: Any, kept: Any) -> list[PathStep]:
        return [PathStep(number, is_named=False) for number in range(kept.num_leaves)]


def _one_level(optree: Any, node: Any) -> tuple[list[Any], Any]:
    found: tuple[list[Any], Any] = optree.tree_flatten(
        node, is_leaf=lambda each: each is not node, none_is_leaf=True, namespace=NAMESPACE
    )
    return found


class _Called(Form):
    """A container of C that is made by a call with its items: a tuple with names for them, a proxy of a dict."""

    is_usual = False

    def __init__(self, cls: Callable[[Any], Any], inner: Form) -> None:
        self._cls = cls
        self._inner = inner

    def take(self, node: Any) -> tuple[list[Any], Any]:
        return self._inner.take(node)

    def make(self, node: Any, kept: Any, children: list[Any]) -> Any:
        return self._cls(self._inner.make(node, kept, children))

    def steps(self, node: Any, kept: Any) -> list[PathStep]:
        return self._inner.steps(node, kept)

    def is_faithful(self, node: Any) -> bool:
        """Whether the call gives back a container like this one."""
        try:
            children, kept = self.take(node)
            new = self.make(node, kept, children)
            found, again = self.take(new)
            return type(new) is type(node) and list(map(id, found)) == list(map(id, children)) and bool(again == kept)
        except Exception:  # a foreign class may raise anything
            return False


class Staying(NamedTuple):
    """An array that stays where it is, hidden in a leaf of another kind."""

    array: Any


class _Layout(NamedTuple):
    """The parts of an object of a class of Python's, but for its children."""

    keys: list[Any] | None
    """The keys of a mapping; None for other containers."""
    items: int
    """Their number; what follows are values of attributes."""
    names: Sequence[Any]
    """Attributes, and the descriptors of slots."""
    places: Sequence[int]
    """Where the values of those stand among the children: one may be an item as well."""
    wraps: bool
    """The items are those of the attribute ``data``."""
    others: Sequence[tuple[Any, Any]] = ()
    """Names and values of attributes that are no children, as they hold nothing but texts and numbers."""


class _Record(Form):
    """A class of Python's that has nothing but attributes.

    Args:
        cls: The class.
        make_blank: Makes an object without any.
    """

    def __init__(self, cls: Any, make_blank: Callable[[Any], Any]) -> None:
        self._cls = cls
        self._make_blank = make_blank
        self._declared = _list_declared_fields(cls)
        self.is_usual = dataclasses.is_dataclass(cls)

    def take(self, node: Any) -> tuple[list[Any], Any]:
        attributes = _attributes(node)
        return [*attributes.values()], [*attributes]

    def make(self, node: Any, kept: Any, children: list[Any]) -> Any:
        new = self._make_blank(self._cls)  # not through __init__: it may check or change what it is given
        _attributes(new).update(zip(kept, children, strict=True))
        return new

    def steps(self, node: Any, kept: Any) -> list[PathStep]:
        declared = self._declared
        return [
            PathStep(name, is_attribute=True, is_extra=declared is not None and name not in declared) for name in kept
        ]


def _is_plain(value: Any) -> bool:
    """Whether an attribute holds nothing but texts and numbers, such as the versions of a model's parts: many."""
    level: list[Any] = [value]
    looks = 0
    while kinds := set(map(type, level)) - _PLAIN:
        deeper: list[Any] = []
        for kind in kinds:
            if (inside := _PLAIN_INSIDE.get(kind)) is None:
                return False
            same: list[Any] = [each for each in level if type(each) is kind]
            looks += 1 + sum(map(len, same))
            if looks > _PARTS_MOST or (kind is OrderedDict and any(each.__dict__ for each in same)):
                return False
            deeper += chain.from_iterable(map(inside, same))
        level = deeper
    return True


_PLAIN_INSIDE: dict[type, Callable[[Any], Iterable[Any]]] = {
    dict: dict.values, OrderedDict: OrderedDict.values, list: iter, tuple: iter
}  # fmt: skip
_PARTS_MOST = 50_000


class _Object(Form):
    """A class of Python's: the items of the container that it inherits or wraps, then its attributes and slots.

    Args:
        cls: The class.
        base: The builtin class that it inherits, and whose methods see its items: those of a subclass may do anything.
    """

    def __init__(self, cls: Any, base: Any) -> None:
        self._cls = cls
        self._base = base
        self._wrapped: Any = next((kind for each, kind in _WRAPPERS.items() if issubclass(cls, each)), None)
        """The type of the attribute ``data``, whose items are those of the object."""
        self._slots = _slots(cls, base)
        self._has_attributes = bool(cls.__dictoffset__)
        self._fields = _fields(cls)
        self._declared = _list_declared_fields(cls)
        self.staying: frozenset[str] = next(
            (each for name, each in _STAYING.items() if name in _names(cls)), frozenset()
        )
        """The fields whose arrays every device wants on the host."""
        self.is_usual = cls is base or bool(self._fields) or dataclasses.is_dataclass(cls)

    def take(self, node: Any) -> tuple[list[Any], _Layout]:
        return self._read_fields(node, _is_plain)

    def take_all(self, node: Any) -> tuple[list[Any], _Layout]:
        return self._read_fields(node, lambda _: False)

    def _read_fields(self, node: Any, may_skip: Callable[[Any], bool]) -> tuple[list[Any], _Layout]:
        state = self._state(node) if self._has_attributes or self._slots else []
        holder, base = node, self._base
        wraps = self._wrapped is not None and type(data := dict(state).get("data")) is self._wrapped
        if wraps:
            holder, base = data, self._wrapped
            state = [each for each in state if each[0] != "data"]
        keys: list[Any] | None = None
        if base is object or base is types.SimpleNamespace:
            children = []
        elif issubclass(base, dict):
            keys, children = [*base.keys(holder)], [*base.values(holder)]
        else:
            children = [*base.__iter__(holder)]
        if self.staying:
            named = zip(self._fields, children, strict=True)
            children = [Staying(each) if name in self.staying else each for name, each in named]
        count = len(children)
        if not state:
            return children, _Layout(keys, count, (), (), wraps)
        numbers = {id(each): number for number, each in enumerate(children)}
        names, places, others = [], [], []
        for name, value in state:
            if count and id(value) not in numbers and may_skip(value):
                others.append((name, value))
                continue
            names.append(name)
            places.append(numbers.setdefault(id(value), len(children)))
            if places[-1] == len(children):
                children.append(value)
        return children, _Layout(keys, count, names, places, wraps, others)

    def _state(self, node: Any) -> list[tuple[Any, Any]]:
        """The slots, by their descriptors, and the attributes, by their names."""
        state: list[tuple[Any, Any]] = []
        for slot in self._slots:
            try:
                state.append((slot, slot.__get__(node)))
            except AttributeError:  # it is empty
                continue
        if self._has_attributes and (attributes := _attributes(node)) is not node:  # see `make`
            state += attributes.items()
        return state

    def make(self, node: Any, kept: _Layout, children: list[Any]) -> Any:
        items, base = children[: kept.items], self._base
        if self.staying:
            items = [each.array if type(each) is Staying else each for each in items]
        new = base.__new__(self._cls, items) if base is tuple else base.__new__(self._cls)
        if issubclass(base, dict):
            for key, value in zip(kept.keys or (), items, strict=True):
                base.__setitem__(new, key, value)
            if base is defaultdict:
                _FACTORY.__set__(new, _FACTORY.__get__(node))
        elif base is list:
            list.extend(new, items)
        elif base is deque:
            deque.__init__(new, items, _MAXLEN.__get__(node))
        if self._has_attributes and _attributes(node) is node:  # a dict whose keys are its attributes
            object.__setattr__(new, "__dict__", new)
        attributes = _attributes(new) if self._has_attributes else {}
        if kept.wraps:
            attributes["data"] = items if kept.keys is None else dict(zip(kept.keys, items, strict=True))
        # A set of the object's own is pydantic's, of the fields that were given: each object adds to its own.
        own = [set(each) if type(each) is set else each for each in children[kept.items :]]
        values = [*children[: kept.items], *own]
        named = zip(kept.names, [values[place] for place in kept.places], strict=True)
        for name, value in (*named, *kept.others):
            if type(name) is str:
                attributes[name] = value
            else:
                name.__set__(new, value)
        return new

    def steps(self, node: Any, kept: _Layout) -> list[PathStep]:
        if self._fields:
            found = [PathStep(name, is_attribute=True) for name in self._fields]
        else:
            found = [PathStep(key) for key in (range(kept.items) if kept.keys is None else kept.keys)]
        for name, place in zip(kept.names, kept.places, strict=True):
            if place == len(found):
                name = name if type(name) is str else name.__name__
                is_extra = bool(kept.items) or (self._declared is not None and name not in self._declared)
                found.append(PathStep(name, is_attribute=True, is_extra=is_extra))
        return found


_PLAIN = LEAVES - {np.ndarray}
_FACTORY: Any = vars(defaultdict)["default_factory"]
_MAXLEN: Any = vars(deque)["maxlen"]
_WRAPPERS = {UserDict: dict, UserList: list}
_BASES = frozenset([dict, OrderedDict, defaultdict, list, tuple, deque])
"""The builtin containers whose subclasses are taken apart."""
_STAYING = {"torch.nn.utils.rnn.PackedSequence": frozenset(["batch_sizes"])}
_DEVICE_BESIDE = frozenset(["tensordict.base.TensorDictBase"])
"""Mappings that note the device of their arrays beside them, and move by themselves: ``x.to(device)``."""
_MARKS = frozenset(
    ["__dataclass_fields__", "__attrs_attrs__", "__pydantic_fields_set__", "__pydantic_fields__", "__fields_set__"]
)
"""Attributes that dataclasses, attrs, and pydantic in both its versions leave in their classes."""
_SPACES = frozenset(["types.SimpleNamespace", "argparse.Namespace"])
_LEAF, _OPAQUE = object(), object()
"""Marks of classes that are no containers: of those whose objects hold nothing, and of those that may hold arrays."""
_forms: dict[type, Form | object] = {
    **dict.fromkeys(_PLAIN, _LEAF), dict: _Dict(), list: _Sequence(list), tuple: _Sequence(tuple),
    Staying: _LEAF,
}  # fmt: skip
"""The form of each class that was met; none of those of arrays, since a backend that is loaded later may add some."""


def _form(node: Any) -> Form | object:
    """How an object is taken apart, or a mark of why it is not."""
    if registry.owner_of(node) is not None:
        return _LEAF
    cls = type(node)
    found = _forms.get(cls)
    if found is None:
        found = _forms[cls] = _new_form(cls, node)
    return found


def _new_form(cls: type, node: Any) -> Form | object:
    if _Registered.is_of(node):
        return _Registered()
    base = _base(cls)
    fields = _fields(cls)
    if base is tuple and not cls.__dictoffset__ and getattr(cls, "__iter__", None) is tuple.__iter__:
        return _Sequence(functools.partial(tuple.__new__, cls), fields, is_usual=bool(fields))
    if base in _BASES:
        return _Object(cls, base)
    is_mapping = _is_kind(cls, Mapping)
    if base is object or base is types.SimpleNamespace:
        is_known = _is_kind(cls, Sequence) or (is_mapping and not _reads_late(node)) or _is_record(cls)
        if is_known and not _DEVICE_BESIDE.intersection(_names(cls)):
            has_more = issubclass(cls, tuple(_WRAPPERS)) or _slots(cls, base)
            return _Object(cls, base) if has_more else _Record(cls, base.__new__)
    elif is_mapping or hasattr(cls, "n_sequence_fields"):
        called = _Called(cls, _Dict() if is_mapping else _Sequence(tuple))
        if called.is_faithful(node):
            return called
    is_plain = cls.__flags__ & _HEAP_TYPE == 0 and not issubclass(cls, (set, frozenset, ValuesView, ItemsView, Mapping))
    return _LEAF if is_plain and not cls.__dictoffset__ and not _is_array_like(cls) else _OPAQUE


_HEAP_TYPE = 1 << 9
"""The bit of ``__flags__`` that says that the class was made while the program ran."""


def _base(cls: type) -> type:
    """The builtin class that makes the objects of a class, and so holds what attributes and slots do not."""
    for each in cls.__mro__:
        new = each.__new__
        if not each.__flags__ & _HEAP_TYPE or (isinstance(new, types.BuiltinFunctionType) and new.__self__ is each):
            return each
    return object


def _fields(cls: Any) -> tuple[str, ...]:
    """The names of a named tuple's items."""
    found = getattr(cls, "_fields", None) if issubclass(cls, tuple) else None
    return found if type(found) is tuple else ()


def _is_kind(cls: type, kind: type) -> bool:
    try:
        return issubclass(cls, kind)
    except Exception:  # a foreign class may raise anything
        return False


def _names(cls: type) -> set[str]:
    return {f"{each.__module__}.{each.__qualname__}" for each in cls.__mro__}


def _is_record(cls: type) -> bool:
    """Whether objects of a class are their attributes, as it or its library says."""
    return any(not _MARKS.isdisjoint(vars(each)) for each in cls.__mro__) or not _SPACES.isdisjoint(_names(cls))


def _list_declared_fields(cls: Any) -> frozenset[str] | None:
    """The fields that a class declares; None where any attribute is one."""
    if dataclasses.is_dataclass(cls):
        return frozenset(each.name for each in dataclasses.fields(cls))
    fields = getattr(cls, "__attrs_attrs__", None)
    return None if fields is None else frozenset(each.name for each in fields)


def _slots(cls: type, base: type) -> list[Any]:
    """The descriptors of the slots of a class, and of those that it inherits down to ``base``."""
    owners = cls.__mro__[: cls.__mro__.index(base)]
    return [each for owner in owners for each in vars(owner).values() if type(each) is types.MemberDescriptorType]


def _attributes(node: Any) -> Any:
    """The ``__dict__`` of an object: an empty one where its class keeps it elsewhere."""
    found = object.__getattribute__(node, "__dict__")
    return found if type(found) is dict or found is node else {}


# --- arrays in objects that are no containers


_warned: weakref.WeakSet[type] = weakref.WeakSet()
_fruitless: dict[type, int] = {}
_FRUITLESS_MOST = 16
"""Objects of a class without arrays, after which the others are not looked at: a look takes 10 us."""
_LOOKS, _FAR_LOOKS = 300, 50_000
"""Objects that are looked at in a search for an array; for whether a class of mappings keeps some, once."""


def _warn_of(node: Any, moving: str) -> None:
    """Tell once for a class that the arrays in its objects stay where they are."""
    cls = type(node)
    if cls in _warned:
        return
    name = cls.__qualname__
    if moving == "host" and _is_array_like(cls):
        text = f"a {name} in a tree converts to an array, and is none: it stays as it is; give numpy.asarray(x) for it"
    else:
        found = next(_arrays_in(node, moving), None)
        if found is None:
            _fruitless[cls] = _fruitless.get(cls, 0) + 1
            if _fruitless[cls] >= _FRUITLESS_MOST:
                _forms[cls] = _LEAF
            return
        text = (
            f"a {name} in a tree holds arrays (x{found}), which stay as they are: xferlib does not know how to make "
            f"another {name}; call xferlib.tree.register({name}, flatten, unflatten) once, or give its arrays in a dict"
        )
    checks.warn(f"{text}. If it is to stay: warnings.simplefilter('ignore', xferlib.errors.XferWarning)")
    _warned.add(cls)  # not before: the warning may be an error


def _is_array_like(cls: type) -> bool:
    return any(hasattr(cls, name) for name in ("__array__", "__array_interface__", "__dlpack__"))


def _arrays_in(node: Any, moving: str, looks: int = _LOOKS) -> Iterator[str]:
    """The ways to the arrays in an object that are to be moved, as far as they are easily found."""
    pending = deque([("", node)])
    for _ in range(looks):
        if not pending:
            return
        path, each = pending.popleft()
        if (owner := registry.owner_of(each)) is not None:
            if path and (moving == "any" or (owner.device_of(each).kind == "cpu") is (moving == "host")):
                yield path
            continue
        pending += [(f"{path}{step}", value) for step, value in islice(_inside(each), looks)]


def _inside(node: Any) -> Iterable[tuple[str, Any]]:
    """Items, attributes and slots of an object; nothing of code."""
    cls = type(node)
    if issubclass(cls, (type, types.ModuleType)) or hasattr(cls, "__get__"):
        return []
    found: list[tuple[str, Any]] = []
    try:
        if issubclass(cls, dict):
            found = [(f"[{quote(key)}]", each) for key, each in dict.items(node)]
        elif _is_kind(cls, Mapping):  # of which one may have to be read from a file
            found = [(f"[{quote(key)}]", node[key]) for key in islice(node, 1)]
        elif issubclass(cls, (list, tuple, set, frozenset, ValuesView, ItemsView)):
            found = [(f"[{number}]", each) for number, each in enumerate(node)]
        if cls.__dictoffset__:
            found += [(f".{name}", each) for name, each in _attributes(node).items()]
        for slot in _slots(cls, _base(cls)):
            with contextlib.suppress(AttributeError):  # it is empty
                found.append((f".{slot.__name__}", slot.__get__(node, cls)))
    except Exception:  # a foreign object may raise anything
        return found
    return found


def _reads_late(node: Any) -> bool:
    """Whether a mapping keeps no arrays in its attributes, and gives some all the same, as one over a file does."""
    attributes: list[Any] = []
    items: list[Any] = []
    for step, each in _inside(node):
        (attributes if step.startswith(".") else items).append(each)
    return any(_arrays_in(items, "any")) and not any(_arrays_in(attributes, "any", _FAR_LOOKS))

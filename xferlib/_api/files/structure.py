"""The structure of a tree as text beside its arrays, which have names: so that a file gives the same tree back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from xferlib._core import registry
from xferlib._core.array import Array
from xferlib._core.containers import Staying, flatten, parts
from xferlib.errors import ArgumentError, UnsupportedArrayError, shown

_SCALARS = (bool, int, float, str, type(None))
_ROOT = "array"
"""The name of an array that is the whole tree."""
_RESERVED = "__metadata__"
"""The entry of a file of safetensors that is no array."""
_VERSION = 1
_DEEPEST = 200
"""Containers within each other: JSON is read by a function that calls itself, three times for each."""
_NAME_MOST = 65_000
"""Bytes of a name: those of a zip file have at most 65,535."""


class Names:
    """The arrays of a tree by their names: the keys and numbers that lead to each, divided by ``/``.

    Args:
        tree: Nested dicts, lists and tuples of arrays; named tuples, dataclasses and registered classes too, which
            only a tree of the same kind can read again.

    Raises:
        UnsupportedArrayError: A leaf is neither an array, nor a number, a text or None.
        ArgumentError: A key of a dict is neither a text nor a whole number.
    """

    def __init__(self, tree: Any) -> None:
        self.arrays: dict[str, Array] = {}
        self.by_id: dict[int, str] = {}
        """The name of each array object; one that stands in several places has one."""
        self.structure = self._node(tree, ())

    @property
    def text(self) -> str:
        """The structure, as a line of JSON."""
        try:
            return json.dumps({"version": _VERSION, "tree": self.structure})
        except ValueError as error:
            raise ArgumentError(f"save: a number of the tree cannot be written ({error}); save it as a text") from error

    def _node(self, node: Any, path: tuple[Any, ...]) -> Any:
        cls = type(node)
        if cls in _SCALARS:
            return {"value": node}
        if len(path) > _DEEPEST:
            raise ArgumentError(
                f"save: {_shown(path[:8])} leads more than {_DEEPEST} containers deep, or one of them holds itself; "
                "save a flatter tree"
            )
        if cls is dict:
            return {"dict": [[self._key(key, path), self._node(each, (*path, key))] for key, each in node.items()]}
        if cls is list or cls is tuple:
            return {cls.__name__: self._nodes(enumerate(node), path)}
        if registry.backend_of(node) is not None:
            return {"array": self._name(node, path)}
        return {"object": cls.__name__, "children": self._nodes(_children(node, path), path)}

    def _nodes(self, children: Iterable[tuple[Any, Any]], path: tuple[Any, ...]) -> list[Any]:
        return [self._node(each, (*path, key)) for key, each in children]

    def _key(self, key: Any, path: tuple[Any, ...]) -> Any:
        if type(key) not in (str, int) or (type(key) is int and key.bit_length() > _KEY_BITS):
            raise ArgumentError(
                f"save: the dict at {_shown(path)} has the key {shown(key)}, and files take texts and whole numbers; "
                "give it such a key"
            )
        return key

    def _name(self, array: Array, path: tuple[Any, ...]) -> str:
        found = self.by_id.get(id(array))
        if found is None:
            text = "/".join(map(str, path)).encode("utf-8", "backslashreplace").decode()  # half a pair has no encoding
            found = text.replace("\0", "\\0") or _ROOT  # at which a name in a zip file ends
            if (nbytes := len(found.encode())) > _NAME_MOST:
                raise ArgumentError(
                    f"save: the keys that lead to {_shown(path)} have {nbytes} bytes, and names in files up to "
                    f"{_NAME_MOST}; give shorter ones"
                )
            while found in self.arrays or found == _RESERVED:  # as "a/b" is, beside "b" of "a"
                found += "'"
            self.by_id[id(array)] = found
            self.arrays[found] = array
        return found


_KEY_BITS = 2000
"""Of a key that is a number: of longer ones Python may refuse to write the digits."""


def _children(node: Any, path: tuple[Any, ...]) -> Iterable[tuple[Any, Any]]:
    """The children of a class other than Python's usual containers, with names.

    Attributes beside the items or the fields of an object are among them if they hold arrays: the others come from the
    tree that it is read with.
    """
    inside = parts(node)
    if inside is None:
        raise UnsupportedArrayError(
            f"save: {_shown(path)} is {shown(node)}: neither an array, nor a number, a text or None; leave it out, or "
            "convert it"
        )
    if any(type(each) is Staying for _, each in inside):
        raise UnsupportedArrayError(
            f"save: {_shown(path)} is {shown(node)}, of which some arrays stay on the host; save them as a dict"
        )
    if not all(step.is_named for step, _ in inside):  # of a registered class, whose leaves are numbered
        return enumerate(flatten(node, moving="")[0])
    return [(step.key, each) for step, each in inside if not step.is_extra or _has_arrays(each)]


def _has_arrays(node: Any) -> bool:
    return any(registry.backend_of(leaf) is not None for leaf in flatten(node, moving="")[0])


def rebuilt(text: str | None, arrays: dict[str, Any], *, source: str) -> Any:
    """The tree of that structure; a dict of the arrays by their names where a file tells none.

    Raises:
        ArgumentError: It holds a class that only a tree of the same kind can read, or is no structure of xferlib's.
    """
    if text is None:
        return arrays
    try:
        told = json.loads(text)
        if told["version"] != _VERSION:
            raise ArgumentError(
                f"load: {source} has a structure of version {shown(told['version'])}, and this xferlib reads "
                f"{_VERSION}; install a newer one"
            )
        return _tree(told["tree"], arrays, source)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        if isinstance(error, ArgumentError):
            raise
        text = f"{type(error).__name__}: {error}"[:300]
        raise ArgumentError(f"load: the structure in {source} is damaged ({text}); save it again") from error


def _tree(node: dict[str, Any], arrays: dict[str, Any], source: str) -> Any:
    if "array" in node:
        return arrays[node["array"]]
    if "value" in node:
        if type(node["value"]) not in _SCALARS:
            raise ValueError("a value is no text or number")
        return node["value"]
    if "dict" in node:
        found = {key: _tree(each, arrays, source) for key, each in node["dict"]}
        if len(found) < len(node["dict"]):
            raise ValueError("a dict has a key twice")
        return found
    if "list" in node:
        return [_tree(each, arrays, source) for each in node["list"]]
    if "tuple" in node:
        return tuple(_tree(each, arrays, source) for each in node["tuple"])
    raise ArgumentError(
        f"load: {source} holds a {str(node['object'])[:80]}, which a file does not tell how to make; give a tree of "
        "the same kind: xferlib.load(path, like=tree)"
    )


def like(tree: Any, arrays: dict[str, Any], *, source: str) -> Any:
    """A tree as ``tree``, with the arrays of the same names in the places of its own.

    Raises:
        ArgumentError: The names are not the same.
    """
    names = Names(tree)
    if names.arrays.keys() != arrays.keys():
        missing, more = sorted(names.arrays.keys() - arrays.keys()), sorted(arrays.keys() - names.arrays.keys())
        told = "; ".join(
            f"{what} {', '.join(name[:80] for name in some[:5])}{', ...' if len(some) > 5 else ''}"
            for what, some in (("only the tree has", missing), ("only the file has", more))
            if some
        )
        raise ArgumentError(f"load: the tree of like= does not have the names of {source}: {told}; give one that has")
    leaves, rebuild = flatten(tree, moving="")
    return rebuild([arrays[names.by_id[id(leaf)]] if id(leaf) in names.by_id else leaf for leaf in leaves])


def _shown(path: tuple[Any, ...]) -> str:
    text = "/".join(map(str, path)) or "the tree itself"
    return text if len(text) <= 80 else f"{text[:80]}..."

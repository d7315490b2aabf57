"""The structure of trees: nested dicts, lists, tuples, named tuples, dataclasses, registered classes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np

from xferlib._core import registry
from xferlib._native import driver_calls
from xferlib.errors import ArgumentError, XferError

NAMESPACE = "xferlib"
"""Namespace of `optree` in which xferlib looks for custom nodes, besides the global one."""
_LEAVES = frozenset([np.ndarray, float, int, bool, complex, str, bytes, type(None)])
"""Types of leaves, besides those of arrays that the registry has met."""


def register(cls: type, flatten: Callable[[Any], tuple[Any, Any]], unflatten: Callable[[Any, Any], Any]) -> None:
    """Make a class a node of trees.

    Args:
        cls: The class.
        flatten: ``flatten(node) -> (children, metadata)``.
        unflatten: ``unflatten(metadata, children) -> node``.
    """
    import optree

    optree.register_pytree_node(cls, flatten, unflatten, namespace=NAMESPACE)


def flatten(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves, each object once, and a function that rebuilds the tree with new ones.

    An object that stands in several places, such as a weight that two layers share, is still one after its journey.
    """
    leaves, rebuild = _flatten(tree)
    find_out = driver_calls.distinguisher()
    if find_out(leaves) if find_out is not None else len(set(map(id, leaves))) == len(leaves):
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
    import optree

    flatten(tree)  # which makes nodes of its dataclasses
    for path in optree.tree_accessors(tree, none_is_leaf=True, namespace=NAMESPACE):
        leaf = path(tree)
        try:
            check(leaf)
        except type(error) as found:
            if path:  # or the tree is the leaf
                error.args = (f"{path.codify(name)} ({type(leaf).__name__}): {found}", *error.args[1:])
            return


def _flatten(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    flattener = driver_calls.flattener()
    if flattener is not None:
        flat, rebuilt = flattener
        found = flat(tree, registry.by_type, _LEAVES)
        if found is not None:
            return found, functools.partial(rebuilt, tree)
    plain = _flatten_plain(tree)
    if plain is not None:
        return plain
    import optree

    while True:
        try:
            leaves, spec = optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)
        except RecursionError as error:
            raise ArgumentError(
                "the tree is nested too deeply, or one of its containers holds itself; move its arrays as a list"
            ) from error
        fresh = [cls for cls in set(map(type, leaves)) if dataclasses.is_dataclass(cls)]
        if not fresh:
            return leaves, functools.partial(optree.tree_unflatten, spec)
        for cls in fresh:
            _register_dataclass(cls)


def _flatten_plain(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]] | None:
    """An array, or a list, tuple or dict of nothing else, at a tenth of the cost; None for any other tree."""
    rebuild: Callable[[list[Any]], Any]
    cls = type(tree)
    if cls is np.ndarray or cls is float or registry.is_array_type(cls):
        return [tree], itemgetter(0)
    if cls is list or cls is tuple:
        leaves, rebuild = list(tree), cls
    elif cls is dict:
        leaves, rebuild = list(tree.values()), lambda new: dict(zip(tree, new, strict=True))
    else:
        return None
    kinds = set(map(type, leaves))
    kinds.discard(np.ndarray)
    return (leaves, rebuild) if all(registry.is_array_type(kind) for kind in kinds) else None


def _register_dataclass(cls: type) -> None:
    names = tuple(field.name for field in dataclasses.fields(cls))

    def flatten(node: Any) -> tuple[tuple[Any, ...], None]:
        return tuple(getattr(node, name) for name in names), None

    def unflatten(_: None, children: Any) -> Any:
        node: Any = object.__new__(cls)  # not through __init__: it may check or change what it is given
        for name, child in zip(names, children, strict=True):
            object.__setattr__(node, name, child)
        return node

    with contextlib.suppress(ValueError):  # another thread has registered it meanwhile
        register(cls, flatten, unflatten)

"""The structure of trees: nested dicts, lists, tuples, named tuples, dataclasses, registered classes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

NAMESPACE = "xferlib"
"""Namespace of `optree` in which xferlib looks for custom nodes, besides the global one."""


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
    """The leaves in order, and what puts new ones in their places."""
    import optree

    while True:
        leaves, spec = optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)
        fresh = [cls for cls in set(map(type, leaves)) if dataclasses.is_dataclass(cls)]
        if not fresh:
            return leaves, functools.partial(optree.tree_unflatten, spec)
        for cls in fresh:
            _register_dataclass(cls)


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

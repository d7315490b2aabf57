"""A case that is ready to be timed: the ways of each library, and how a result is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from xferlib._cli.bench.libraries import Run


class Case(Protocol):
    """A random case, known by its name; its text says what it is."""

    @property
    def name(self) -> str: ...
    @property
    def library(self) -> str:
        """The backend of the arrays that xferlib makes or takes."""

    @property
    def nbytes(self) -> int:
        """Bytes that are read, or read and written."""

    @property
    def group(self) -> str:
        """Names its colour in the picture."""


@dataclass(frozen=True, slots=True)
class Way:
    """One complete use of a library, from the call until the result is there."""

    run: Run
    is_pinned: bool = False
    """The result is a new array in page-locked memory."""


Runs = dict[str, Run]
Ways = dict[str, Way]


def ordinary(runs: Runs) -> Ways:
    return {name: Way(run) for name, run in runs.items()}


def pinned(runs: Runs) -> Ways:
    return {name: Way(run, is_pinned=True) for name, run in runs.items()}


def _unchanged() -> None:
    """Leave the data as it is: nothing between host and device keeps it."""


@dataclass(slots=True, kw_only=True)
class Trial:
    """The ways of one case."""

    subject: str
    """xferlib, named with its backend."""
    problem: Callable[[Any], str]
    """Why a result of xferlib's is wrong; empty if it is right."""
    ways: dict[str, Ways] = field(default_factory=dict)
    """By library."""
    change: Callable[[], None] = _unchanged
    """Called before each run: writes other data."""
    absent: dict[str, str] = field(default_factory=dict)
    """The reason why a library or a way is left out."""

    def add(self, library: str, make: Callable[[], Ways]) -> None:
        """Add the ways of a library, unless it refuses the case."""
        try:
            found = make()
        except Exception as error:  # each library has errors of its own
            self.absent[library] = reason(error)
        else:
            if found:
                self.ways[library] = found

    def try_peers(self) -> None:
        """Call each way of the peers, and leave out those that fail."""
        for library, ways in list(self.ways.items()):
            for name, way in list(ways.items()):
                if library == self.subject:
                    continue
                try:
                    way.run()
                except Exception as error:
                    self.absent[f"{library}, {name}"] = reason(error)
                    del ways[name]
            if not ways:
                del self.ways[library]


def reason(error: BaseException) -> str:
    """The first line of an error, with its type."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]

"""Copies to the host that no call of the program asks for: refused, counted by line, or made.

``float(x)`` and ``if x < tolerance`` are a copy and a wait each, and a loop that has one keeps a GPU idle in every
turn. Some functions of the namespace wait too: ``x[mask]`` has as many elements as the values say. A program cannot do
without these where that number matters, so they pass unless it is told otherwise.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from xferlib._runtime.checks import site_of, user_call
from xferlib.sim.detector import SimError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xferlib._core.device import Device
    from xferlib._runtime.checks import CodeLocation, Site


class ImplicitCopyError(SimError, TypeError):
    """A call would have copied device data to the host implicitly."""

    __module__ = "xferlib.sim"  # tracebacks show the name that a program can use


class Reaction(StrEnum):
    """The reaction to an implicit copy."""

    RAISE = "raise"
    LOG = "log"
    ALLOW = "allow"


class ImplicitCopy(NamedTuple):
    """Copies to the host that a line of the program makes without a call that says so."""

    what: str
    site: Site
    times: int
    nbytes: int
    """Of all of them."""


_WORDS = {"getitem": "x[mask]", "setitem": "x[mask] = value"}
"""Functions of the namespace as programs write them."""


class ImplicitCopies:
    """The reaction to implicit copies, and those that were let pass.

    Args:
        reaction: Where it is None, conversions are refused and functions that have to wait pass.
    """

    def __init__(self, reaction: Reaction | None = None) -> None:
        self.reaction = reaction
        self._found: dict[tuple[str, CodeLocation], tuple[int, int]] = {}

    def convert(self, what: str, instead: str, nbytes: int, device: Device) -> None:
        """Pass a conversion of an array to values of the host.

        Raises:
            ImplicitCopyError: It is refused.
        """
        if self.reaction in (None, Reaction.RAISE):
            raise ImplicitCopyError(
                f"{what} would copy {nbytes} bytes from {device} to the host, and wait for them; say so: {instead}"
            )
        self._count(what, user_call()[0], nbytes)

    def wait(self, nbytes: int) -> None:
        """Pass a copy to the host that a function of the namespace makes.

        Raises:
            ImplicitCopyError: It is refused.
        """
        if self.reaction in (None, Reaction.ALLOW):
            return
        location, call = user_call()
        what = _WORDS.get(call, f"{call}()")
        if self.reaction is Reaction.RAISE:
            raise ImplicitCopyError(
                f"{what} waits for the device, since values decide what it returns; keep the shape, as with "
                "xp.where(mask, x, 0), or compute it from xferlib.to_host(x)"
            )
        self._count(what, location, nbytes)

    def _count(self, what: str, location: CodeLocation, nbytes: int) -> None:
        if self.reaction is Reaction.LOG:
            count, sum_nbytes = self._found.get((what, location), (0, 0))
            self._found[what, location] = count + 1, sum_nbytes + nbytes

    def list(self) -> list[ImplicitCopy]:
        """Those that were counted, by line, the most frequent first."""
        lines: dict[tuple[str, Site], tuple[int, int]] = {}
        for (what, location), (count, nbytes) in self._found.items():
            key = what, site_of(location)
            before, sum_nbytes = lines.get(key, (0, 0))
            lines[key] = before + count, sum_nbytes + nbytes
        found = [ImplicitCopy(what, site, times, nbytes) for (what, site), (times, nbytes) in lines.items()]
        return sorted(found, key=lambda each: (-each.times, str(each.site)))


def format_table(copies: Sequence[ImplicitCopy]) -> str:
    """Implicit copies as lines of text, one for each line of the program."""
    rows = [(str(each.times), str(each.nbytes), each.what, str(each.site)) for each in copies]
    rows.insert(0, ("times", "bytes", "what", "where"))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        f"{times:>{widths[0]}}  {nbytes:>{widths[1]}}  {what:<{widths[2]}}  {site}"
        for times, nbytes, what, site in rows
    )

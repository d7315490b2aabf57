"""What the simulated device does, one operation at a time, and where in the program it was asked for."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from xferlib.sim.clocks import Participant
    from xferlib.sim.memory import Block

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_TESTING = _PACKAGE + "testing" + os.sep
_OURS = (_PACKAGE, str(Path(np.__file__).parent) + os.sep, "<frozen")
_is_ours: dict[str, bool] = {}


class Site(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


NOWHERE = Site("<outside the program>", 0, "?")
inherited = threading.local()
"""``inherited.site``: for a thread of xferlib's own, the line whose work it does."""


def user_site() -> Site:
    """The innermost line outside xferlib and NumPy; in a thread of xferlib's own, the line it works for."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        ours = _is_ours.get(file)
        if ours is None:
            ours = _is_ours[file] = file.startswith(_OURS) and not file.startswith(_TESTING)
        if not ours:
            if file == threading.__file__:
                break
            return Site(file, frame.f_lineno, frame.f_code.co_qualname)
        frame = frame.f_back
    site: Site = getattr(inherited, "site", NOWHERE)
    return site


class Span(NamedTuple):
    """Bytes of one block."""

    block: Block
    start: int
    stop: int


Spans = tuple[Span, ...]


class Action:
    """Something that touched memory: ordered behind what its participant's clock held then."""

    __slots__ = ("name", "participant", "site", "tick")

    def __init__(self, name: str, participant: Participant, site: Site) -> None:
        self.name = name
        self.participant = participant
        self.site = site
        self.tick = participant.tick()


class Operation(Action):
    """An action of a stream, carried out when the schedule says so.

    Attributes:
        run: Does the work; None for a record or a wait, which only order.
        before: Operations that must come first, as they were when it was enqueued.
        unmet: How many of them have not been carried out.
        followers: Operations that wait for this one.
    """

    __slots__ = ("before", "followers", "is_done", "reads", "run", "serial", "unmet", "writes")

    def __init__(
        self, name: str, participant: Participant, site: Site, reads: Spans, writes: Spans,
        run: Callable[[], None] | None,
    ) -> None:  # fmt: skip
        super().__init__(name, participant, site)
        self.reads = reads
        self.writes = writes
        self.run = run
        self.serial = 0
        self.before: list[Operation] = []
        self.unmet = 0
        self.is_done = False
        self.followers: list[Operation] = []

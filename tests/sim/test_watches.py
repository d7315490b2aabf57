"""The watches of memory that copies in flight read or write."""

from typing import Any

import numpy as np

from xferlib.sim.memory import Watches


class Meeting:
    """A watch beside which another thread adds one while it is looked at."""

    is_target = True

    def __init__(self, watches: Watches) -> None:
        self._watches = watches

    def meets(self, host: Any, bounds: Any) -> bool:
        self._watches._all[Meeting(self._watches)] = None  # type: ignore[index]
        return True


def test_watches_may_be_added_while_they_are_looked_through() -> None:
    watches = Watches()
    first = Meeting(watches)
    watches._all[first] = None  # type: ignore[index]
    found: list[Any] = [*watches.over(np.zeros(3))]
    assert found == [first]

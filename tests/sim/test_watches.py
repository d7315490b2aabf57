"""The watches of memory that copies in flight read or write."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xferlib.sim.memory import Watches, checksum


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


@settings(max_examples=30)
@given(
    nbytes=st.sampled_from([1, 4072, 1 << 16, 250_007, 1 << 21]), start=st.integers(0, 9), data=st.data(),
    kind=st.sampled_from(["a byte", "all", "two exchanged", "moved"]),
)  # fmt: skip
def test_contents_that_differ_have_checksums_that_differ(
    nbytes: int, start: int, kind: str, data: st.DataObject
) -> None:
    memory = np.random.default_rng(nbytes).integers(0, 256, nbytes + start, np.uint8)[start:]
    at, other = (data.draw(st.integers(0, nbytes - 1)) for _ in range(2))
    changed = memory.copy()
    match kind:
        case "a byte":
            changed[at] ^= 1 << data.draw(st.integers(0, 7))
        case "all":
            changed ^= np.uint8(data.draw(st.integers(1, 255)))
        case "two exchanged":
            changed[[at, other]] = changed[[other, at]]
        case _:
            changed[...] = np.roll(changed, at)
    assert (checksum(memory) == checksum(changed)) == np.array_equal(memory, changed)
    assert checksum(memory) == checksum(memory.copy())


def test_another_value_of_all_elements_is_another_checksum() -> None:
    """Words of floats differ in their upper bits alone: sums of an even number of them would be the same."""
    values = [2.0**exponent for exponent in range(0, 1024, 8)]
    assert len({checksum(np.full(1 << 18, value)) for value in values}) == len(values)

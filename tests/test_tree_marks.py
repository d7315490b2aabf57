"""Downloads of trees in steps, from a device that turns out to make no marks.

In a process of its own: for C it is one from then on, and the thread's pinned memory is that device's.
"""

from __future__ import annotations

import pytest

from tests.processes import printed
from xferlib.testing import native

PROGRAM = """
import concurrent.futures, threading
import numpy as np
import xferlib as xl
from tests.conftest import refuse_violations
from tests.direct import DirectBackend
from xferlib.testing import assert_same_bits, fresh_registry
from xferlib.testing.tools import load_backend

class Calls(list):
    '''Lets the second thread launch its first step when the first one has been refused its mark.'''

    def __init__(self):
        self.is_launching, self.has_failed = threading.Event(), threading.Event()

    def append(self, name):
        number = threading.current_thread().name
        super().append(name + number)
        if (name, number) == ("launch", "2"):
            self.is_launching.set()
            assert self.has_failed.wait(60)
        if (name, number) == ("wait", "1") and "mark1" in self:
            self.has_failed.set()

def fetch(number):
    threading.current_thread().name = str(number)
    assert number == 2 or calls.is_launching.wait(60)
    return xl.tree.to_host(there)

tree = {str(number): np.arange(200_000, dtype=np.float32) + number for number in range(6)}
with fresh_registry(delayed=DirectBackend):
    backend = load_backend("delayed")
    there = xl.tree.to_device(tree, device="delayed:cuda:0")
    for _ in range(2):
        xl.tree.to_host(there)
    backend.calls = calls = Calls()
    backend.failing_calls.add("mark")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = [*pool.map(fetch, (1, 2))]
    refuse_violations(backend.machine)
    xl.synchronize("delayed:cuda:0")
    del there
assert {"mark1", "mark2"} <= {*calls}
for found in results:
    for name, leaf in tree.items():
        assert_same_bits(found[name], leaf)
"""


@pytest.mark.skipif(not native().is_on, reason=native().why_no_staging or "native=off")
def test_a_thread_goes_on_while_another_finds_that_the_device_makes_no_marks() -> None:
    printed("-c", PROGRAM)

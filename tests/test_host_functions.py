"""The functions that graphs call: until when they are kept, with a double of the driver."""

from __future__ import annotations

import pytest

from tests import driver_double

START = """
import gc, weakref

state = {}
calls.graph_launch = lambda handle, stream: 0
calls.event_query = lambda handle: state[handle]

from xferlib.backends.cuda import backend as graphs
from xferlib.backends.cuda import contexts as host_functions

class Event:
    def __init__(self, handle, found):
        self.handle = handle
        state[handle] = found

def captured(*functions):
    numbers = []
    with host_functions.keep_functions_in(numbers):
        for each in functions:
            host_functions.enqueue_captured(0, each)
    return host_functions.Kept(numbers)

def graph(mark, *functions):
    return graphs.CudaGraph(1, lambda device, call, *arguments: call(*arguments), captured(*functions), mark, None)

stream = types.SimpleNamespace(device=None, handle=0)

class Function:
    def __call__(self): pass

function = Function()
is_kept = weakref.ref(function)
"""


ENDED = """
g = graph(lambda stream: Event(5, calls.SUCCESS), function)
g(stream)
del function, g
gc.collect()
assert is_kept() is None
"""
RUNNING = """
g = graph(lambda stream: Event(5, calls.NOT_READY), function)
g(stream)
del function, g
gc.collect()
other = graph(lambda stream: Event(6, calls.SUCCESS))
other(stream)
assert is_kept() is not None
state[5] = calls.SUCCESS
other(stream)
gc.collect()
assert is_kept() is None
"""
LAUNCHED_MEANWHILE = """
kept = captured(function)
kept.note_launch(Event(5, calls.SUCCESS))

def query(handle):
    found = state[handle]
    if handle == 5:
        kept.note_launch(Event(6, calls.NOT_READY))
    return found

calls.event_query = query
assert host_functions._has_launched_graphs()
calls.event_query = state.get
assert host_functions._has_launched_graphs()
state[6] = calls.SUCCESS
assert not host_functions._has_launched_graphs()
"""


@pytest.mark.parametrize(
    "program",
    [ENDED, RUNNING, LAUNCHED_MEANWHILE],
    ids=["die with a graph that is done", "of a dead graph die at the next launch of any once they have run",
         "of a launch by another thread during the look are not forgotten"],
)  # fmt: skip
def test_functions_of_graphs(program: str) -> None:
    driver_double.run(START + program)

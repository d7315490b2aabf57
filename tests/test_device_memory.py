"""Memory of CUDA's pools, and the guards that free it, with a double of the driver."""

from __future__ import annotations

from tests import driver_double

START = """
class Stream:
    device = types.SimpleNamespace(index=0)
    capture = None
    def __init__(self, handle): self.handle = handle

own = Stream(0)
backend = types.SimpleNamespace(
    attach=lambda device: None, stream_current=lambda device: own, stream_handle=lambda device: 0,
    is_behind=lambda device: lambda stream: not stream.handle,
    is_inside=lambda device: True, inside=lambda device: contextlib.nullcontext(),
    event_record=lambda stream, timing: None, event_wait=lambda stream, event: None,
)

from xferlib.backends.cuda import memory

pool = memory.DriverPool(1)

def new(): return memory.DeviceAddress.from_pool(backend, pool, 1 << 22, own)
"""


def run(program: str) -> None:
    driver_double.run(START + program)


def test_two_threads_that_use_one_array_set_one_guard() -> None:
    run("""
together = threading.Barrier(2, timeout=60)

class Meeting(memory.Guard):
    def __init__(self, *args):
        together.wait()
        super().__init__(*args)

memory.Guard = Meeting
x = new()
threads = [threading.Thread(target=x.used_on, args=(Stream(handle),)) for handle in (7, 8)]
for each in threads: each.start()
for each in threads: each.join()
assert freed == []
assert sorted(x._guard.users) == [(0, 7), (0, 8)]
del x, threads, each
assert freed == made
""")


def test_an_interrupt_while_the_guard_is_set_frees_nothing_and_leaks_nothing() -> None:
    run("""
signal.signal(signal.SIGINT, signal.default_int_handler)

def strike_at(entry):
    count = 0
    def look(frame, event, arg):
        nonlocal count
        if event == "call":
            count += 1
            if count == entry:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
    return look

other, struck = Stream(7), 0
for entry in range(1, 30):
    freed.clear()
    x = new()
    sys.settrace(strike_at(entry))
    try:
        x.used_on(other)
    except KeyboardInterrupt:
        struck += 1
    finally:
        sys.settrace(None)
    assert freed == [], entry
    del x
    assert freed == made[-1:], entry
assert struck >= 4
""")


def test_a_handler_that_allocates_within_an_allocation_has_another_address() -> None:
    run("""
others = []
signal.signal(signal.SIGTERM, lambda *_: others.append(new()))
within.append(lambda: signal.raise_signal(signal.SIGTERM))
x = new()
assert [x, *others] == made
assert len(made) == 2
""")


OWNED = """
import ctypes, gc, weakref
from xferlib import _native

ordered, captures, guards = [], [], []
record = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64)(
    lambda event, stream: ordered.append(("record", event, stream)) or refused[0]
)
wait = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint)(
    lambda stream, event, flags: ordered.append(("wait", event, stream)) or 0
)
refused, idle, current, is_inside = [0], [70], [7], [True]

class Memory: pass

def make_guard(stream):
    guards.append(types.SimpleNamespace(stream=stream, users=[], used_on=lambda other: guards[-1].users.append(other)))
    return guards[-1]

found = _native.bind_owner(
    ctypes.cast(record, ctypes.c_void_p).value, ctypes.cast(wait, ctypes.c_void_p).value, idle, captures, make_guard,
    lambda device: current[0], "device", lambda device: is_inside[0],
)
if found is None: sys.exit()
own, is_behind = found
mine, other = Stream(7), Stream(9)

def die():
    memory = Memory()
    is_alive, owner = weakref.ref(memory), own(memory, mine)
    del memory
    assert is_alive() is not None
    del owner
    return is_alive
"""


def test_memory_used_on_its_own_stream_alone_dies_without_an_event() -> None:
    run(
        OWNED
        + """
assert die()() is None
owner = own(Memory(), mine)
owner.used_on(mine)
owner.used_on(Stream(7))
assert (owner.handle, owner.guard) == (7, None)
assert guards == ordered == []
"""
    )


def test_memory_that_dies_while_another_stream_is_current_waits_for_that_one_first() -> None:
    run(
        OWNED
        + """
current[0] = 9
assert die()() is None
assert ordered == [("record", 70, 9), ("wait", 70, 7)]
assert (idle, guards) == ([70], [])
"""
    )


def test_a_guard_has_the_memory_where_more_is_to_be_waited_for() -> None:
    run(
        OWNED
        + """
def see_guard(is_alive):
    assert [each.allocation for each in guards] == [is_alive()], guards
    assert guards.pop().stream is mine
    assert is_alive() is None

owner = own(memory := Memory(), mine)
owner.used_on(other)
owner.used_on(other)
assert guards[0].users == [other, other] and owner.guard is guards[0]
is_alive = weakref.ref(memory)
del memory, owner
see_guard(is_alive)
assert ordered == []

current[0] = 9
refused[0] = 201
see_guard(die())
refused[0] = 0
idle.clear()
see_guard(die())
idle.append(70)
captures.append("a capture")
see_guard(die())
captures.clear()
current[0] = 2
see_guard(die())
current[0] = 7
is_inside[0] = False
see_guard(die())
is_inside[0] = True
mine.capture = "a capture"
see_guard(die())
mine.capture = None
assert die()() is None
assert is_behind(mine) and ordered[-2:] == [("record", 70, 0), ("wait", 70, 7)]
current[0] = 0
assert is_behind(mine) and is_behind(Stream(0))
current[0] = 9
assert not is_behind(mine) and not is_behind(Stream(0))
assert idle == [70]
"""
    )


def test_a_forked_child_frees_no_memory_of_its_parent() -> None:
    run(
        OWNED
        + """
if not hasattr(os, "fork"): sys.exit()
is_alive, owner = weakref.ref(memory := Memory()), own(memory, mine)
del memory
child = os.fork()
del owner
if not child:
    os._exit(is_alive() is None)
assert is_alive() is None
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    )


def test_blocks_of_a_stream_are_used_again_there_behind_the_default_stream_s_work() -> None:
    run("""
followed = []
named, other, third = Stream(7), Stream(7), Stream(9)
backend.is_lasting = lambda stream: stream.handle == 7
backend.default_stream = lambda device: own
is_behind = [True]
backend.is_behind = lambda device: lambda stream: followed.append(stream.handle) is None and is_behind[0]
new = lambda stream: memory.DeviceAddress.from_pool(backend, pool, 100, stream)
x = new(named)
first = int(x)
del x
assert followed == [7] and freed == []
x, y = new(other), new(own)
assert x == first != y and x.stream is other
del x, y
assert new(third) not in (first, 0)
assert freed == made[-1:] and followed == [7, 7, 9]

followed.clear()
x = new(named)
x.used_on(third)
assert sorted(x._guard.users) == [(0, 0), (0, 9)]
del x
assert first in freed and followed == []
is_behind[0] = False
x = new(named)
last = int(x)
del x
assert freed[-1] == last
""")


def test_idle_blocks_of_a_stream_are_not_given_back_while_one_is_captured() -> None:
    run("""
from xferlib._core import device

backend.is_lasting, backend.is_behind = lambda stream: True, lambda device: lambda stream: True
for stream in (own, Stream(7)):
    memory.DeviceAddress.from_pool(backend, pool, 100, stream)
device.opened.append("a capture")
pool.trim()
assert freed == made[:1]
device.opened.clear()
pool.trim()
assert freed == made
""")


def test_the_default_stream_of_another_device_is_another_stream() -> None:
    run("""
x, far = new(), Stream(0)
far.device = types.SimpleNamespace(index=1)
x.used_on(own)
assert x._guard is None
x.used_on(far)
assert [*x._guard.users] == [(1, 0)]
""")

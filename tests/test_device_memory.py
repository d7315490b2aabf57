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

"""Memory of CUDA's pools and the guards that free it, in a program of its own with a double of the driver."""

from __future__ import annotations

import subprocess
import sys

START = """
import contextlib, ctypes, os, signal, sys, threading, types

class Any:
    def __getattr__(self, name): return self
    def __call__(self, *args, **options): return 0

freed, made, within = [], [], []

def allocate(address, nbytes, pool, stream):
    made.append(0x1000 * (len(made) + 1))
    ctypes.c_uint64.from_address(address).value = made[-1]
    if within:
        within.pop()()
    return 0

calls = types.ModuleType("xferlib.backends.cuda.driver")
calls.pool_allocate, calls.pool_free, calls.OUT_OF_MEMORY = allocate, lambda pointer, stream: freed.append(pointer), 2
calls.__getattr__ = lambda name: Any()
sys.modules[calls.__name__] = calls
for name in ("cuda", "cuda.bindings", "cuda.bindings.driver", "cuda.bindings.nvrtc"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__, sys.modules[name].__getattr__ = [], lambda name: type(name, (), {"__hash__": None})()

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


def _run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", START + program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_two_threads_that_use_one_array_set_one_guard() -> None:
    _run("""
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
    _run("""
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
    _run("""
others = []
signal.signal(signal.SIGTERM, lambda *_: others.append(new()))
within.append(lambda: signal.raise_signal(signal.SIGTERM))
x = new()
assert [x, *others] == made
assert len(made) == 2
""")

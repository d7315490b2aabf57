"""A double of CUDA's driver and its bindings, for a program of its own: it would stay in this one."""

from __future__ import annotations

from tests.processes import printed

START = """
import contextlib, ctypes, os, signal, sys, threading, types

class Something:
    def __getattr__(self, name): return Something()
    def __call__(self, *args, **options): return Something()
    def __int__(self): return 0

freed, made, within = [], [], []

def allocate(address, nbytes, pool, stream):
    made.append(0x1000 * (len(made) + 1))
    ctypes.c_uint64.from_address(address).value = made[-1]
    if within:
        within.pop()()
    return 0

calls = types.ModuleType("xferlib.backends.cuda.driver")
calls.pool_allocate, calls.pool_free, calls.OUT_OF_MEMORY = allocate, lambda pointer, stream: freed.append(pointer), 2
calls.__getattr__ = lambda name: Something()
calls.CudaEvent, calls.SUCCESS, calls.NOT_READY = object, 0, 600
sys.modules[calls.__name__] = calls
for name in ("cuda", "cuda.bindings", "cuda.bindings.driver", "cuda.bindings.nvrtc"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__, sys.modules[name].__getattr__ = [], lambda name: Something()
sys.modules["cuda.bindings"].driver = sys.modules["cuda.bindings.driver"]
"""

TWO_DEVICES = """
driver = sys.modules["cuda.bindings.driver"]
driver.cuPointerGetAttribute = lambda attribute, pointer: (0, pointer >> 32) if pointer else (1, None)

from xferlib.backends.cuda.backend import CudaBackend

class Two(CudaBackend):
    name, seen = "two", []
    def __init__(self): super().__init__(2)
    def device_current(self): return self.devices()[0]
    def attach(self, device): self.seen.append(device)
    def stream_current(self, device): return types.SimpleNamespace(device=device, handle=0)
    def stream_wrap(self, handle, device): return types.SimpleNamespace(device=device, handle=handle)
    def event_record(self, stream, timing): return stream
    def event_wait(self, stream, event): self.seen.append((stream.device, event.device, event.handle))
    def over(self, pointer, shape, dtype, device, owner): return pointer, device
    def empty(self, shape, dtype, device, stream): return stream.device, device
    def strided_view(self, array, offset, shape, strides, dtype): return array

Two.__abstractmethods__ = frozenset()
two = Two()
zero, one = two.devices()
"""
"""A library with two devices, told by the upper half of an address. ``two.seen``: what it attached, and waited for."""


def run(program: str) -> None:
    """Run a program behind the double, in which assertions hold."""
    printed("-c", START + program)

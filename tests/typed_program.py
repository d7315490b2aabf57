"""A program for type checkers: what they must find in it stands after each line. It is read, never run."""

from typing import reveal_type

import numpy as np

import xferlib as xl

x = np.zeros((3, 4), "float32")
stream = xl.Stream()

reveal_type(xl.to_device(x))  # is xferlib._api.device_array.DeviceArray
reveal_type(xl.to_device(x, backend="sim", device=0))  # is xferlib.sim.arrays.SimArray
reveal_type(xl.zeros(3, backend="numpy"))  # is numpy.ndarray[Any, Any]
reveal_type(xl.to_device(x, out=x))  # is numpy.ndarray[tuple[int, int], numpy.dtype[Any]]
reveal_type(xl.to_host(xl.to_device(x)))  # is numpy.ndarray[Any, Any]
reveal_type(xl.to_host_async(x).result())  # is numpy.ndarray[Any, Any]
reveal_type(xl.to_device_async(x, backend="sim").result())  # is xferlib.sim.arrays.SimArray
reveal_type(xl.zeros_like(xl.zeros(3, backend="sim")))  # is xferlib.sim.arrays.SimArray
reveal_type(xl.zeros(3, backend="sim") * 2 + x)  # is xferlib.sim.arrays.SimArray


def scaled(a: xl.DeviceArray) -> xl.DeviceArray:
    return (a - 1) / 2


scaled(x)
scaled(xl.zeros(3, backend="sim"))
reveal_type(scaled(x)[1:])  # is xferlib._api.device_array.DeviceArray
scaled(xl.asarray([1, 2, 3], device=xl.device_of(x)))

xp = xl.get_array_module(x)
reveal_type(xp.mean(x))  # is xferlib._api.device_array.DeviceArray
xl.namespace().linalg.norm(x)  # error: attr-defined
xp.concatenate([x, x])  # error: attr-defined
xp.mean(x, axes=0)  # error: call-arg


def standardized(a: xl.DeviceArray, np: xl.ArrayModule) -> xl.DeviceArray:
    return (a - np.mean(a)) / np.std(a)


standardized(x, xp)
standardized(xl.zeros(3, backend="sim"), xl.namespace())


def first(thing: object) -> xl.DeviceArray | None:
    return thing[0] if isinstance(thing, xl.DeviceArray) else None


def outside(a: xl.DeviceArray, limit: float) -> xl.DeviceArray:
    found: xl.DeviceArray = ~(a < limit)
    for row in found:
        scaled(row)
    return found


for batch in xl.prefetch(x, batch_size=2):
    reveal_type(batch)  # is xferlib._api.device_array.DeviceArray
for both in xl.prefetch((x, x), batch_size=2):
    reveal_type(both)  # is tuple[xferlib._api.device_array.DeviceArray, xferlib._api.device_array.DeviceArray]
with xl.prefetch([x, x], transform=lambda batch: str(batch)) as texts:
    reveal_type(next(texts))  # is str
xl.to_devcie(x)  # error: attr-defined
xl.sim.checked()  # error: attr-defined
xl.zeros(3, device=1.5)  # error: call-overload
xl.to_device(x, "sim")  # error: call-overload
xl.to_device(x).smu()  # error: attr-defined
stream.synchronise()  # error: attr-defined

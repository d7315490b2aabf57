"""One code for CPU and GPU: functions that neither know nor ask where their arrays are."""

from typing import Any

import numpy as np

import xferlib as xl


def add1(x: Any) -> Any:
    with xl.get_device(x):  # on a CPU this does nothing; on the second GPU it selects the second GPU
        return x + 1


def softplus(x: Any) -> Any:
    xp = xl.get_array_module(x)
    with xl.get_device(x):
        return xp.maximum(0, x) + xp.log1p(xp.exp(-xp.abs(x)))  # log(1 + exp(x)) without overflow


def main() -> None:
    host = np.array([-1000.0, -1.0, 0.0, 1.0, 1000.0])
    last = [device for device in xl.get_backend().devices() if device.kind == xl.get_device().kind][-1]

    there = xl.to_device(host, device=last)
    with last:
        made = xl.zeros(5, device=last if last.kind == "cpu" else None)  # None: the current one, which `with` has set
    assert xl.device_of(there) is xl.device_of(made) is last

    back = xl.to_host(there)  # finds the device by itself
    assert back is not host
    assert (back == host).all()

    for x in (host, there):
        y = xl.to_host(softplus(add1(x)))
        print(f"softplus(x + 1) on {xl.device_of(x)}: {np.array2string(y, precision=4)}")
        np.testing.assert_allclose(y, [0, np.log(2), np.log1p(np.e), np.log1p(np.e**2), 1001], rtol=1e-14)

    same = xl.get_device(None)
    assert same is xl.get_device()  # None is the current device


if __name__ == "__main__":
    main()

"""A program written for Chainer: below the imports not a line of it is changed."""

from typing import Any

import numpy as np

# from chainer.backends.cuda import get_array_module, get_device_from_array, to_cpu, to_gpu
from xferlib import device_of as get_device_from_array
from xferlib import get_array_module
from xferlib import to_device as to_gpu
from xferlib import to_host as to_cpu


def softplus(x: Any) -> Any:
    xp = get_array_module(x)
    return xp.maximum(0, x) + xp.log1p(xp.exp(-abs(x)))


def log_likelihood(x: Any, t: Any) -> Any:
    with get_device_from_array(x):  # of a NumPy array it is a device without effect
        xp = get_array_module(x, t)
        return -xp.sum(softplus(xp.where(t > 0, -x, x))) / len(x)


def main() -> None:
    x = np.array([-1000.0, -1.0, 0.0, 1.0, 1000.0])
    t = np.array([0, 1, 0, 1, 1], dtype=np.int32)
    on_host = log_likelihood(x, t)
    on_device = to_cpu(log_likelihood(to_gpu(x), to_gpu(t)))
    np.testing.assert_allclose(on_device, on_host, rtol=1e-14)
    print(f"log-likelihood {float(on_host):.6f}")


if __name__ == "__main__":
    main()

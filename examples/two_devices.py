"""A model on two devices: its layers split between them, or its batch. One device stands in for both if need be."""

from typing import Any

import numpy as np

import xferlib as xl


def layer(x: Any, w: Any) -> Any:
    xp = xl.get_array_module(x)
    with xl.get_device(x):  # libraries compute on their current device
        return xp.maximum(0, x @ w)


def main() -> None:
    kind = xl.get_device().kind
    devices = [device for device in xl.get_backend().devices() if device.kind == kind]
    one, two = devices[0], devices[-1]
    rng = np.random.default_rng(0)
    x, w1, w2 = (rng.normal(size=shape).astype("float32") for shape in ((8, 64), (64, 32), (32, 4)))
    expected = layer(layer(x, w1), w2)

    # Model-parallel: a layer on each device; the activations are copied from one to the other.
    hidden = layer(xl.to_device(x, device=one), xl.to_device(w1, device=one))
    y = layer(xl.to_device(hidden, device=two), xl.to_device(w2, device=two))
    np.testing.assert_allclose(xl.to_host(y), expected, rtol=1e-4, atol=1e-4)
    print(f"model-parallel on {one} and {two}: {xl.device_of(hidden)} -> {xl.device_of(y)}")

    # Data-parallel: half the batch on each; slopes are summed on the first, and the new weights sent to all.
    replicas = {0: (one, x[:4]), 1: (two, x[4:])}
    slopes = []
    for device, half in replicas.values():
        with device:
            part = xl.to_device(half)
            slopes.append(part.T @ layer(part, xl.to_device(w1)))
    total = slopes[0] + xl.to_device(slopes[1], device=one)
    updated = xl.to_device(w1, device=one) - 0.01 * total
    copies = [xl.to_device(updated, device=device) for device, _ in replicas.values()]
    alone = w1 - 0.01 * (x.T @ layer(x, w1))
    for copy in copies:
        np.testing.assert_allclose(xl.to_host(copy), alone, rtol=1e-4, atol=1e-4)
    print(f"data-parallel: {len(copies)} replicas agree with one device's step")


if __name__ == "__main__":
    main()

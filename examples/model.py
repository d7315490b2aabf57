"""A whole model moves with one call, and its optimizer then sees device arrays. Layers 784-100-100-10."""

from itertools import pairwise
from typing import Any

import numpy as np

import xferlib as xl

LAYERS = (784, 100, 100, 10)


class Model:
    """A named set of arrays."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.parameters: dict[str, Any] = {}
        for k, (fan_in, fan_out) in enumerate(pairwise(LAYERS), start=1):
            self.parameters[f"W{k}"] = rng.normal(0, fan_in**-0.5, (fan_in, fan_out)).astype("float32")
            self.parameters[f"b{k}"] = np.zeros(fan_out, "float32")

    def to_device(self, device: xl.Device | None = None) -> None:
        self.parameters = xl.tree.to_device(self.parameters, device=device)  # the small ones travel in one copy

    def __call__(self, x: Any) -> Any:
        xp = xl.get_array_module(x)
        p = self.parameters
        for k in (1, 2):
            x = xp.maximum(0, x @ p[f"W{k}"] + p[f"b{k}"])
        return x @ p["W3"] + p["b3"]


class Momentum:
    """Its state lives wherever the parameters do."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.velocity = {name: xl.zeros_like(value) for name, value in model.parameters.items()}

    def step(self, grads: dict[str, Any], rate: float = 0.1) -> None:
        for name, grad in grads.items():
            self.velocity[name] = 0.9 * self.velocity[name] - rate * grad
            self.model.parameters[name] = self.model.parameters[name] + self.velocity[name]


def main() -> None:
    rng = np.random.default_rng(0)
    model = Model(rng)
    x = rng.random((5, 784), dtype="float32")
    expected = model(x)

    model.to_device()
    y = xl.to_host(model(xl.to_device(x)))
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)  # sums of 784 terms, in another order

    optimizer = Momentum(model)
    optimizer.step({name: xl.ones_like(value) for name, value in model.parameters.items()})
    devices = {str(xl.device_of(value)) for value in (*model.parameters.values(), *optimizer.velocity.values())}
    count = sum(int(np.prod(value.shape)) for value in model.parameters.values())
    bias = xl.to_host(model.parameters["b3"])[0]
    print(f"{count:,} parameters and their optimizer on {', '.join(devices)}; b3 is {bias:.1f}")


if __name__ == "__main__":
    main()

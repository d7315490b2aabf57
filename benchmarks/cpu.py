"""`python -m benchmarks cpu`: random kernels on one core beside NumPy, torch, numexpr and numba, one process, in turn.

Times are the thread's own, since other programs may use the machine; each is a median of rounds in random order.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import xferlib as xl
from xferlib._cli.main import has_module
from xferlib.kernels import elementwise
from xferlib.kernels.native_engine import describe_engine

Array = np.ndarray[Any, Any]
Runs = dict[str, Callable[[], Any]]
_FLOATS = (
    "({} + {})", "({} - {})", "({} * {})", "({} / {})", "np.sqrt(abs({}))", "-{}", "abs({})", "({} * 1.5)",
    "({} + 2.0)", "np.where({} > {}, {}, {})", "np.minimum({}, {})", "np.floor({})",
)  # fmt: skip
_FUNCTIONS = ("np.exp({})", "np.sin({})", "np.log(abs({}) + 1.0)", "np.tanh({})")
_INTEGERS = (
    "({} + {})", "({} - {})", "({} * {})", "({} & {})", "({} ^ {})", "({} | 3)", "abs({})",
    "np.where({} > {}, {}, {})", "({} * 3)", "({} >> 2)", "(-{})", "({} // 7)", "({} % 5)",
)  # fmt: skip
_DTYPES = ("f4", "f8", "i4", "i8", "f4", "f8", "i2", "u1")
_LAYOUTS = ("contiguous", "contiguous", "contiguous", "sliced", "transposed", "broadcast")
_ROUNDS = 9
_LEAST_S = 2e-4


class Outcome(NamedTuple):
    """A case: its text, and the median seconds of each contender."""

    text: str
    seconds: dict[str, float]

    @property
    def ratio(self) -> float:
        """The best other's time over xferlib's."""
        return min(s for name, s in self.seconds.items() if name != "xferlib") / self.seconds["xferlib"]


def write_expression(rng: random.Random, templates: Sequence[str], depth: int) -> str:
    """Write an expression of x, y and z."""
    if depth == 0:
        return rng.choice("xyz")
    first, *rest = rng.choice(templates).split("{}")
    return first + "".join(write_expression(rng, templates, rng.randint(0, depth - 1)) + each for each in rest)


def make_arrays(rng: random.Random, dtype: str, most: int) -> tuple[list[Array], str]:
    """Three arrays that broadcast, and the name of their layout."""
    count = int(16 * (most / 16) ** rng.random())
    values = np.random.default_rng(rng.randrange(1 << 30))
    arrays = [
        (values.standard_normal(count) * 2).astype(dtype) if dtype[0] == "f" else values.integers(1, 100, count, dtype)
        for _ in "xyz"
    ]
    layout, side = rng.choice(_LAYOUTS), int(count**0.5)
    if layout == "contiguous" or side < 8:
        return arrays, "contiguous"
    x, y, z = (each[: side * side].reshape(side, side) for each in arrays)
    if layout == "transposed":
        y = np.ascontiguousarray(y.T).T
    elif layout == "sliced":
        x, y, z = x[:, ::2], y[:, ::2], z[:, ::2]
    else:
        y, z = y[:1], z[:, :1]
    return [x, y, z], layout


def find_runs(text: str, arrays: list[Array]) -> Runs | None:
    """The contenders; None where an expression has another dtype or shape for them."""
    function = eval(f"lambda x, y, z: {text}", {"np": np})  # noqa: S307 - our own text
    kernel = elementwise(function)
    result, expected = kernel(*arrays), function(*arrays)
    if result.shape != np.shape(expected) or result.shape != np.broadcast_shapes(*(each.shape for each in arrays)):
        return None
    out = np.empty_like(result)
    runs: Runs = {"xferlib": lambda: kernel(*arrays, out=out), "numpy": lambda: function(*arrays)}
    if has_module("numba"):
        import numba

        with contextlib.suppress(numba.core.errors.NumbaError):  # for lack of an operation of two dtypes
            runs["numba"] = _compile_by_numba(text, arrays, result.dtype)
    if has_module("torch"):
        import torch

        torch.set_num_threads(1)
        by_torch = eval(f"lambda x, y, z: {text}", {"np": torch})  # noqa: S307
        tensors = [torch.from_numpy(each) for each in arrays]
        with contextlib.suppress(RuntimeError, TypeError):  # for lack of an operation of a dtype
            by_torch(*tensors)
            runs["torch"] = lambda: by_torch(*tensors)
    plain = text.replace("np.", "")
    if has_module("numexpr") and "minimum" not in text:
        import numexpr

        numexpr.set_num_threads(1)
        named = dict(zip("xyz", arrays, strict=True))
        try:
            numexpr.evaluate(plain, named)
        except (TypeError, ValueError, NotImplementedError, KeyError):  # for lack of an operation or a dtype
            return runs
        runs["numexpr"] = lambda: numexpr.evaluate(plain, named)
    return runs


def _compile_by_numba(text: str, arrays: list[Array], dtype: np.dtype[Any]) -> Callable[[], Any]:
    import numba

    choose = numba.njit(lambda condition, yes, no: yes if condition else no)
    function = eval(f"lambda x, y, z: {text.replace('np.where', 'choose')}", {"np": np, "choose": choose})  # noqa: S307
    signature = numba.from_dtype(dtype)(*(numba.from_dtype(each.dtype) for each in arrays))
    made = numba.vectorize([signature])(function)
    out = np.empty(np.broadcast_shapes(*(each.shape for each in arrays)), dtype)
    return lambda: made(*arrays, out=out)


def measure(runs: Runs, rng: random.Random) -> dict[str, float]:
    """The median seconds of each run."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(_ROUNDS):
        for name in rng.sample(list(runs), len(runs)):
            run, count, seconds = runs[name], 2, 0.0
            run()
            while seconds < _LEAST_S:
                start_s = time.thread_time()
                for _ in range(count):
                    run()
                seconds, count = time.thread_time() - start_s, 4 * count
            found[name].append(seconds / (count // 4))
    return {name: statistics.median(times) for name, times in found.items()}


def compare(seed: int, most: int) -> Outcome | None:
    """Measure the case of a seed."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    dtype = rng.choice(_DTYPES)
    templates: tuple[str, ...] = _INTEGERS if dtype[0] in "iu" else _FLOATS
    if dtype == "f4" and rng.random() < 0.4:
        templates = _FLOATS + _FUNCTIONS
    text = write_expression(rng, templates, rng.randint(1, 5))
    arrays, layout = make_arrays(rng, dtype, most)
    runs = find_runs(text, arrays)
    shapes = " ".join(str(each.shape) for each in arrays[:1])
    return None if runs is None else Outcome(f"{seed} {dtype} {layout} {shapes} {text}", measure(runs, rng))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks cpu", description=__doc__)
    parser.add_argument("--cases", type=int, default=300, help="random expressions")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first one")
    parser.add_argument("--most", type=int, default=10_000_000, help="elements")
    options = parser.parse_args(arguments)
    xl.configure(cpu="native", threads=1)
    print(f"kernels {describe_engine()}; seed {options.seed}")
    with np.errstate(all="ignore"):
        tried = (compare(seed, options.most) for seed in range(options.seed, options.seed + options.cases))
        found = sorted(filter(None, tried), key=lambda each: each.ratio)
    for each in found[:20]:
        times = ", ".join(f"{name} {1e6 * s:.1f}" for name, s in each.seconds.items())
        print(f"{each.ratio:5.2f}  {each.text}: {times} us")
    ratios = [each.ratio for each in found]
    behind = sum(ratio < 1 / 1.1 for ratio in ratios) / len(ratios)
    print(f"{len(found)} cases: median {statistics.median(ratios):.2f} of the best other's time over xferlib's")
    print(f"behind the best of the others by more than 10 %: {100 * behind:.0f} %")
    for name in ("numpy", "torch", "numexpr", "numba"):
        own = [each.seconds[name] / each.seconds["xferlib"] for each in found if name in each.seconds]
        if own:
            print(f"{name}: median {statistics.median(own):.2f}, 5 % below {sorted(own)[len(own) // 20]:.2f}")
    return 0

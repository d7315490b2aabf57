"""Kernels whose results a CUDA device looks up, by CUDA source on a CPU: large calls of one operand of 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.bits import same_bits
from tests.kernels.emulated import Emulator, info_of
from tests.sizes import crossed
from xferlib.kernels import cuda_engine, elementwise
from xferlib.kernels.cuda_engine import CudaPlan
from xferlib.kernels.python_frontend import NAMESPACE as F
from xferlib.kernels.small_floats import store_bits, view_bits
from xferlib.testing import arrays as core_arrays
from xferlib.testing import configured

A = np.ndarray[Any, Any]
ALL = np.random.default_rng(1).permutation(np.arange(1 << 16, dtype=np.uint16))
"""All numbers of 16 bits, as no table has them."""
LOOKED_UP = {
    "a function": elementwise(lambda x: F.arcsinh(x)),
    "several": elementwise(lambda x: F.tanh(F.exp(F.sin(x))) * x - F.log1p(abs(x))),
    "a snippet": elementwise("T x", "T y", "y = x > 1 ? erf(x) : (T)2"),
    "a loop": elementwise("T x", "T y", "T t = exp(-x * x); for (int k = 0; k < 40 && t < 3; ++k) t += x * t; y = t;"),
}
COMPUTED = {
    "by index": elementwise("T x", "T y", "y = exp(x) + (T)(i % 7)"),
    "of two arrays": elementwise("T x, T z", "T y", "y = exp(x) + z"),
    "with a number": elementwise("T x, T s", "T y", "y = exp(x) * s"),
    "to float": elementwise("T x", "float y", "y = exp((float)x)"),
    "of an indexed array": elementwise("T x, raw T z", "T y", "y = exp(x) + z[0]"),
    "fast": elementwise(lambda x: F.tanh(F.exp(x)), math="fast"),
    "without functions": elementwise("T x", "T y", "y = x * x + 1"),
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_engine, "LEAST_LOOKED_UP", 1 << 12)


def plan_of(kernel: Any, arrays: list[A], *, scalars: tuple[Any, ...] = ()) -> CudaPlan:
    """The plan of a call that is bound, as a device of CUDA's makes it."""
    dtypes = [each.dtype for each in arrays]
    dtypes[1:1] = [each.dtype for each in scalars]
    special = kernel.definition.specialize(tuple(dtypes), frozenset(range(1, 1 + len(scalars))))
    program = store_bits(special.program)
    numbers = [number for number, param in enumerate(program.params) if not param.is_scalar]
    infos = {number: info_of(view_bits(each)) for number, each in zip(numbers, arrays, strict=True)}
    plan = CudaPlan(Emulator(), None, program, arrays[0].shape, infos, is_aliased=arrays[0] is arrays[-1])
    plan.bind([infos[number].pointer for number in plan.array_order], scalars)
    return plan


def is_looked_up(plan: CudaPlan) -> bool:
    return "xf_look_up(from, to" in plan.source


@pytest.mark.parametrize(
    ("name", "small", "count"), crossed(2, [*LOOKED_UP], ["float16", "bfloat16"], [1 << 16, (1 << 16) - 5])
)
def test_every_result(name: str, small: str, count: int) -> None:
    if small == "bfloat16":
        pytest.importorskip("ml_dtypes")
    dtype = core_arrays.check_dtype(small)
    kernel, x = LOOKED_UP[name], ALL[:count].view(dtype)
    found = np.zeros(count, dtype)
    plan = plan_of(kernel, [x, found])
    assert is_looked_up(plan)
    plan.launch(0)
    with configured(cpu="numpy"), np.errstate(all="ignore"):
        expected = kernel(x)
    assert same_bits(*(np.asarray(each).astype(np.float32) for each in (found, expected)))


def test_a_kernel_that_is_loaded_anew_has_its_table() -> None:
    x = ALL.view(np.float16)
    for _ in range(2):
        found = np.zeros_like(x)
        plan = plan_of(LOOKED_UP["a function"], [x, found])
        plan.launch(0)
        with configured(cpu="numpy"), np.errstate(all="ignore"):
            assert same_bits(found, LOOKED_UP["a function"](x))
        cuda_engine._kernels.clear()


def test_in_place() -> None:
    x = ALL.view(np.float16).copy()
    with np.errstate(all="ignore"):
        expected = np.asarray(LOOKED_UP["several"](x))
    plan = plan_of(LOOKED_UP["several"], [x, x])
    plan.launch(0)
    assert is_looked_up(plan)
    assert same_bits(x, expected)


@pytest.fixture
def _uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are made, and not run."""
    monkeypatch.setattr(cuda_engine, "kernel_for", lambda *_: None)


@pytest.mark.usefixtures("_uncompiled")
@pytest.mark.parametrize("name", COMPUTED)
def test_other_programs_are_computed(name: str) -> None:
    """Their results depend on more, have more bits, or take no longer than memory."""
    x, out = np.ones(1 << 13, np.float16), np.zeros(1 << 13, np.float32 if name == "to float" else np.float16)
    others = [x] * (name in ("of two arrays", "of an indexed array"))
    scalars = (np.float16(3),) * (name == "with a number")
    assert not is_looked_up(plan_of(COMPUTED[name], [x, *others, out], scalars=scalars))


@pytest.mark.usefixtures("_uncompiled")
@pytest.mark.parametrize("count", [1 << 11, 1 << 13])
def test_other_layouts_are_computed(count: int) -> None:
    memory = np.ones((2, 2 * count + 8), np.float16)
    for x, out in (
        (memory[0, :count], memory[1, 1 : count + 1]),  # not aligned
        (memory[0, : 2 * count : 2], memory[1, :count]),
        (memory[:, : count // 2].T, np.zeros((count // 2, 2), np.float16)),
    ):
        assert not is_looked_up(plan_of(LOOKED_UP["a function"], [x, out]))

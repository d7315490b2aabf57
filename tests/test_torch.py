"""Torch's views count their changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import xferlib as xl  # noqa: E402
from xferlib.backends.base import Run  # noqa: E402
from xferlib.backends.torch import backend as cpu  # noqa: E402
from xferlib.backends.torch import tensors  # noqa: E402
from xferlib.testing import assert_same_bits  # noqa: E402


@pytest.fixture(params=["apart", "by data"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """With autograd's bookkeeping left out, and as it is done where that cannot be."""
    if request.param == "by data":
        monkeypatch.setattr(tensors, "_views_apart", lambda: False)
    return request.param


def test_this_torch_makes_views_without_bookkeeping() -> None:
    assert tensors._views_apart()


@pytest.mark.parametrize("has_maker", [True, False])
def test_a_tensor_on_the_cpu_is_there_whatever_torch_s_default_device_is(
    has_maker: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_maker:  # another torch may not have that function
        monkeypatch.setattr(cpu, "_new_tensor", None)
    x = np.arange(6.0).reshape(2, 3)
    with torch.device("meta"):
        found: list[Any] = [
            xl.to_device(x, device="torch:cpu"),
            xl.empty((2, 3), device="torch:cpu"),
            xl.empty(0, device="torch:cpu"),
        ]
    assert [str(each.device) for each in found] == ["cpu"] * 3
    assert_same_bits(xl.to_host(found[0]), x)
    assert found[1].stride() == (3, 1)
    found[1].resize_(4, 5)  # as one of torch's own


def views(count: int, extent: int) -> tuple[Any, list[Any]]:
    """A slab, and float32 vectors in it, one at each multiple of 64 bytes."""
    slab = torch.zeros(64 * count, dtype=torch.uint8)
    return slab, tensors.make_cutter([Run(0, 64, count, (extent,), np.dtype("f4"))])(slab)


def test_views_share_memory_and_count_their_changes_apart(way: str) -> None:
    slab, parts = views(3, 4)
    assert [part.data_ptr() - slab.data_ptr() for part in parts] == [0, 64, 128]
    parts[0].add_(1)
    assert parts[1]._version == 0
    assert slab.view(torch.float32)[:5].tolist() == [1, 1, 1, 1, 0]


def test_views_of_every_form_are_in_c_order(way: str) -> None:
    kinds: list[tuple[tuple[int, ...], str, int]] = [
        ((2, 3), "f8", 1), ((), "i2", 3), ((2, 1, 2), "c16", 1), ((5,), "?", 1), ((3, 4), "f4", 1), ((3,), "f4", 2),
        ((16,), "f4", 1), ((1,), "f4", 1), ((2, 2), "?", 2), ((7,), "f4", 3),
    ]  # fmt: skip
    runs, forms, start = [], [], 0
    for shape, name, length in kinds:
        runs.append(Run(start, 64, length, shape, np.dtype(name)))
        forms += [(start + 64 * number, shape, name) for number in range(length)]
        start += 64 * length
    slab = torch.zeros(start, dtype=torch.uint8)
    for view, (place, shape, name) in zip(tensors.make_cutter(runs)(slab), forms, strict=True):
        assert view.data_ptr() == slab.data_ptr() + place
        assert view.is_contiguous()
        assert view.numpy().shape == shape
        assert view.numpy().dtype == name


def test_a_change_of_one_view_spares_the_gradients_of_another(way: str) -> None:
    weight = torch.ones(4, requires_grad=True)
    _, (first, second) = views(2, 4)
    second.copy_(torch.arange(4, 8))
    loss = (weight * second).sum()  # saves `second`
    first.zero_()
    loss.backward()
    assert weight.grad.tolist() == [4, 5, 6, 7]
    leaf = views(2, 3)[1][0].requires_grad_()
    (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2]

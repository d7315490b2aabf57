"""Torch's views count their changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import xferlib as xl  # noqa: E402
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
    return slab, tensors.cut(slab, [(64 * n, (extent,), np.dtype("f4")) for n in range(count)])


def test_views_share_memory_and_count_their_changes_apart(way: str) -> None:
    slab, parts = views(3, 4)
    assert [part.data_ptr() - slab.data_ptr() for part in parts] == [0, 64, 128]
    parts[0].add_(1)
    assert parts[1]._version == 0
    assert slab.view(torch.float32)[:5].tolist() == [1, 1, 1, 1, 0]


def test_views_of_every_form_are_in_c_order(way: str) -> None:
    forms = [(0, (2, 3), "f8"), (64, (), "i2"), (128, (2, 1, 2), "c16"), (192, (5,), "?"), (256, (3, 4), "f4")]
    slab = torch.zeros(320, dtype=torch.uint8)
    for view, (place, shape, name) in zip(
        tensors.cut(slab, [(place, shape, np.dtype(name)) for place, shape, name in forms]), forms, strict=True
    ):
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

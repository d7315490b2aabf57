"""Torch's views count their changes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from xferlib.backends.torch import tensors  # noqa: E402


@pytest.fixture(params=["apart", "by data"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """With autograd's bookkeeping left out, and as it is done where that cannot be."""
    if request.param == "by data":
        monkeypatch.setattr(tensors, "_parts_apart", lambda: False)
    return request.param


def test_this_torch_makes_views_without_bookkeeping() -> None:
    assert tensors._parts_apart()


def test_parts_share_memory_and_count_their_changes_apart(way: str) -> None:
    block = torch.arange(12.0).reshape(3, 4)
    parts = tensors.parted(block)
    assert [part.data_ptr() - block.data_ptr() for part in parts] == [0, 16, 32]
    parts[0].add_(1)
    assert parts[1]._version == 0
    assert block[0].tolist() == [1, 2, 3, 4]


def test_a_change_of_one_part_spares_the_gradients_of_another(way: str) -> None:
    weight = torch.ones(4, requires_grad=True)
    first, second = tensors.parted(torch.arange(8.0).reshape(2, 4))
    loss = (weight * second).sum()  # saves `second`
    first.zero_()
    loss.backward()
    assert weight.grad.tolist() == [4, 5, 6, 7]
    leaf = tensors.parted(torch.ones(2, 3))[0].requires_grad_()
    (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2]

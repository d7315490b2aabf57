"""The driver of NCCL over a double of its library, on simulated devices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import xferlib as xl
from xferlib.distributed import drivers
from xferlib.distributed.drivers import DeviceCall, Order
from xferlib.testing import load_backend

DEVICE = xl.Device("sim:sim:0")


class Interrupted:
    """A backend in which Ctrl-C comes before the event behind an operation."""

    def __init__(self, backend: Any, most: int) -> None:
        self._backend = backend
        self._left = most

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def event_record(self, *given: Any, **options: Any) -> Any:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        return self._backend.event_record(*given, **options)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what NCCL was asked for; it does nothing."""
    found: list[str] = []

    def function(name: str) -> Any:
        def noted(*_: Any) -> int:
            found.append(name)
            return 0

        return noted

    names = ("ncclAllReduce", "ncclSend", "ncclRecv", "ncclGroupStart", "ncclGroupEnd")
    library = SimpleNamespace(**{name: function(name) for name in names})
    monkeypatch.setattr(drivers, "load_nccl", lambda: library)
    monkeypatch.setattr(drivers, "make_unique_id", lambda: b"id")
    monkeypatch.setattr(drivers, "join_ranks", lambda *_: 1)
    return found


@pytest.mark.parametrize("is_beside", [False, True])
@pytest.mark.parametrize("name", ["all_reduce", "all_to_all"])
def test_an_operation_that_ctrl_c_left_without_an_event_is_not_idle(
    calls: list[str], name: str, is_beside: bool
) -> None:
    driver = drivers.Nccl(0, 2, DEVICE, lambda data: [data])
    x = xl.ones(8, device=DEVICE)
    backend = load_backend("sim").at(DEVICE)
    pointer, dtype = backend.view(x).pointer, xl.to_host(x).dtype
    order = Order(DEVICE, backend.stream_current(DEVICE), backend, is_beside)

    call = DeviceCall(name, pointer, pointer, 8, dtype, "sum" if name == "all_reduce" else None)

    def enqueue(order: Order) -> Any:
        return driver.enqueue(call, order)

    if (enqueued := enqueue(order)) is not None:
        enqueued.wait()
    backend.stream_synchronize(order.stream)
    assert driver.is_idle()
    interrupted: Any = Interrupted(backend, most=int(is_beside))
    with pytest.raises(KeyboardInterrupt):
        enqueue(order._replace(backend=interrupted))
    assert len(calls) == (2 if name == "all_reduce" else 12)
    assert not driver.is_idle()

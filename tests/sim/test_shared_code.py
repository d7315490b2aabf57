"""xferlib's own paths on the simulator: race-free as they are, and found out when one of their waits is taken away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.sizes import crossed
from xferlib import sim
from xferlib.backends.base import deferred
from xferlib.errors import TransferError
from xferlib.sim.backend import SimBackend

N = 1 << 20
X = np.arange(float(N))


def up_async() -> Any:
    return xl.to_host(xl.to_device_async(X).result() + 0.0)


def up_async_waited_for_by_a_stream() -> Any:
    stream = xl.Stream()
    transfer = xl.to_device_async(X)
    stream.wait(transfer)
    with stream:
        y = transfer.result() + 0.0
    return xl.to_host(y, stream=stream)


def up_into_out() -> Any:
    out = xl.zeros(N)
    out += 1.0
    return xl.to_host(xl.to_device_async(X, out=out).result())


def down_async() -> Any:
    d = xl.to_device(X)
    d += 1.0
    return xl.to_host_async(d).result() - 1.0


def pinned_there_and_back() -> Any:
    out = xl.pinned_empty(N)
    return xl.to_host(xl.to_device(xl.pinned_array(X)), out=out)


def between_devices() -> Any:
    d = xl.to_device(X, device="sim:0")
    d += 0.0
    return xl.to_host(xl.to_device(d, device="sim:1"))


def pinned_memory_recycled() -> Any:
    for value in range(6):
        source = xl.pinned_array(X + value)
        stream = xl.Stream()
        d = xl.to_device(source, stream=stream)
        del source
        assert (xl.to_host(d, stream=stream) == X + value).all()
    return X


def mapped_in_place_over_two_devices() -> Any:
    def fn(chunk: Any) -> Any:
        chunk += 1.0
        return chunk - 1.0

    return xl.stream_map(fn, X, chunk_rows=N // 8, out=np.empty(N), devices=["sim:0", "sim:1"], depth=2)


def mapped_and_reduced() -> Any:
    return xl.stream_map(lambda chunk: chunk + 0.0, X, chunk_rows=N // 8, reduce=lambda *both: np.concatenate(both))


PATHS = [
    up_async, up_async_waited_for_by_a_stream, up_into_out, down_async, pinned_there_and_back, between_devices,
    pinned_memory_recycled, mapped_in_place_over_two_devices, mapped_and_reduced,
]  # fmt: skip
"""`test_overlap.py` has those of `prefetch`."""


@pytest.mark.parametrize(("schedule", "path"), crossed(2, ["lazy", "lifo", "random"], PATHS))
def test_every_path_is_right_and_without_a_race_under_every_schedule(path: Callable[[], Any], schedule: str) -> None:
    with xl.use_backend("sim"), sim.check("raise", schedule=schedule):
        for _ in range(3):
            np.testing.assert_array_equal(path(), X)


def nothing(self: SimBackend, *_: Any, **__: Any) -> None:
    """In place of a wait."""


@pytest.mark.parametrize(
    ("wait", "path"),
    [
        ("event_wait", up_async),
        ("event_wait", up_async_waited_for_by_a_stream),
        ("event_wait", up_into_out),
        ("event_wait", down_async),
        ("event_wait", between_devices),
        ("stream_synchronize", down_async),
        ("stream_synchronize", pinned_there_and_back),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_path_that_loses_a_wait_is_found_out(
    wait: str, path: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimBackend, wait, nothing)
    with xl.use_backend("sim"):
        try:
            with sim.check("raise"):
                is_right = np.array_equal(path(), X)
        except (sim.RaceError, TransferError):
            is_right = False
    assert not is_right


def test_transfers_of_other_backends_are_not_put_off(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = {"fake": threading.Event(), "sim": threading.Event()}
    with xl.use_backend("sim") as simulated:
        for backend in (fake, simulated):

            def copy(*args: Any, own: Any = backend.copy, name: str = backend.name, **options: Any) -> None:
                own(*args, **options)
                copied[name].set()

            monkeypatch.setattr(backend, "copy", copy)
        here = xl.to_device_async(X)
        elsewhere = xl.to_device_async(X, device="fake:sim:0")
        assert copied["fake"].wait(60)
        assert not copied["sim"].is_set()
        elsewhere.result()
        here.result()
        assert copied["sim"].is_set()


@pytest.mark.parametrize("schedule", ["eager", "lazy", "lifo"])
@pytest.mark.parametrize("is_upload", [True, False])
def test_another_thread_may_act_on_a_transfer_as_soon_as_its_event_is_recorded(
    schedule: str, is_upload: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where it drops what is held for the transfer, or waits for its job, before the first thread goes on."""
    errors: list[BaseException] = []

    def act(transfer: xl.Transfer) -> None:
        try:
            with xl.use_backend("sim"):
                if is_upload:
                    stream = xl.Stream()
                    transfer.precede(stream._raw)
                    with stream:
                        transfer._result[...] = 1.0
                    stream.synchronize()
                else:
                    transfer.settle()
                    device[...] = 1.0
                    xl.synchronize()
        except BaseException as error:
            errors.append(error)

    def at_once(transfer: xl.Transfer) -> None:
        thread = threading.Thread(target=act, args=(transfer,))
        thread.start()
        thread.join()

    finish, kept, is_mine = xl.Transfer.finish, SimBackend.select_retained, deferred.is_mine
    finishing: list[xl.Transfer] = []
    acted: list[xl.Transfer] = []

    def finished(transfer: xl.Transfer, *keep: Any) -> None:
        finishing.append(transfer)
        finish(transfer, *keep)

    def act_once() -> None:
        if not acted:
            acted.append(finishing[0])
            at_once(finishing[0])

    def held(backend: SimBackend, objects: tuple[Any, ...], event: Any) -> tuple[Any, ...]:
        found = kept(backend, objects, event)
        act_once()
        return found

    def left() -> bool:  # asked where a thread leaves a job, among others
        if finishing and finishing[0]._job is not None and finishing[0]._job.is_over:
            act_once()
        return is_mine()

    with xl.use_backend("sim"), sim.check("raise", schedule=schedule):
        device = xl.zeros(1 << 16)
        xl.synchronize()
        monkeypatch.setattr(xl.Transfer, "finish", finished)
        if is_upload:
            monkeypatch.setattr(SimBackend, "select_retained", held)
        else:
            monkeypatch.setattr(deferred, "is_mine", left)
        (xl.to_device_async(np.zeros(1 << 16)) if is_upload else xl.to_host_async(device)).result()
        monkeypatch.undo()
    assert len(finishing) == len(acted) == 1
    assert errors == []


def test_a_transfer_is_ordered_though_the_thread_that_began_it_is_not_the_last_to_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where a consumer looks at what the thread of a prefetcher stages."""
    inside, may_leave = threading.Event(), threading.Event()

    def stay() -> bool:
        inside.set()
        return may_leave.wait(60.0)

    def help_beside_another(job: Any) -> None:
        job.run_slice = stay
        other = threading.Thread(target=job.help_a_little)
        other.start()
        assert inside.wait(60.0)
        help_alone(job)
        may_leave.set()

    with xl.use_backend("sim"), sim.check("raise"):
        transfer = xl.to_device_async(X)
        kind: Any = type(transfer._job)
        help_alone = kind.help
        monkeypatch.setattr(kind, "help", help_beside_another)
        device = transfer.result()
        monkeypatch.undo()
        assert float(xl.to_host(device + 1.0)[-1]) == N


@pytest.mark.parametrize("is_strided", [False, True])
def test_an_upload_of_pinned_memory_that_a_download_still_fills_is_reported(is_strided: bool) -> None:
    """A thread reads small arrays when the call is made, pinned or not."""
    with xl.use_backend("sim"), pytest.raises(sim.RaceError) as raised, sim.check("raise"):
        stream, memory = xl.Stream(), xl.pinned_zeros(8)
        first, second = xl.zeros(8), xl.zeros(16)
        into = second[::2] if is_strided else second[:8]
        xl.synchronize()
        xl.to_host_async(first, out=memory, stream=stream)
        xl.to_device_async(memory, out=into, stream=stream)
    assert raised.value.race.hazard is sim.Hazard.HOST_READ


def test_the_wait_for_a_transfer_orders_nothing_that_followed_it_on_its_stream() -> None:
    with xl.use_backend("sim"), pytest.raises(sim.RaceError) as raised, sim.check("raise"):
        stream, target = xl.Stream(), np.zeros(8)
        sent, other = xl.zeros(8), xl.zeros(8)
        xl.synchronize()
        transfer = xl.to_host_async(sent, out=target, stream=stream)
        with stream:
            other[:] = 1.0
        transfer.result()
        other += 1.0
    assert raised.value.race.hazard is sim.Hazard.READ_AFTER_WRITE


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_a_source_with_gaps_may_be_dropped_while_it_is_downloaded(schedule: str) -> None:
    with sim.check("raise", schedule=schedule):
        source = xl.full(8, 2.0, backend="sim")
        transfer = xl.to_host_async(source[::-2])
        del source
        assert transfer.result().tolist() == [2.0] * 4


def test_waiting_for_a_device_waits_for_the_transfers_on_it() -> None:
    source, target = np.ones(8), np.zeros(8)
    device = xl.zeros(8, backend="sim")
    with sim.check("raise"):
        xl.to_device_async(source, out=device)
        xl.synchronize("sim:0")
        sim.writes(source)
        source[:] = 2.0
        assert xl.to_host(device).tolist() == [1.0] * 8
        xl.to_host_async(device, out=target)
        xl.synchronize("sim:0")
        sim.reads(target)
        assert target.tolist() == [1.0] * 8


@pytest.mark.parametrize("schedule", ["lazy", "lifo", "eager"])
@pytest.mark.parametrize("waits", ["by a stream", "by result", "not at all"])
def test_waiting_for_an_upload_orders_nothing_behind_later_work_of_its_stream(schedule: str, waits: str) -> None:
    with xl.use_backend("sim"):
        stream, other = xl.Stream(), xl.Stream()
        out, later = xl.zeros(100), xl.zeros(100)
        xl.synchronize()
        with sim.check("log", schedule=schedule) as check:
            transfer = xl.to_device_async(np.ones(100), out=out, stream=stream)
            with stream:
                later += 1.0
            if waits == "by a stream":
                other.wait(transfer)
            with other:
                if waits == "by result":
                    transfer.result()
                out += 1.0
            assert bool(check.races) == (waits == "not at all")
            with other:
                later += 1.0
            assert [race.hazard for race in check.races][-1:] == [sim.Hazard.READ_AFTER_WRITE]
            assert "later += 1.0" in str(check.races[-1])

"""Device memory from device to device: by NCCL, and by a driver that stands in for it on simulated devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import xferlib as xl
from tests.fake import let_mpi_read
from xferlib import distributed
from xferlib.distributed import Communicator, drivers
from xferlib.distributed.drivers import DeviceCall, DeviceDriver, Enqueued, GlooDriver, MpiDriver, Order
from xferlib.errors import ArgumentError, ClosedError, LayoutError, MismatchError, MixedBackendsError, MixedDevicesError
from xferlib.testing import assert_same_bits, load_backend


class Later(Enqueued):
    """An operation beside the stream, which is carried out when the program waits for it."""

    def __init__(self, carry_out: Any) -> None:
        self._carry_out = carry_out

    def is_done(self) -> bool:
        return False

    def wait(self) -> None:
        self._carry_out()


class StandIn(DeviceDriver):
    """Carries device memory by way of the host: reads and writes it in the order of the stream, as NCCL does."""

    name = "stand-in"

    def __init__(self, host: Any, calls: list[str]) -> None:
        self._host = host
        self.calls = calls

    def is_idle(self) -> bool:
        return True

    def reduces(self, dtype: Any, op: str, name: str = "all_reduce") -> bool:
        return dtype.name in ("float32", "int32")

    def enqueue(self, call: DeviceCall, order: Order) -> Enqueued | None:
        self.calls.append(call.name)

        def carry_out() -> None:
            with xl.Stream.from_any(order.stream.handle, order.device):
                self._carry(call, order)

        if order.is_beside:
            return Later(carry_out)
        carry_out()
        return None

    def _carry(self, call: DeviceCall, order: Order) -> None:
        host, name, length = self._host, call.name, call.length
        if name == "all_to_all":
            nbytes = length * call.dtype.itemsize
            assert call.out + nbytes <= call.x or call.x + nbytes <= call.out  # as NCCL and MPI have it

        def array(pointer: int, count: int) -> Any:
            return load_backend("sim").over(pointer, (count,), call.dtype, device=order.device, owner=None)

        is_filled = name == "broadcast" and host.rank != call.option  # not to be read before
        read = length * host.size if name == "reduce_scatter" else length
        x = np.empty(read, call.dtype) if is_filled else xl.to_host(array(call.x, read))
        out = np.empty(length * host.size if name == "all_gather" else read, call.dtype)
        if name == "broadcast":
            pending, out = host.broadcast(x, call.option), x
        elif name in ("all_reduce", "reduce_scatter"):
            assert call.option != "mean" or host.size == 2
            pending = host.all_reduce(out, x, "sum" if call.option == "mean" else call.option)
        else:
            pending = getattr(host, name)(out, x)
        while not pending.wait(1.0):
            pass
        if call.option == "mean":
            out /= call.dtype.type(2)
        if name == "reduce_scatter":
            out = out.reshape(host.size, length)[host.rank]
        xl.to_device(out, out=array(call.out, out.size))


class Carried(NamedTuple):
    """A communicator whose arrays go from device to device."""

    comm: Communicator
    device: xl.Device
    """This rank's."""
    other: xl.Device
    """The other rank's."""
    calls: list[str]
    """The names of what the driver of devices was asked for."""


@pytest.fixture(scope="module")
def kept() -> Iterator[dict[str, Communicator]]:
    """The communicators of GPUs by library, each for many tests: NCCL takes long to make one."""
    made: dict[str, Communicator] = {}
    yield made
    for each in made.values():
        each.close()


@pytest.fixture(params=["sim", "torch", "cupy", "pycuda"])
def carried(
    request: pytest.FixtureRequest,
    comm: Communicator,
    kept: dict[str, Communicator],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Carried]:
    if comm.size != 2:
        pytest.skip("the simulator has two devices")
    status = xl.available_backends()[request.param]
    places = [each for each in map(xl.Device, status.devices) if each.kind != "cpu"]
    if len(places) < 2 or (request.param != "sim" and not drivers.has_nccl()):
        pytest.skip(status.reason or "two GPUs and NCCL are needed")
    calls: list[str] = []
    if request.param != "sim":
        monkeypatch.setattr(drivers.Nccl, "reduces", StandIn.reduces)
        monkeypatch.setattr(drivers.Nccl, "enqueue", note_calls(calls, drivers.Nccl.enqueue))
        if request.param not in kept or kept[request.param]._group.cause:  # an error of the test before has ended it
            kept[request.param] = distributed.init("auto", timeout=60.0)
        made = kept[request.param]
        yield Carried(made, places[made.rank], places[1 - made.rank], calls)
        return
    for driver in (MpiDriver, GlooDriver):
        monkeypatch.setattr(driver, "carries", lambda driver, backend: backend.name == "sim")
        monkeypatch.setattr(driver, "for_device", lambda driver, *_: StandIn(driver, calls))
    with distributed.init("auto", timeout=60.0) as made:
        yield Carried(made, places[made.rank], places[1 - made.rank], calls)


def note_calls(calls: list[str], enqueue: Any) -> Any:
    """A driver's `enqueue` that notes the names of its calls."""

    def noted(driver: Any, call: DeviceCall, order: Order) -> Any:
        calls.append(call.name)
        return enqueue(driver, call, order)

    return noted


def of(rank: int, shape: tuple[int, ...], dtype: str = "float32") -> Any:
    return np.random.default_rng([rank, len(shape)]).normal(size=shape).astype(dtype) * 7


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (20, 31)])
def test_reductions(carried: Carried, shape: tuple[int, ...], in_order: bool, dtype: str) -> None:
    comm, device, _, calls = carried
    x, expected = xl.to_device(of(comm.rank, shape, dtype), device=device), of(0, shape, dtype) + of(1, shape, dtype)
    found = comm.all_reduce(x, reproducible=in_order)
    assert xl.device_of(found) is device
    assert_same_bits(xl.to_host(found), expected)
    assert_same_bits(xl.to_host(x), of(comm.rank, shape, dtype))
    mean = xl.to_host(comm.all_reduce(x, "mean", out=x, reproducible=in_order))
    assert_same_bits(mean, np.asarray(expected / expected.dtype.type(2)))
    is_whole = not in_order and dtype != "float64" and 0 not in shape
    assert ("all_reduce" in calls) == is_whole
    assert ("all_gather" in calls) == (not is_whole and 0 not in shape)


@pytest.mark.parametrize("op", ["sum", "max", "mean"])
def test_a_reduction_is_repeated_with_other_arrays(carried: Carried, op: str) -> None:
    comm, device, _, calls = carried

    def expected(start: int, count: int) -> Any:
        both = [of(rank, (9,))[start : start + count] for rank in range(2)]
        return {"sum": both[0] + both[1], "max": np.maximum(*both), "mean": (both[0] + both[1]) / np.float32(2)}[op]

    def given(start: int = 0, count: int = 6) -> Any:
        return xl.to_device(of(comm.rank, (9,)), device=device)[start : start + count]

    for start in (0, 1, 3):  # the first call is described, the others are compared with it
        assert_same_bits(xl.to_host(comm.all_reduce(given(start), op)), expected(start, 6))
        x = given(start)
        assert comm.all_reduce(x, op, out=x) is x
        assert_same_bits(xl.to_host(x), expected(start, 6))
        x, out = given(start), xl.empty((6,), "float32", device=device)
        assert comm.all_reduce(x, op, out=out) is out
        assert_same_bits(xl.to_host(out), expected(start, 6))
        assert_same_bits(xl.to_host(x), of(comm.rank, (9,))[start : start + 6])
    slab = xl.to_device(of(comm.rank, (9,)), device=device)
    comm.all_reduce(slab[:6], op, out=slab[3:])  # they overlap
    assert_same_bits(xl.to_host(slab[3:]), expected(0, 6))
    assert_same_bits(xl.to_host(comm.all_reduce(given(0, 9)[::2], op)), expected(0, 9)[::2])
    assert calls == ["all_reduce"] * 11


def test_what_a_repeated_reduction_refuses(carried: Carried) -> None:
    comm, device, *_ = carried
    x, out = (make((4, 2), "float32", device=device) for make in (xl.ones, xl.empty))
    for _ in range(2):
        comm.all_reduce(x, out=out)
    wrong: list[tuple[Any, type[Exception], str]] = [
        (xl.empty((2, 4), "float32", device=device), LayoutError, "out has shape"),
        (xl.empty((4, 2), "float64", device=device), LayoutError, "dtype float64"),
        (xl.empty((4, 4), "float32", device=device)[:, ::2], LayoutError, "not contiguous"),
        (np.empty((4, 2), "float32"), MixedBackendsError, "out"),
    ]
    for target, error, text in wrong:
        with pytest.raises(error, match=text):
            comm.all_reduce(x, out=target)
    with pytest.raises(ArgumentError, match="op='summ'"):
        comm.all_reduce(x, "summ", out=out)
    comm.close()
    with pytest.raises(ClosedError):
        comm.all_reduce(x, out=out)


def test_the_other_collectives(carried: Carried) -> None:
    comm, device, _, calls = carried
    both = [of(rank, (2, 5)) for rank in range(2)]
    x = xl.to_device(both[comm.rank], device=device)
    assert_same_bits(xl.to_host(comm.all_gather(x)), np.stack(both))
    assert_same_bits(xl.to_host(comm.all_to_all(x)), np.stack([each[comm.rank] for each in both]))
    assert_same_bits(xl.to_host(comm.reduce_scatter(x)), (both[0] + both[1])[comm.rank])
    given = xl.to_device(both[comm.rank], device=device)
    assert comm.all_to_all(given, out=given) is given
    assert_same_bits(xl.to_host(given), np.stack([each[comm.rank] for each in both]))
    wide = xl.to_device(both[comm.rank].astype("float64"), device=device)
    assert_same_bits(xl.to_host(comm.reduce_scatter(wide)), (both[0].astype("f8") + both[1])[comm.rank])
    assert_same_bits(xl.to_host(comm.broadcast(x, 1)), both[1])
    assert comm.broadcast(x, 0, out=x) is x
    assert_same_bits(xl.to_host(x), both[0])
    assert {"all_gather", "all_to_all", "broadcast"} <= set(calls)
    assert {"all_reduce", "reduce_scatter"} & set(calls)


def test_a_stream_orders_the_call(carried: Carried) -> None:
    comm, device, *_ = carried
    stream = xl.Stream(device)
    x = xl.to_device(xl.pinned_array(of(comm.rank, (50_000,)), backend=device.backend), device=device, stream=stream)
    for in_order in (False, True):
        found = comm.all_reduce(x, stream=stream, reproducible=in_order)
        assert_same_bits(xl.to_host(found, stream=stream), of(0, (50_000,)) + of(1, (50_000,)))


def test_an_operation_beside_the_stream_is_there_after_wait(carried: Carried) -> None:
    comm, device, *_ = carried
    arrays = [xl.to_device(of(comm.rank, (size,)), device=device) for size in (30, 40)]
    begun = [comm.all_reduce(x, async_op=True) for x in arrays]
    assert not begun[0].is_done or device.backend != "sim"
    for size, each in zip((30, 40), begun, strict=True):
        assert_same_bits(xl.to_host(each.wait()), of(0, (size,)) + of(1, (size,)))


def test_an_array_with_gaps_is_copied_first(carried: Carried) -> None:
    comm, device, *_ = carried
    x = xl.to_device(of(comm.rank, (6, 8)), device=device)
    assert_same_bits(xl.to_host(comm.all_reduce(x[:, ::2])), (of(0, (6, 8)) + of(1, (6, 8)))[:, ::2])


def test_host_memory_in_one_rank_and_device_memory_in_another(carried: Carried) -> None:
    comm, device, *_ = carried
    x = of(0, (4,))
    with pytest.raises(MismatchError, match="through device"):
        comm.all_reduce(xl.to_device(x, device=device) if comm.rank else x)


def test_one_device_for_each_rank(carried: Carried) -> None:
    comm, device, other, _ = carried
    comm.all_reduce(xl.ones(3, device=device))
    with pytest.raises(MixedDevicesError, match="one device for each rank"):
        comm.all_reduce(xl.ones(3, device=other))
    comm.barrier()


Asks = Callable[[Communicator, Any], Any]
DIFFERENT: dict[str, tuple[Asks, Asks, str]] = {
    "shape": (lambda c, x: c.all_reduce(x), lambda c, x: c.all_reduce(x[:2]), r"shape \(2,\), dtype float32"),
    "dtype": (
        lambda c, x: c.all_gather(x),
        lambda c, x: c.all_gather(xl.to_device(x, dtype="float64", device=xl.device_of(x))),
        "dtype float64",
    ),
    "operation": (lambda c, x: c.all_reduce(x), lambda c, x: c.all_reduce(x, "max"), "op='max'"),
    "order": (lambda c, x: c.broadcast(x), lambda c, x: c.all_gather(x), "rank 1: all_gather"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_different_calls_are_found_before_the_device_has_them(carried: Carried, what: str) -> None:
    comm, device, _, calls = carried
    usual, differs, text = DIFFERENT[what]
    x = xl.to_device(of(0, (4,)), device=device)
    comm.all_reduce(x)
    calls.clear()
    with pytest.raises(MismatchError, match=f"{text}.*through device"):
        (differs if comm.rank else usual)(comm, x)
    assert not calls
    assert_same_bits(xl.to_host(x), of(0, (4,)))


def test_an_mpi_that_reads_device_memory_by_itself(
    comm: Communicator, plugins: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the fake device, whose memory is the host's and whose copies come as late as they may."""
    if comm.driver != "mpi" or comm.size < 2:
        pytest.skip("of ranks of MPI")
    let_mpi_read(monkeypatch.setattr)
    both = [of(rank, (2, 5000)) for rank in range(2)]
    parts = np.stack([each[comm.rank % 2] for each in both])
    with distributed.init(timeout=60.0, cuda_aware=True) as world:
        made = world.split(0 if comm.rank < 2 else None)  # the fake machine has two devices
        if made is None:
            return
        device = xl.Device(f"fake:sim:{made.rank}")
        calls: list[tuple[Any, Any]] = [
            (lambda x: made.all_reduce(x), both[0] + both[1]),
            (lambda x: made.all_reduce(x, "max", out=x, async_op=True).wait(), np.maximum(*both)),
            (made.all_gather, np.stack(both)),
            (made.all_to_all, parts),
            (lambda x: made.all_to_all(x, out=x), parts),
            (lambda x: made.broadcast(x, 1), both[1]),
        ]
        with xl.Stream(device) as stream:
            for call, expected in calls:
                pinned = xl.pinned_array(both[made.rank], backend="fake")
                x = xl.to_device_async(pinned, device=device, stream=stream).result()
                assert_same_bits(xl.to_host(call(x), stream=stream), expected)
        made.close()


def test_two_threads_ask_for_the_notices_of_mpi(comm: Communicator) -> None:
    if comm.driver != "mpi" or comm.size < 2:
        pytest.skip("of ranks of MPI")
    from mpi4py import MPI

    class Overtaken:
        """A communicator of MPI in which another thread asks as soon as the first has found a notice."""

        def __init__(self) -> None:
            self._comm = MPI.COMM_WORLD.Dup()
            self.is_asking = False

        def __getattr__(self, name: str) -> Any:
            def call(*given: Any, **options: Any) -> Any:
                found = getattr(self._comm, name)(*given, **options)
                if name in ("Iprobe", "Improbe") and found and not self.is_asking:
                    self.is_asking = True
                    driver.notices()
                    self.is_asking = False
                return found

            return call

    driver = MpiDriver(comm=MPI.COMM_WORLD, notice_comm=Overtaken(), has_nccl=False, is_cuda_aware=False)
    if comm.rank == 1:
        driver.notify("no file weights.npz")
    while comm.rank != 1 and not driver.notices():
        pass
    assert driver.notices() == ({} if comm.rank == 1 else {1: "no file weights.npz"})
    comm.barrier()


@pytest.mark.parametrize(("level", "carries"), [("THREAD_MULTIPLE", True), ("THREAD_SERIALIZED", False)])
def test_an_mpi_for_one_thread_at_a_time_has_no_devices(
    comm: Communicator, monkeypatch: pytest.MonkeyPatch, level: str, carries: bool
) -> None:
    if comm.driver != "mpi":
        pytest.skip("of ranks of MPI")
    from mpi4py import MPI

    monkeypatch.setattr(MPI, "Query_thread", lambda: getattr(MPI, level))
    driver = MpiDriver(MPI.COMM_WORLD, MPI.COMM_WORLD, has_nccl=False, is_cuda_aware=True)
    on_cuda: Any = SimpleNamespace(pinned_domain="cuda")
    assert driver.carries(on_cuda) is carries


def test_cuda_aware_is_for_mpi(comm: Communicator) -> None:
    if comm.driver != "torch":
        pytest.skip("of ranks that torchrun has started")
    with pytest.raises(ArgumentError, match="cuda_aware=True is for MPI"):
        distributed.init(cuda_aware=True)

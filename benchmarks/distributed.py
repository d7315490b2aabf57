"""`benchmarks distributed`, in every rank of a job: collectives beside the driver's own calls, and a training step.

    mpiexec -n 2 python -m benchmarks distributed
    torchrun --nproc-per-node=2 -m benchmarks distributed

    by hand        mpi4py's Allreduce; torch.distributed.all_reduce on gloo, and on NCCL
    all_reduce     comm.all_reduce(x, out=y); unchecked: with check=False; reproducible: with reproducible=True
    step           one step of a network in PyTorch on each rank's device: alone, without communication; with the mean
                   of its gradients behind the backward pass; and with each begun as soon as the pass has made it. A
                   speed-up is that of all ranks over one alone

Each way is measured in turn with all others, several rounds of them; the figure is that of the median round, in
microseconds a call, on the slowest rank. Rank 0 prints.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from xferlib import distributed

Way = Callable[[], Any]

_SIZES = (4 << 10, 1 << 20, 64 << 20, 1 << 30)
_LIBRARIES = ("torch", "cupy", "pycuda")
_ROUND_S = 0.1
"""About the time of one round of calls."""
_MOST_CALLS = 200
_LAYERS, _WIDTH, _ROWS = 8, 4096, 4096


def numpy_ways(comm: distributed.Communicator, free: distributed.Communicator, nbytes: int) -> dict[str, Way]:
    """The ways of arrays in host memory."""
    x = np.ones(nbytes // 4, np.float32)
    y = np.empty_like(x)
    ways = {"by hand": _by_hand_on_host(comm, x, y)} | _own(comm, free, x, y)
    return {f"numpy {name}": way for name, way in ways.items()}


def _by_hand_on_host(comm: distributed.Communicator, x: Any, y: Any) -> Way:
    if comm.driver == "mpi":
        from mpi4py import MPI

        return partial(MPI.COMM_WORLD.Allreduce, x, y)
    import torch
    import torch.distributed as torch_distributed

    group, tensor = _torch_group("gloo"), torch.from_numpy(y)
    return partial(torch_distributed.all_reduce, tensor, group=group)


_groups: dict[str, Any] = {}


def _torch_group(backend: str) -> Any:
    """A group of the program's own, beside the communicator's."""
    import torch.distributed as torch_distributed

    if not torch_distributed.is_initialized():
        torch_distributed.init_process_group("gloo", timeout=timedelta(seconds=300))
    if backend not in _groups:
        _groups[backend] = torch_distributed.new_group(backend=backend)
    return _groups[backend]


def device_ways(comm: distributed.Communicator, free: distributed.Communicator, nbytes: int) -> dict[str, Way]:
    """The ways of arrays on this rank's GPU, for each library that is installed."""
    ways: dict[str, Way] = {}
    for name in _LIBRARIES:
        places = [each for each in map(xl.Device, xl.available_backends()[name].devices) if each.kind != "cpu"]
        if not places:
            continue
        place = places[comm.local_rank % len(places)]
        place.use()
        x = xl.ones(nbytes // 4, "float32", device=place)
        y = xl.empty_like(x)
        if name == "torch" and comm.driver == "torch" and len(places) >= comm.size:
            import torch.distributed as torch_distributed

            raw = partial(torch_distributed.all_reduce, xl.empty_like(x), group=_torch_group("nccl"))
            ways["NCCL by hand"] = _synchronised(raw, place)
        for way, call in _own(comm, free, x, y).items():
            ways[f"{name} {way}"] = _synchronised(call, place)
    return ways


def _own(comm: distributed.Communicator, free: distributed.Communicator, x: Any, y: Any) -> dict[str, Way]:
    return {
        "all_reduce": partial(comm.all_reduce, x, out=y),
        "in place": partial(comm.all_reduce, y, op="max", out=y),
        "unchecked": partial(free.all_reduce, x, out=y),
        "reproducible": partial(comm.all_reduce, x, out=y, reproducible=True),
    }


def _synchronised(call: Way, place: xl.Device) -> Way:
    call.place = place  # type: ignore[attr-defined]
    return call


def measured(comm: distributed.Communicator, ways: dict[str, Way], rounds: int) -> dict[str, float]:
    """Microseconds a call of each way, of the slowest rank."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 2):  # the first makes connections, and the second says how many calls a round has
        for name, way in ways.items():
            calls = 1 if number < 2 else _calls(found[name][1])
            place = getattr(way, "place", None)
            comm.barrier()
            begun_s = time.perf_counter()
            for _ in range(calls):
                way()
            if place is not None:
                place.synchronize()
            elapsed = np.array((time.perf_counter() - begun_s) / calls * 1e6)
            found[name].append(float(comm.all_reduce(elapsed, "max")))
    return {name: statistics.median(times[2:]) for name, times in found.items()}


def _calls(first_us: float) -> int:
    return max(3, min(_MOST_CALLS, int(_ROUND_S * 1e6 / first_us)))


class Training:
    """A network of equal layers on this rank's GPU, whose gradients are reduced: not, behind the pass, or in it."""

    def __init__(self, comm: distributed.Communicator, place: xl.Device, when: str) -> None:
        import torch

        self._comm = comm
        self._when = when
        self._begun: list[Any] = []
        where = torch.device("cuda", place.index)
        layers = [torch.nn.Linear(_WIDTH, _WIDTH, device=where) for _ in range(_LAYERS)]
        self._net = torch.nn.Sequential(*layers)
        self._x = torch.randn(_ROWS, _WIDTH, device=where)
        for parameter in self._net.parameters():
            parameter.register_post_accumulate_grad_hook(self._reduce)

    def _reduce(self, parameter: Any) -> None:
        if self._when == "overlapped":
            self._begun.append(self._comm.all_reduce(parameter.grad, "mean", out=parameter.grad, async_op=True))

    def step(self) -> None:
        import torch

        self._net(self._x).square().mean().backward()
        for each in self._begun:
            each.wait()
        self._begun.clear()
        parameters = list(self._net.parameters())
        slopes = [parameter.grad for parameter in parameters]
        if self._when == "behind":
            slopes = distributed.mean_grads(self._comm, slopes)
        with torch.no_grad():
            for parameter, slope in zip(parameters, slopes, strict=True):
                parameter -= 1e-3 * slope
                parameter.grad = None


def training(comm: distributed.Communicator, rounds: int) -> dict[str, float]:
    """Steps, in microseconds, and the speed of all ranks together over one alone."""
    if not xl.available_backends()["torch"].is_available:
        return {}
    places = [each for each in map(xl.Device, xl.available_backends()["torch"].devices) if each.kind != "cpu"]
    if len(places) < comm.size:
        return {}
    place = places[comm.local_rank % len(places)]
    place.use()
    whens = ("alone", "behind", "overlapped")
    ways = {f"step {when}": _synchronised(_called(Training(comm, place, when)), place) for when in whens}
    found = measured(comm, ways, rounds)
    speeds = {f"speed-up {when}": comm.size * found["step alone"] / found[f"step {when}"] for when in whens[1:]}
    return found | speeds


def _called(trained: Training) -> Way:
    return lambda: trained.step()  # noqa: PLW0108 - which has room for the device that it is timed on


def main(argv: list[str]) -> int:
    """Measure, and print a table of each size on rank 0."""
    parser = argparse.ArgumentParser(prog="benchmarks distributed", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=_SIZES, help="bytes of an array")
    parser.add_argument("--host-most", type=int, default=64 << 20, help="most bytes of an array in host memory")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(argv)
    results: dict[str, dict[str, float]] = {}
    with distributed.init() as comm, distributed.init(check=False) as free:
        for nbytes in options.sizes:
            ways = numpy_ways(comm, free, nbytes) if nbytes <= options.host_most else {}
            found = measured(comm, ways | device_ways(comm, free, nbytes), options.rounds)
            results[f"{nbytes} bytes"] = found
            if comm.rank == 0:
                print(f"{nbytes:,} bytes, driver {comm.driver}, {comm.size} ranks", flush=True)
                for name, micros in found.items():
                    hand = found.get("numpy by hand" if name.startswith("numpy") else "NCCL by hand", float("nan"))
                    print(f"    {name:24} {micros:12,.1f} us   {hand / micros:5.2f} of the speed by hand", flush=True)
        results["training"] = training(comm, options.rounds)
        if comm.rank == 0:
            print("   ".join(f"{name} {value:,.2f}" for name, value in results["training"].items()))
            if options.json is not None:
                options.json.write_text(json.dumps(results, indent=1))
    return 0

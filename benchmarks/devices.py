"""`python -m benchmarks devices`: copies between two GPUs, beside the driver's own, torch's and CuPy's.

    copy_to      xl.copy_to(x, 1), to a new array, from each library to itself and to each other one
    to_device    xl.to_device(x, out=y)
    by host      copy_to where the devices may not reach each other: through pinned memory
    driver       the one copy that is the limit, enqueued on the target's stream, and on the source's
    torch, CuPy  y.copy_(x) and x.to(...); cupy's copy under the target device

Each way is measured in turn with all others, several rounds of them; the figure is that of the best round. A round
makes as many copies as take some tens of milliseconds, and waits for both devices. GB are 1e9 bytes.

Then `prefetch` and `stream_map` over one device and over both: from ordinary memory, which the processor copies first,
and from pinned memory, which the devices read by themselves; and copies on the host alone.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from xferlib.errors import BackendUnavailableError
from xferlib.testing import backend_named, no_peers

_LIBRARIES = ("torch", "cupy", "pycuda")
_ROUND_NBYTES = 8 << 30
"""Bytes of one round, of which a round copies at least one array and at most `_ROUND_CALLS`."""
_ROUND_CALLS = 200
_COPIERS = 10
"""As many threads as stage one transfer at most."""

Way = Callable[[], Any]


def devices_of(name: str) -> list[xl.Device]:
    """The accelerators of a backend."""
    found = xl.available_backends()[name]
    return [each for each in map(xl.Device, found.devices) if each.kind != "cpu"]


def own_ways(names: list[str], nbytes: int) -> dict[str, Way]:
    """xferlib's ways from device 0 to device 1."""
    host = np.random.default_rng(0).integers(0, 255, nbytes, np.uint8)
    ways: dict[str, Way] = {}
    for name in names:
        here, there = devices_of(name)[:2]
        x = xl.to_device(host, device=here)
        y = xl.empty(host.shape, host.dtype, device=there)
        for other in names:
            target = devices_of(other)[1]
            ways[f"{name} -> {other} copy_to"] = partial(xl.copy_to, x, target)
        ways[f"{name} to_device(out=)"] = partial(xl.to_device, x, out=y)
        ways[f"{name} copy_to by host"] = partial(_by_host, x, there, name)
    return ways


def _by_host(x: Any, target: xl.Device, name: str) -> None:
    with no_peers(name):
        xl.copy_to(x, target)


def driver_ways(name: str, nbytes: int) -> dict[str, Way]:
    """One copy of the driver, which is the limit."""
    backend: Any = backend_named(name)
    here, there = devices_of(name)[:2]
    ways: dict[str, Way] = {}
    for side, device in (("target", there), ("source", here)):
        x, y = xl.to_device(np.zeros(nbytes, np.uint8), device=here), xl.empty(nbytes, "uint8", device=there)
        xl.copy_to(xl.copy_to(x, there), here)  # which lets the devices reach each other
        stream = xl.Stream(device)._raw
        ways[f"driver, on the {side}'s stream"] = partial(_copy, backend, y, x, nbytes, stream)
    here.synchronize()
    there.synchronize()
    return ways


def _copy(backend: Any, dst: Any, src: Any, nbytes: int, stream: Any) -> None:
    backend.copy(backend.view(dst).pointer, backend.view(src).pointer, nbytes, stream=stream)


def peer_ways(nbytes: int) -> dict[str, Way]:
    """Other libraries' own calls."""
    ways: dict[str, Way] = {}
    try:
        torch: Any = importlib.import_module("torch")
        if torch.cuda.device_count() > 1:
            x = torch.zeros(nbytes, dtype=torch.uint8, device="cuda:0")
            y = torch.zeros(nbytes, dtype=torch.uint8, device="cuda:1")
            ways |= {"torch y.copy_(x)": lambda: y.copy_(x), "torch x.to('cuda:1')": lambda: x.to("cuda:1")}
    except ImportError:
        pass
    try:
        cupy: Any = importlib.import_module("cupy")
        if cupy.cuda.runtime.getDeviceCount() > 1:
            z = cupy.zeros(nbytes, dtype="uint8")

            def copied() -> Any:
                with cupy.cuda.Device(1):
                    return cupy.array(z)

            ways["cupy array(x) on device 1"] = copied
    except ImportError:
        pass
    return ways


def measure(ways: dict[str, Way], calls: int, rounds: int, wait: Way) -> dict[str, list[float]]:
    """Seconds of a call, for each way in each round."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    wait()
    for _ in range(rounds):
        for name, way in ways.items():
            begun = time.perf_counter()
            for _ in range(calls):
                way()
            wait()
            found[name].append((time.perf_counter() - begun) / calls)
    return found


def _wait(devices: list[xl.Device]) -> None:
    for device in devices:
        device.synchronize()


def copies(names: list[str], nbytes: int, rounds: int) -> list[dict[str, Any]]:
    """Measure all copies of one size."""
    both = devices_of(names[0])[:2]
    peers = peer_ways(nbytes) if both[0].kind == "cuda" else {}
    ways = {**driver_ways(names[0], nbytes), **peers, **own_ways(names, nbytes)}
    calls = max(1, min(_ROUND_CALLS, _ROUND_NBYTES // nbytes))
    found = measure(ways, calls, rounds, partial(_wait, both))
    limit = min(min(seconds) for name, seconds in found.items() if not name.endswith("by host"))
    return [
        {
            "nbytes": nbytes,
            "way": name,
            "best_gb_per_s": nbytes / min(seconds) / 1e9,
            "median_gb_per_s": nbytes / statistics.median(seconds) / 1e9,
            "us_a_call": min(seconds) * 1e6,
            "of_the_limit": limit / min(seconds),
        }
        for name, seconds in found.items()
    ]


def pipelines(name: str, nbytes: int, rounds: int) -> list[dict[str, Any]]:
    """Measure `prefetch` and `stream_map` over one device and over two, from ordinary memory and from pinned."""
    both, nbytes = devices_of(name)[:2], max(nbytes // 64, 1) * 64
    batches = [np.full(nbytes, number, np.uint8) for number in range(16)]
    rows = np.concatenate(batches).reshape(64, -1)
    out = np.empty_like(rows)
    pinned, pinned_out = xl.pinned_array(rows), xl.pinned_empty(rows.shape, rows.dtype)
    crew = min(_COPIERS, os.cpu_count() or 1)
    ways: dict[str, Way] = {f"host memory, copied by {crew} threads": partial(_copy_on_host, out, rows, crew)}
    for memory, given, source, into in (
        ("ordinary", batches, rows, out),
        ("pinned", list(pinned.reshape(16, -1)), pinned, pinned_out),
    ):
        for devices in ([both[0]], both):
            label = f"{memory}, {len(devices)} device{'s' * (len(devices) > 1)}"
            ways[f"{name} prefetch, {label}"] = partial(_consume, given, devices)
            ways[f"{name} stream_map, {label}"] = partial(
                xl.stream_map, _same, source, chunk_rows=4, out=into, devices=devices
            )
    found = measure(ways, 1, rounds, partial(_wait, both))
    total = rows.nbytes
    return [
        {"nbytes": total, "way": way, "best_gb_per_s": total / min(seconds) / 1e9,
         "median_gb_per_s": total / statistics.median(seconds) / 1e9, "us_a_call": min(seconds) * 1e6}
        for way, seconds in found.items()
    ]  # fmt: skip


def _copy_on_host(dst: Any, src: Any, threads: int) -> None:
    """What feeds all devices from ordinary memory: copies of the processor's."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(np.copyto, np.array_split(dst, threads), np.array_split(src, threads)))


def _same(chunk: Any) -> Any:
    return chunk


def _consume(batches: list[Any], devices: list[xl.Device]) -> None:
    for _ in xl.prefetch(batches, devices=devices):
        pass


def show(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        share = f"{row['of_the_limit']:.3f} of the limit" if "of_the_limit" in row else ""
        print(
            f"{row['nbytes'] / (1 << 20):8.2f} MiB  {row['way']:36} {row['best_gb_per_s']:7.1f} GB/s "
            f"(median {row['median_gb_per_s']:7.1f}) {row['us_a_call']:10.1f} us  {share}"
        )


def main(argv: list[str]) -> int | str:
    parser = argparse.ArgumentParser(prog="python -m benchmarks devices", description=__doc__)
    parser.add_argument("--backends", default=",".join(_LIBRARIES), help="by comma, those with two devices")
    parser.add_argument("--mib", type=float, nargs="+", default=[1 / 256, 1, 64, 1024], help="sizes in MiB")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    given = parser.parse_args(argv)
    names = []
    for name in given.backends.split(","):
        try:
            if len(devices_of(name)) > 1:
                names.append(name)
        except (BackendUnavailableError, KeyError):
            continue
    if not names:
        return f"benchmarks devices: none of {given.backends} has two devices here"
    print(", ".join(f"{device}: {device.properties.name}" for device in devices_of(names[0])[:2]))
    rows: list[dict[str, Any]] = []
    with xl.use_backend(names[0]):
        for mib in given.mib:
            rows += copies(names, int(mib * (1 << 20)), given.rounds)
        rows += pipelines(names[0], min(64 << 20, int(max(given.mib) * (1 << 20))), given.rounds)
    show(rows)
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1))
    return 0

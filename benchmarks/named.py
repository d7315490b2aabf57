"""`python -m benchmarks named`: transfers that programs often make, and the most that host and link could do.

    N MB             float32 between ordinary memory and a new array
    images           256 x 224 x 224 x 3 bytes to the device as planes: 38.5 MB
    as float16       256 MiB of float32, converted on the way; GB/s of the source
    ResNet-50, ...   the parameters of published networks, with results in ordinary and in pinned memory
    link             the same N MB between pinned memory and the device
    host             the same bytes between ordinary and pinned memory, by all threads of torch or by those of xferlib

A transfer of ordinary memory is no faster than the slower of link and host. All ways of a case take turns, in a loop
and then each after other work, as in `xferlib bench sweep`; the results are compared with their sources first. Each
library takes its fastest way. Without a GPU there is neither link nor pinned memory, and all cases are copies in host
memory.
"""

from __future__ import annotations

import argparse
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._cli import bench as show
from xferlib._cli.bench import HostArray, Run
from xferlib._cli.bench_sweep import REGIMES, CaseFigures, measured
from xferlib._cli.bench_transfer import machine
from xferlib._cli.main import aligned
from xferlib._cli.sweep_transfers import NETWORKS, ArrayCase, TreeCase
from xferlib._cli.sweep_trial import Key, OtherWork, Peers, Timing, present_peers

SIZES_MB = (2, 10, 30, 102, 150)
_NETWORKS = ("ResNet-50", "BERT-base")
_IMAGES = (256, 224, 224, 3)
_Case = ArrayCase | TreeCase


@dataclass(frozen=True, slots=True, kw_only=True)
class Planes(ArrayCase):
    """Images whose channels lie side by side, sent with each channel by itself."""

    def host_array(self, *, of_target: bool = False) -> HostArray:
        images = np.random.default_rng(self.variant).integers(0, 256, _IMAGES, np.uint8)
        return images.transpose(0, 3, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The fastest way of xferlib, and of the others, in both regimes."""

    case: str
    nbytes: int
    seconds: dict[str, dict[str, tuple[str, float]]]
    """By regime, ``"xferlib"`` or ``"peer"``: the way, and its median seconds."""

    def gb_per_s(self, side: str) -> str:
        """In a loop, and after other work in brackets."""
        found = [
            self.nbytes / self.seconds[regime][side][1] / 1e9 for regime in REGIMES if side in self.seconds[regime]
        ]
        return f"{found[0]:.1f} ({found[1]:.1f})" if len(found) > 1 else "-"


def _array(library: str, shape: tuple[int, ...], *, is_upload: bool, **options: Any) -> ArrayCase:
    given: dict[str, Any] = {"given": "float32", "wanted": "float32", "is_new": True, "is_pinned": False}
    return ArrayCase(
        name="transfer:0:0", library=library, is_upload=is_upload, layout="contiguous", shape=shape, variant=1,
        has_stream=False, **given | options,
    )  # fmt: skip


def cases(library: str, *, has_pinned: bool) -> Iterator[tuple[str, int, _Case]]:
    """Each named case with its bytes, for the arrays of one backend."""
    for size in SIZES_MB:
        for is_upload, way in ((True, "up"), (False, "down")):
            shape, nbytes = (size * 250_000,), size * 1_000_000
            yield f"{size} MB {way}", nbytes, _array(library, shape, is_upload=is_upload)
            if has_pinned:
                pinned = _array(library, shape, is_upload=is_upload, is_new=False, is_pinned=True)
                yield f"link {size} MB {way}", nbytes, pinned
    planes = _IMAGES[0], _IMAGES[3], *_IMAGES[1:3]
    images = Planes(
        name="transfer:0:1", library=library, is_upload=True, is_new=True, is_pinned=False, layout="permuted",
        shape=planes, given="uint8", wanted="uint8", variant=1, has_stream=False,
    )  # fmt: skip
    yield "images up", images.nbytes, images
    halves = _array(library, (1 << 26,), is_upload=True, wanted="float16")
    yield "as float16 up", 1 << 28, halves
    for name in _NETWORKS:
        for is_upload, way in ((True, "up"), (False, "down")):
            tree = TreeCase(
                name="tree:0:0", library=library, is_upload=is_upload, tree=name, shapes=tuple(NETWORKS[name]()),
                dtype="float32",
            )  # fmt: skip
            yield f"{name} {way}", tree.nbytes, tree


def rows_of(case: str, nbytes: int, found: CaseFigures) -> Iterator[Row]:
    """One row of a case; of one whose results may be pinned, one of ordinary results and one of pinned ones."""
    pinned = {(library, way) for library, ways in found.pinned.items() for way in ways}
    for is_pinned in (False, True) if pinned else (False,):
        seconds: dict[str, dict[str, tuple[str, float]]] = {regime: {} for regime in REGIMES}
        for regime, libraries in found.seconds.items():
            for library, ways in libraries.items():
                side = "xferlib" if library.startswith("xferlib") else "peer"
                for way, each in ways.items():
                    best = seconds[regime].get(side)
                    if ((library, way) in pinned) is is_pinned and (best is None or each < best[1]):
                        seconds[regime][side] = f"{library}, {way}", each
        yield Row(case=f"{case} to pinned memory" if is_pinned else case, nbytes=nbytes, seconds=seconds)


def host_row(case: str, sources: list[HostArray], other_work: Callable[[float], None], *, is_fill: bool) -> Row:
    """Copies between ordinary and pinned memory, which has all arrays in one block."""
    nbytes = sum(each.nbytes for each in sources)
    block = xl.pinned_empty(nbytes // 4, "float32")
    places = np.split(block, np.cumsum([each.size for each in sources])[:-1])
    flat = [each.reshape(-1) for each in sources]
    pairs = list(zip(places, flat, strict=True) if is_fill else zip(flat, places, strict=True))
    runs: dict[Key, Run] = {Key("xferlib", "to_host(out=)"): lambda: [xl.to_host(b, out=a) for a, b in pairs]}
    if xl.available_backends()["torch"].is_available:
        import torch

        tensors = [(torch.from_numpy(a), torch.from_numpy(b)) for a, b in pairs]
        runs[Key("torch", "copy_")] = lambda: [a.copy_(b) for a, b in tensors]
    for each in runs.values():
        each()

    def change() -> None:
        pairs[0][1][0] += 1

    timing = Timing(change, other_work, np.random.default_rng(zlib.crc32(case.encode())))
    seconds: dict[str, dict[str, tuple[str, float]]] = {}
    for regime, found in (("hot", timing.hot(runs)), ("cold", timing.cold(runs))):
        seconds[regime] = {
            "xferlib" if key.library == "xferlib" else "peer": (f"{key.library}, {key.way}", each)
            for key, each in found.items()
        }
    return Row(case=case, nbytes=nbytes, seconds=seconds)


def _host_rows(wanted: re.Pattern[str], other_work: Callable[[float], None]) -> Iterator[Row]:
    shapes: dict[str, list[tuple[int, ...]]] = {f"{size} MB": [(size * 250_000,)] for size in SIZES_MB}
    shapes |= {name: NETWORKS[name]() for name in _NETWORKS}
    for name, each in shapes.items():
        for is_fill, way in ((True, "up"), (False, "down")):
            if wanted.search(case := f"host {name} {way}"):
                yield host_row(case, [np.ones(shape, np.float32) for shape in each], other_work, is_fill=is_fill)


def rows(
    peers: Peers, backends: list[str], wanted: re.Pattern[str], other_work: Callable[[float], None]
) -> Iterator[Row]:
    """Measure each case that is wanted, for each backend's arrays, then the host alone.

    Raises:
        SystemExit: A result is wrong.
    """
    for library in backends:
        for name, nbytes, case in cases(library, has_pinned=peers.is_gpu):
            if not wanted.search(f"{library}: {name}"):
                continue
            found = measured(case, peers, other_work)
            if found.problem:
                raise SystemExit(f"{library}: {name}: {found.problem}")
            yield from rows_of(f"{library}: {name}", nbytes, found)
    if peers.is_gpu:
        xl.use_backend(backends[0])  # whose pinned memory it is
        yield from _host_rows(wanted, other_work)


def main(argv: list[str]) -> int:
    """Measure the cases, print a line for each, and write them as JSON."""
    parser = argparse.ArgumentParser(
        prog="benchmarks named", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backends", help="whose arrays, with commas between (default: of all peers that are here)")
    parser.add_argument("--match", default="", help="only cases that a regular expression finds")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(argv)
    peers = present_peers(compiles=False)
    backends = options.backends.split(",") if options.backends else list(peers.backends)
    here = machine(backends[0])
    found: list[Row] = []
    with show.progress("measuring") as report:
        for row in rows(peers, backends, re.compile(options.match), OtherWork()):
            found.append(row)
            report(row.case)
    show.heading(here, peers.absent)
    print("GB/s in a loop, and after other work in brackets\n")
    table = [[row.case, row.gb_per_s("xferlib"), row.gb_per_s("peer"), _way(row)] for row in found]
    print("\n".join(aligned([["case", "xferlib", "the best peer", "its way"], *table])))
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": here, "rows": list(map(asdict, found))}, indent=1) + "\n")
    return 0


def _way(row: Row) -> str:
    return row.seconds["hot"].get("peer", ("-", 0.0))[0]

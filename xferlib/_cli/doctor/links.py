"""The PCIe link of each GPU: its width and generation, against what both ends can do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from xferlib._cli.doctor.finding import Finding, fine, note, slow
from xferlib._cli.doctor.machine import Gpu, InspectedMachine, number

_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""By GT/s."""


class _Link(NamedTuple):
    name: str
    width: int | None
    most_width: int | None
    generation: int | None
    most_generation: int | None
    own_generation: int | None
    """Of the GPU itself; the slot may have less."""
    is_busy: bool


def findings(machine: InspectedMachine) -> Iterator[Finding]:
    """Each link; `nvidia-smi` is asked first, since it knows whether the GPU is idle."""
    for link in [*_from_smi(machine)] or [*map(_from_kernel, machine.gpus)]:
        found = [*_judged(link)]
        yield from found
        if not found and link.width and link.most_generation:
            yield fine(f"{link.name}: PCIe {link.most_generation}.0 x{link.width}")


def _judged(link: _Link) -> Iterator[Finding]:
    if link.width and link.most_width and link.width < link.most_width:
        yield slow(
            f"{link.name} is linked by {link.width} of {link.most_width} PCIe lanes",
            f"Transfers reach {100 * link.width // link.most_width} % of what a full link carries.",
            "Put the card into a slot with all lanes, seat it anew, and look at the slot's setting in the firmware.",
        )
    if link.generation and link.most_generation and link.generation < link.most_generation and link.is_busy:
        yield slow(
            f"{link.name} is linked by PCIe {link.generation}.0, and both ends can do {link.most_generation}.0",
            "Transfers reach a half or less of what the link carries.",
            "Look at the slot's setting in the firmware, at risers and cables, and in dmesg for PCIe errors.",
        )
    if link.own_generation and link.most_generation and link.most_generation < link.own_generation:
        yield note(
            f"{link.name} can do PCIe {link.own_generation}.0, and its slot {link.most_generation}.0",
            "Transfers are as fast as the slot.",
        )


def _from_smi(machine: InspectedMachine) -> Iterator[_Link]:
    for gpu in machine.smi:
        yield _Link(
            f"GPU {gpu.get('index', '?')}",
            _whole(gpu.get("pcie.link.width.current")),
            _whole(gpu.get("pcie.link.width.max")),
            _whole(gpu.get("pcie.link.gen.current")),
            _whole(gpu.get("pcie.link.gen.max")),
            _whole(gpu.get("pcie.link.gen.gpumax")),
            is_busy=gpu.get("pstate") == "P0" and (number(gpu.get("clocks.current.sm")) or 0) > _half_clock(gpu),
        )


def _half_clock(gpu: dict[str, str]) -> float:
    """A GPU in its highest state that runs slower than this is idle all the same, and so may its link be."""
    return (number(gpu.get("clocks.max.sm")) or 0) / 2


def _from_kernel(gpu: Gpu) -> _Link:
    return _Link(
        f"GPU at {gpu.address}",
        _whole(gpu.read("current_link_width")),
        _whole(gpu.read("max_link_width")),
        _generation(gpu.read("current_link_speed")),
        _generation(gpu.read("max_link_speed")),
        None,
        is_busy=False,  # the kernel does not tell, and an idle link is slow to save power
    )


def _whole(text: str | None) -> int | None:
    found = number(text)
    return int(found) if found is not None else None


def _generation(text: str | None) -> int | None:
    match = re.match(r"[\d.]+", text or "")
    return _GENERATIONS.get(float(match[0])) if match is not None else None

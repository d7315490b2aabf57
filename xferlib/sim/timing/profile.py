"""The figures of a machine, from which the virtual clock computes times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xferlib._api.calibration import Calibration
    from xferlib.sim.timing.bench_figures import Figures


class Lane(StrEnum):
    """An engine: it runs one operation at a time, concurrently with the other engines."""

    HOST = "host"
    STAGING = "staging"
    H2D = "h2d"
    D2H = "d2h"
    PEER = "peer"
    D2D = "d2d"
    KERNELS = "kernels"
    NONE = "none"


HOST = -1
"""The host's number in place of a device's index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A machine's figures: bandwidths in bytes a second, times in seconds.

    Args:
        name: The name of the machine.
        h2d, d2h: The link with pinned memory, in each direction.
        duplex: The link in both directions at once, as a share of the sum of both.
        peer: Copies from device to device; 0: devices do not reach each other, and copies pass through the host.
        memory: Device memory, reads and writes together.
        staging: Copies between ordinary and pinned memory by all host threads together; the speed depends on the
            size of the transfer.
        latency_s: Time from the start of a copy or kernel until it is under way.
        enqueue_s: Host time of one call that enqueues.
        synchronize_s: Host time of one call that waits, beyond the wait.
    """

    name: str
    h2d: float
    d2h: float
    duplex: float = 1.0
    peer: float
    memory: float
    staging: float
    latency_s: float
    enqueue_s: float
    synchronize_s: float

    def calibrated(self, found: Calibration, *, name: str = "calibrated") -> Profile:
        """These figures, with the link's and the memory's from `xferlib.calibrate` of a machine with a GPU."""
        return replace(
            self,
            name=name,
            h2d=found.pinned_up_gb_per_s * 1e9,
            d2h=found.pinned_down_gb_per_s * 1e9,
            staging=found.staged_up_gb_per_s * 1e9,
            memory=found.memory_gb_per_s * 1e9 or self.memory,
        )

    @classmethod
    def from_bench(
        cls,
        transfers: Figures,
        kernels: Figures | None = None,
        *,
        nbytes: int | None = None,
        like: Profile | None = None,
    ) -> Profile:
        """The figures of a machine on which the benchmarks have run.

        Args:
            transfers: The output of ``xferlib bench transfer --json``: a file, or its content.
            kernels: The output of ``python -m benchmarks kernels --json``, for the bandwidth of device memory.
            nbytes: Size of your transfers: staging is as fast as measured for the nearest size; the
                largest if omitted.
            like: The profile with the figures that were not measured; `H200` if omitted.

        Raises:
            ConfigError: The figures are of a machine without a GPU, or are no output of the benchmark.
        """
        from xferlib.sim.timing import bench_figures

        found = bench_figures.read(transfers, kernels, nbytes)
        like = like if like is not None else H200
        return replace(
            like,
            name=found.name,
            h2d=found.h2d,
            d2h=found.d2h,
            staging=found.staging,
            memory=found.memory if found.memory is not None else like.memory,
        )

    def costs(self) -> dict[Lane, tuple[float, float]]:
        """For each engine, its bytes per second and the seconds before the first of them."""
        speeds = {Lane.H2D: self.h2d, Lane.D2H: self.d2h, Lane.PEER: self.peer, Lane.KERNELS: self.memory,
                  Lane.D2D: self.memory / 2}  # fmt: skip
        return {Lane.STAGING: (self.staging, 0.0), **{lane: (speed, self.latency_s) for lane, speed in speeds.items()}}


H200 = Profile(
    # Measured on one H200 with PCIe 5 x16 and 16 cores; both directions at once 101.6 GB/s.
    name="h200", h2d=55.5e9, d2h=55.5e9, duplex=101.6 / 111.0, peer=300e9, memory=4345e9, staging=52.1e9,
    latency_s=2.5e-6, enqueue_s=1.8e-6, synchronize_s=3e-6,
)  # fmt: skip
LAPTOP = Profile(
    # Not measured: data sheet figures of a 2023 laptop GPU on PCIe 4 x8, with the usual efficiency of 80 %.
    name="laptop", h2d=12.5e9, d2h=12.5e9, duplex=0.95, peer=6e9, memory=205e9, staging=12e9,
    latency_s=5e-6, enqueue_s=4e-6, synchronize_s=8e-6,
)  # fmt: skip
PROFILES = {profile.name: profile for profile in (H200, LAPTOP)}

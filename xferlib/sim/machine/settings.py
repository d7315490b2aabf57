"""The settings of a simulated machine."""

from __future__ import annotations

from dataclasses import dataclass

from xferlib._runtime import config as _config
from xferlib.sim.detect.detector import Mode
from xferlib.sim.timing.profile import H200, PROFILES, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one machine; `xferlib._runtime.config` documents the environment variables."""

    devices: int = 2
    memory_nbytes: int = 8 << 30
    mode: Mode = Mode.RAISE
    schedule: str = "lazy"
    seed: int = 0
    profile: Profile = H200

    @classmethod
    def configured(cls) -> Settings:
        """The settings of ``XFERLIB_SIM_*`` and `xferlib.configure`."""
        config = _config.get()
        return cls(
            devices=config.sim_devices,
            memory_nbytes=config.sim_memory,
            mode=Mode(config.sim),
            schedule=config.sim_schedule,
            seed=config.sim_seed,
            profile=PROFILES[config.sim_profile],
        )

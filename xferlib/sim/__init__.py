"""A simulated accelerator: it refuses what a GPU refuses, and finds what a GPU hides.

`xferlib.use_backend("sim")` or ``XFERLIB_BACKEND=sim`` chooses it. Every access is checked by default
(``XFERLIB_SIM``); the blocks here narrow that to a part of a program, strike it with faults, and time it.
"""

from xferlib.sim.arrays import SimArray
from xferlib.sim.control import check, faults, reads, timeline, writes
from xferlib.sim.detector import Access, Hazard, Race, RaceError, SimError, WrongDeviceError
from xferlib.sim.implicit import ImplicitCopy, ImplicitCopyError
from xferlib.sim.portable import NotPortableError
from xferlib.sim.schedules import Fault, Plan, Point, explore
from xferlib.sim.timing import H200, LAPTOP, Lane, Profile, Slice, Timeline

__all__ = [
    "H200",
    "LAPTOP",
    "Access",
    "Fault",
    "Hazard",
    "ImplicitCopy",
    "ImplicitCopyError",
    "Lane",
    "NotPortableError",
    "Plan",
    "Point",
    "Profile",
    "Race",
    "RaceError",
    "SimArray",
    "SimError",
    "Slice",
    "Timeline",
    "WrongDeviceError",
    "check",
    "explore",
    "faults",
    "reads",
    "timeline",
    "writes",
]


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])

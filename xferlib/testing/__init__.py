"""The conformance suite that every backend is held to, and the tools it is made of.

Needs pytest and Hypothesis (``pip install 'xferlib[test]'``); ``import xferlib`` needs neither.

    import xferlib.testing

    class TestMine(xferlib.testing.BackendConformance):
        backend = "mine"
"""

from xferlib._core import promotion
from xferlib._core.array import DTYPES
from xferlib.testing import strategies
from xferlib.testing.asserts import assert_same_bits, native_bits, scribble
from xferlib.testing.conformance import BackendConformance
from xferlib.testing.settings import (
    advised,
    configured,
    cores,
    forced,
    fresh_registry,
    fresh_staging,
    no_peers,
    results_begun,
    work_shared,
)
from xferlib.testing.stand_ins import recorded
from xferlib.testing.state import (
    PATHS,
    THRESHOLDS,
    Native,
    StagingStats,
    Thresholds,
    backend_named,
    held_nbytes,
    in_flight_count,
    in_python,
    is_recording,
    lent_chunks,
    native,
    pending_count,
    settle_all,
    staging_stats,
)

__all__ = [
    "DTYPES",
    "PATHS",
    "THRESHOLDS",
    "BackendConformance",
    "Native",
    "StagingStats",
    "Thresholds",
    "advised",
    "assert_same_bits",
    "backend_named",
    "configured",
    "cores",
    "forced",
    "fresh_registry",
    "fresh_staging",
    "held_nbytes",
    "in_flight_count",
    "in_python",
    "is_recording",
    "lent_chunks",
    "native",
    "native_bits",
    "no_peers",
    "pending_count",
    "promotion",
    "recorded",
    "results_begun",
    "scribble",
    "settle_all",
    "staging_stats",
    "strategies",
    "work_shared",
]

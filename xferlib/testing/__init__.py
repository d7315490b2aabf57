"""Tools for tests: of programs, with assertions and layouts for Hypothesis; of backends, with the conformance suite.

    from xferlib.testing import assert_allclose_ulp, assert_identical

    class TestMine(xferlib.testing.BackendConformance):
        backend = "mine"

`strategies` need Hypothesis, and the suite needs pytest too (xferlib's extra ``test``); the assertions need
neither. Names are imported when they are first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xferlib._core import arrays as arrays
    from xferlib._core.dtypes import DTYPES
    from xferlib.testing import strategies
    from xferlib.testing.conformance import BackendConformance
    from xferlib.testing.tools import (
        PATHS,
        THRESHOLDS,
        Native,
        StagingStats,
        Thresholds,
        advised,
        assert_allclose_ulp,
        assert_identical,
        assert_same_bits,
        batches_read_by,
        configured,
        cores,
        forced,
        fresh_registry,
        fresh_staging,
        get_in_use_nbytes,
        in_flight_count,
        in_python,
        is_recording,
        lent_chunks,
        load_backend,
        native,
        native_bits,
        no_peers,
        pending_count,
        recorded,
        scribble,
        settle_all,
        staging_stats,
        start_results_early,
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
    "arrays",
    "assert_allclose_ulp",
    "assert_identical",
    "assert_same_bits",
    "batches_read_by",
    "configured",
    "cores",
    "dtypes",
    "forced",
    "fresh_registry",
    "fresh_staging",
    "get_in_use_nbytes",
    "in_flight_count",
    "in_python",
    "is_recording",
    "lent_chunks",
    "load_backend",
    "native",
    "native_bits",
    "no_peers",
    "pending_count",
    "recorded",
    "scribble",
    "settle_all",
    "staging_stats",
    "start_results_early",
    "strategies",
]

_MODULES = {
    "arrays": "xferlib._core.arrays",
    "dtypes": "xferlib._core.dtypes",
    "strategies": "xferlib.testing.strategies",
}
_HOMES = {"DTYPES": "xferlib._core.dtypes", "BackendConformance": "xferlib.testing.conformance"}
"""Where names are; all others are in `tools`."""


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:
        value: Any = importlib.import_module(_MODULES[name])
    elif name in __all__:
        value = getattr(importlib.import_module(_HOMES.get(name, "xferlib.testing.tools")), name)
    else:
        raise AttributeError(f"module 'xferlib.testing' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])

"""The conformance suite can fail: each deliberately wrong backend is caught by the test that should catch it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase

from xferlib.backends.base import c_strides
from xferlib.testing import BackendConformance, fresh_registry

pytestmark = pytest.mark.usefixtures("plugins")


_numbers = itertools.count()
_MOST_TRIES = 12
"""The fake draws the order of what is in flight, and threads take turns: a wait that is missing may do no harm once."""


def _tiny(**wrong: Any) -> Any:
    from xferlib_tiny import TinyArray, TinyBackend

    return _variant(TinyBackend, TinyArray, wrong)


def _fake(**wrong: Any) -> Any:
    from tests.fake import FakeArray, FakeBackend

    return _variant(FakeBackend, FakeArray, wrong)


def _variant(base: type, array: type, wrong: dict[str, Any]) -> Any:
    """A backend class that differs from ``base`` in a few methods, with an array type of its own."""
    name = f"mutant{next(_numbers)}"
    kind = type(f"Array_{name}", (array,), {"__module__": __name__})
    members = {
        **{key: value(base) for key, value in wrong.items()},
        "name": name,
        "pinned_domain": name,
        "array_class": kind,
        "array_types": (f"{__name__}.{kind.__qualname__}",),
    }
    return type(name, (base,), members)


def _drops_last_byte(base: Any) -> Any:
    return lambda self, dst, src, nbytes, *, stream: base.copy(self, dst, src, max(nbytes - 1, 0), stream=stream)


def _runs_at_once(base: Any) -> Any:
    def copy(self: Any, dst: int, src: int, nbytes: int, *, stream: Any) -> None:
        base.copy(self, dst, src, nbytes, stream=stream)
        overtaking = stream.stream.tail
        overtaking.before = ()
        self.machine.engine.force(overtaking)

    return copy


def _forgets_strides(base: Any) -> Any:
    def view(self: Any, array: Any) -> Any:
        info = base.view(self, array)
        return info._replace(strides=c_strides(info.shape, info.dtype.itemsize))

    return view


def _writes_to_a_copy(base: Any) -> Any:
    return lambda self, array: np.copy(array.data)


def _same_memory_twice(base: Any) -> Any:
    memory = np.empty(64 << 20, np.uint8)

    def empty(self: Any, shape: Any, dtype: Any, *, device: Any, stream: Any) -> Any:
        return self.array_class(np.ndarray(shape, dtype, memory))

    return empty


def _ignores_offset(base: Any) -> Any:
    return lambda self, slab, offset, shape, dtype: base.subarray(self, slab, 0, shape, dtype)


def _does_nothing(base: Any) -> Any:
    return lambda *args, **options: None


def _says_yes(base: Any) -> Any:
    return lambda *args, **options: True


def _records_on_the_default_stream(base: Any) -> Any:
    def event_record(self: Any, stream: Any, *, timing: bool, event: Any = None) -> Any:
        return base.event_record(self, self._default[stream.device], timing=timing, event=event)

    return event_record


def _shares_the_current_stream(base: Any) -> Any:
    def stream_use(self: Any, stream: Any) -> None:
        self._local = SimpleNamespace(streams={stream.device: stream})

    return stream_use


def _adopts_the_default_stream(base: Any) -> Any:
    return lambda self, handle, device, native=None: self._default[device]


def _on_the_first_device(base: Any) -> Any:
    def empty(self: Any, shape: Any, dtype: Any, *, device: Any, stream: Any) -> Any:
        return base.empty(self, shape, dtype, device=self._devices[0], stream=self._default[self._devices[0]])

    return empty


def _no_time_passes(base: Any) -> Any:
    return lambda self, start, end: 0.0


def _loses_nans(base: Any) -> Any:
    def host_view(self: Any, array: Any) -> Any:
        view = base.host_view(self, array)
        if view.dtype.kind == "f" and view.flags.writeable:
            np.copyto(view, np.where(np.isnan(view), np.array(np.nan, view.dtype), view))
        return view

    return host_view


def _forgets_host_strides(base: Any) -> Any:
    def host_view(self: Any, array: Any) -> Any:
        data = array.data
        return np.lib.stride_tricks.as_strided(data, data.shape, np.empty(data.shape, data.dtype).strides)

    return host_view


MUTANTS: dict[str, tuple[Any, str, Any, str]] = {
    "forgets the strides of a host array": (_tiny, "host_view", _forgets_host_strides, "test_out_on_the_device_may"),
    "writes to a copy": (_tiny, "host_view", _writes_to_a_copy, "test_every_layout_survives_the_round_trip"),
    "hands out the same memory twice": (_tiny, "empty", _same_memory_twice, "test_copies_between_device_arrays"),
    "ignores the offset in a slab": (_fake, "subarray", _ignores_offset, "test_a_part_of_a_slab"),
    "loses the payload of a NaN": (_tiny, "host_view", _loses_nans, "test_every_layout_survives_the_round_trip"),
    "drops the last byte": (_fake, "copy", _drops_last_byte, "test_every_layout_survives_the_round_trip"),
    "runs copies at once": (_fake, "copy", _runs_at_once, "test_random_programs"),
    "forgets the strides of a device array": (_fake, "view", _forgets_strides, "test_a_device_array_of_any_strides"),
    "does not wait for events": (_fake, "event_wait", _does_nothing, "test_random_programs"),
    "calls every event done": (_fake, "event_done", _says_yes, "test_a_pinned_source_may_be_dropped"),
    "does not synchronise with events": (_fake, "event_synchronize", _does_nothing, "test_a_download_is_complete"),
    "does not synchronise streams": (_fake, "stream_synchronize", _does_nothing, "test_every_layout_survives_the_r"),
    "calls every stream idle": (_fake, "stream_done", _says_yes, "test_a_stream_is_done_no_sooner"),
    "records events on another stream": (_fake, "event_record", _records_on_the_default_stream, "test_random_prog"),
    "has no current stream": (_fake, "stream_use", _does_nothing, "test_with_makes_a_stream_current"),
    "shares the current stream": (_fake, "stream_use", _shares_the_current_stream, "test_the_current_stream_is_each"),
    "adopts the wrong stream": (_fake, "stream_wrap", _adopts_the_default_stream, "test_streams_are_adopted"),
    "never frees pinned pages": (_fake, "pinned_unregister", _does_nothing, "test_pin_may_be_entered_again"),
    "does not pin": (_fake, "pinned_register", _does_nothing, "test_pin_makes_ordinary_memory_pinned"),
    "uses one device for all": (_fake, "empty", _on_the_first_device, "test_every_device_of_the_backend"),
    "cannot change devices": (_fake, "device_use", _does_nothing, "test_every_device_of_the_backend"),
    "lets nobody wait for a prefetched copy": (_fake, "event_wait", _does_nothing, "test_prefetched_batches_are_ord"),
    "calls gates passed": (_fake, "event_synchronize", _does_nothing, "test_a_source_may_fill_the_same_memory"),
    "measures no time": (_fake, "event_elapsed_ms", _no_time_passes, "test_elapsed_ms"),
}


def _cases(suite: Any, name: str) -> Any:
    """The bound tests of a suite whose names start so, their parameters filled in."""
    for attribute in dir(suite):
        if attribute.startswith(name):
            bound = [()]
            for mark in getattr(getattr(suite, attribute), "pytestmark", []):
                if mark.name == "parametrize":
                    argument, values = mark.args[0], mark.args[1]
                    bound = [(*pairs, (argument, value)) for pairs in bound for value in values]
            for pairs in bound:
                yield getattr(suite, attribute), dict(pairs)


@pytest.fixture
def suite_of() -> Iterator[Any]:
    """Makes the suite for a backend class, which it registers."""

    registered = ExitStack()

    def build(made: Any) -> Any:
        registered.enter_context(fresh_registry(**{made.name: made}))
        members = {"backend": made.name, "max_examples": 30, "negative_steps": True, "phases": (Phase.generate,)}
        return type("Suite", (BackendConformance,), members)()

    with registered:
        yield build


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_suite_catches(mutant: str, suite_of: Any) -> None:
    make, method, wrong, name = MUTANTS[mutant]
    suite = suite_of(make(**{method: wrong}))
    cases = itertools.chain.from_iterable(_cases(suite, name) for _ in range(_MOST_TRIES))
    assert any(_fails(case, options) for case, options in cases), f"{mutant!r} passes {name}"


@pytest.mark.parametrize("make", [_tiny, _fake])
def test_a_variant_with_nothing_wrong_passes_what_catches_the_mutants(make: Any, suite_of: Any) -> None:
    suite = suite_of(make())
    names = {name for maker, _, _, name in MUTANTS.values() if maker is make}
    cases = [case for name in sorted(names) for case in _cases(suite, name)]
    assert len(cases) >= len(names) > 0
    for case, options in cases:
        case(**options)


def _fails(case: Any, options: dict[str, Any]) -> bool:
    try:
        case(**options)
    except pytest.skip.Exception:
        return False
    except Exception:  # a wrong backend may break in any way; what counts is that the suite notices
        return True
    return False

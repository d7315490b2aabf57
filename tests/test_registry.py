"""Backends that cannot run, in every way that a library, a driver or a plug-in may fail: the reason, nothing else."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest

import xferlib as xl
from tests.processes import TORCH, printed
from xferlib._core import registry
from xferlib.backends.base import WHY_HOST, ArrayInfo, Capabilities, HostBackend
from xferlib.errors import BackendUnavailableError, UnsupportedArrayError
from xferlib.testing import configured, fresh_registry
from xferlib.testing.tools import replace_attribute

X = np.arange(3.0)
LIBRARIES = ("cupy", "torch", "pycuda")


class _Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class _LibrarysOwn(Exception):
    """As PyCUDA's errors, which are none of Python's."""


ERRORS: list[BaseException] = [
    ImportError("libcudart.so.13: cannot open shared object file"), ModuleNotFoundError("No module named 'cuda'"),
    OSError("libtorch_cuda.so: undefined symbol"), RuntimeError("cuInit failed: no CUDA-capable device is detected"),
    _LibrarysOwn("cuInit failed"), SystemError("initialization failed"), AttributeError("has no attribute 'ndarray'"),
    TypeError("takes no arguments"), AssertionError(), KeyError("sm_90"), MemoryError(), RecursionError(),
    UserWarning("the NVIDIA driver is too old"), SystemExit(3), SystemExit("cannot run"), GeneratorExit(),
    _Unreadable(), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    BackendUnavailableError("sees no CUDA device"), StopIteration(), EOFError(), BaseException("of its own"),
]  # fmt: skip


@pytest.fixture
def fresh() -> Iterator[None]:
    """None of the libraries has been met yet, and a CUDA driver says that there are devices."""
    others = {name: made for name, made in registry._loaded.items() if name not in LIBRARIES}
    replacements: list[tuple[Any, str, Any]] = [
        (registry, "_loaded", others), (registry, "_failed", {}), (registry, "_automatic", None),
        (registry, "cuda_driver_present", lambda: True),
    ]  # fmt: skip
    with ExitStack() as stack:
        for owner, name, value in replacements:
            stack.enter_context(replace_attribute(owner, name, value))
        stack.enter_context(configured({}))
        stack.enter_context(replace_attribute(registry, "_process_choices", ()))
        with fresh_registry(nothing=_raises(ImportError("absent"))):
            yield
    registry.forget_types(lambda _: True)


def _raises(error: BaseException) -> Callable[..., NoReturn]:
    def fail(*_: Any, **__: Any) -> NoReturn:
        raise error

    return fail


class _FailingFinder:
    """Raises where a module of some name is imported."""

    def __init__(self, names: tuple[str, ...], error: BaseException) -> None:
        self.names = names
        self.error = error

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name in self.names:
            raise self.error


@pytest.mark.parametrize("where", ["library", "backend"])
def test_a_library_that_fails_in_any_way_is_unavailable_and_the_next_one_is_taken(
    where: str, fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"Cupy": "cupy", "Torch": "torch", "Pycuda": "pycuda"}
    for error in ERRORS:
        assert not {*registry._loaded} & {*LIBRARIES}
        registry._failed.clear()
        with monkeypatch.context() as patch, replace_attribute(registry, "_automatic", None):
            for kind, name in names.items():
                patch.delitem(sys.modules, name, raising=False)
                for module in [each for each in sys.modules if f"{each}.".startswith(f"xferlib.backends.{name}.")]:
                    patch.delitem(sys.modules, module)
                if where == "backend":
                    stand_in: Any = ModuleType(f"xferlib.backends.{name}")
                    setattr(stand_in, f"{kind}Backend", _raises(error))
                    patch.setitem(sys.modules, stand_in.__name__, stand_in)
            patch.setattr(sys, "meta_path", [_FailingFinder(LIBRARIES, error), *sys.meta_path])
            found = xl.available_backends()
            for name in LIBRARIES:
                assert not found[name].is_available
                assert found[name].reason.strip(), error
                assert str(found[name]).startswith("unavailable: ")
                for _ in range(2):
                    with pytest.raises(BackendUnavailableError, match=f"'{name}' cannot run here: .*install it with"):
                        xl.to_device(X, backend=name)
                    with pytest.raises(BackendUnavailableError), xl.use_backend(name):
                        pass
                said = pytest.raises(BackendUnavailableError, match="XFERLIB_BACKEND")
                with configured({"XFERLIB_BACKEND": name}), said:
                    xl.zeros(2)
            assert xl.get_backend().name == "numpy"
            assert type(xl.to_device(X)) is np.ndarray
            assert xl.get_array_module(X).__name__ == "numpy"
    assert "BaseException: of its own" in found["cupy"].reason


def test_an_interrupt_of_the_user_is_none_of_the_librarys_failures(fresh: None) -> None:
    with fresh_registry(slow=_raises(KeyboardInterrupt())), pytest.raises(KeyboardInterrupt):
        xl.available_backends()


_HIDDEN = """
import numpy as np
import xferlib as xl

found = xl.available_backends()
assert not [each for status in found.values() for each in status.devices if "cuda" in each], found
assert all(status.is_available or status.reason for status in found.values()), found
assert xl.get_backend().name == "numpy"
assert (xl.to_host(xl.to_device(np.arange(3))) == [0, 1, 2]).all()
for name in ("cupy", "pycuda"):
    try:
        xl.to_device(np.arange(3), backend=name)
    except xl.errors.BackendUnavailableError:
        pass
    else:
        raise AssertionError(name)
"""


@pytest.mark.skipif(not registry.cuda_driver_present(), reason="without a driver every test runs so")
@pytest.mark.parametrize("visible", ["", "-1"])
def test_a_machine_whose_gpus_are_hidden_is_one_without(visible: str) -> None:
    printed("-c", _HIDDEN, after=TORCH, CUDA_VISIBLE_DEVICES=visible, XFERLIB_BACKEND="", XFERLIB_DEVICE="")


# --- plug-ins


class _Array:
    def __init__(self, data: Any) -> None:
        self.data = data


def _backend(own_name: str, /, **members: Any) -> Any:
    """A backend that works, but for the members given; one that is None is left out."""
    whole = {
        "name": own_name, "array_types": (f"{__name__}._Array",),
        "capabilities": Capabilities(why={**WHY_HOST, "namespace": "none", "strided": "none"}),
        "empty": lambda self, shape, dtype, *, device, stream: _Array(np.empty(shape, dtype)),
        "view": lambda self, array: ArrayInfo(
            array.data.ctypes.data, array.data.shape, array.data.strides, array.data.dtype, self.device, True
        ),
        "host_view": lambda self, array: array.data,
    }  # fmt: skip
    return type("Plugged", (HostBackend,), {k: v for k, v in {**whole, **members}.items() if v is not None})


def _broken(name: str) -> Iterator[Any]:
    """Objects that entry points give, each of which is wrong in some way."""
    for error in ERRORS:
        yield _raises(error)
        yield _backend(name, __init__=_raises(error))
        yield _backend(name, devices=_raises(error))
    yield from (lambda: None, lambda: object(), lambda: HostBackend, lambda: np)
    yield from (None, 3, "text", ModuleType("module"), _backend(name)())
    yield from (_backend(name, **{each: None}) for each in ("name", "array_types", "capabilities", "empty", "view"))
    yield from (_backend(name, name=each) for each in ("another", "numpy", 3, ""))
    yield from (_backend(name, array_types=each) for each in ("a.B", [3], (3,), 3))
    yield _backend(name, capabilities={"streams": True})
    yield _backend(name, capabilities=Capabilities)
    found: Any
    for found in ((), 3, ("cpu",), (xl.Device("cpu"),)):
        yield _backend(name, devices=lambda self, found=found: found)
    for found in (iter((xl.Device("cpu"),)), [SimpleNamespace(backend=name)], [None]):
        yield _backend(name, devices=lambda self, found=found: found)
    for member in ("device_current", "at"):
        yield from (_backend(name, **{member: _raises(error)}) for error in ERRORS[:3])
        yield from (_backend(name, **{member: lambda *_, found=found: found}) for found in (None, xl.Device("cpu")))
    yield _backend(name, survives_fork=property(_raises(RuntimeError("lost"))))
    yield _backend(name, array_types=("a.B", "builtins.object"))
    yield _backend(name, pinned_domain=3)
    yield lambda needs_an_argument: None
    yield from (lambda ask=ask: ask(name) for ask in (xl.use_backend, lambda name: xl.to_device(X, backend=name)))


def test_a_plug_in_may_list_the_backends_while_it_is_loaded() -> None:
    seen = []

    def make() -> Any:
        seen.append(xl.available_backends())
        xl.to_device(X, backend="numpy")
        return _backend("asking")()

    with fresh_registry(asking=make), replace_attribute(registry, "_loaded", dict(registry._loaded)):
        assert xl.available_backends()["asking"].is_available
        assert "is being loaded" in seen[0]["asking"].reason
        assert seen[0]["numpy"].is_available
        assert len(seen) == 1


def test_a_plug_in_that_is_lost_later_keeps_no_other_from_being_closed() -> None:
    calls = iter(range(3))
    lost = _backend("lost", devices=lambda self: (self.device,) if next(calls) == 0 else _raises(OSError("lost"))())
    with fresh_registry(lost=lost), replace_attribute(registry, "_loaded", dict(registry._loaded)):
        backend = registry.get("lost")
        assert not xl.available_backends()["lost"].is_available
        assert {backend, registry.get("numpy")} <= set(registry._parts())


def test_a_broken_plug_in_is_unavailable_for_its_own_reason_and_disturbs_nothing() -> None:
    stranger = type("Stranger", (), {"__module__": __name__})
    for number, _ in enumerate(_broken("")):
        name = f"broken{number}"
        made = list(_broken(name))[number]
        point = SimpleNamespace(load=lambda made=made: made, module=__name__)  # near to every class of this module
        with fresh_registry(), replace_attribute(registry, "_plugins", {name: point}):
            registry.forget_types(lambda _: True)
            _undisturbed(name, stranger())


def test_an_entry_point_that_cannot_be_read_disturbs_nothing() -> None:
    for number, error in enumerate(ERRORS):
        unreadable = {"module": _raises(AttributeError("no module")), "dist": _raises(ValueError("no metadata"))}
        members = {"load": staticmethod(_raises(error)), **{name: property(get) for name, get in unreadable.items()}}
        name = f"unreadable_{number}"
        with fresh_registry(), replace_attribute(registry, "_plugins", {name: type("Point", (), members)()}):
            registry.forget_types(lambda _: True)
            _undisturbed(name, type("Stranger", (), {"__module__": __name__})())


def _undisturbed(name: str, stranger: Any) -> None:
    for _ in range(2):  # the second time from what is kept of the first
        found = xl.available_backends()
        assert not found[name].is_available
        assert found[name].reason.strip()
        assert found[name].install
        assert found["numpy"].is_available
        assert found["sim"].is_available
        with pytest.raises(BackendUnavailableError, match=f"backend '{name}' cannot run here: "):
            xl.to_device(X, backend=name)
        with pytest.raises(UnsupportedArrayError):
            xl.get_array_module(stranger)
        assert xl.tree.to_device({"x": X, "stranger": stranger})["stranger"] is stranger
        assert xl.get_array_module(X).__name__ == "numpy"
        with xl.Device("sim:sim:1"):
            assert xl.device_of(xl.to_device(X)) is xl.Device("sim:sim:1")


def test_metadata_that_cannot_be_read_hides_no_other_plug_in(monkeypatch: pytest.MonkeyPatch) -> None:
    point = SimpleNamespace(name="readable", load=lambda: _backend("readable"), module="elsewhere")
    chosen = SimpleNamespace(select=lambda **_: [point])
    unreadable = type("Unreadable", (), {"entry_points": property(_raises(TypeError("missing argument: 'value'")))})()
    distributions = [unreadable, SimpleNamespace(entry_points=chosen)]
    monkeypatch.setattr(importlib.metadata, "entry_points", _raises(TypeError("missing argument: 'value'")))
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: distributions)
    with fresh_registry():
        assert xl.available_backends()["readable"].is_available
        assert isinstance(xl.to_device(X, backend="readable"), _Array)

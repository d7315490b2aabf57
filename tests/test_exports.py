"""The public names: pinned, complete, sorted, and each documented."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import xferlib as xl
from xferlib import errors, testing

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"

PROMISED = {
    "BackendStatus", "Device", "Event", "PinnedPool", "PinnedStats", "Stream", "Transfer", "TransferStats",
    "available_backends", "configure", "current_stream", "device_of", "empty", "empty_like", "errors", "full",
    "full_like", "get_array_module", "get_backend", "get_device", "ones", "ones_like", "pin", "pinned_array",
    "pinned_empty", "pinned_empty_like", "pinned_pool", "pinned_zeros", "synchronize", "to_device",
    "to_device_async", "to_host", "to_host_async", "trim", "use_backend", "zeros", "zeros_like",
    "common", "asarray", "arange", "linspace", "eye", "concat",
    "elementwise", "reduction", "raw_module", "tree", "explain", "sim", "prefetch", "stream_map",
}  # fmt: skip
"""Names that programs use already: more may come, none of these may go."""

documented = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the documentation is not beside the tests")


def test_promised_names_are_exported_sorted_and_once() -> None:
    assert set(xl.__all__) >= PROMISED
    assert all(hasattr(xl, name) for name in xl.__all__)
    assert list(xl.__all__) == sorted(set(xl.__all__))


@pytest.mark.parametrize("module", [xl, xl.sim, xl.random, xl.tree, xl.distributed, testing])
def test_every_public_function_and_method_has_a_signature_and_a_text_for_help(module: ModuleType) -> None:
    found = {name: getattr(module, name) for name in module.__all__}
    classes = [each for each in found.values() if inspect.isclass(each) and not issubclass(each, BaseException)]
    for owner in classes:
        if owner is not xl.ArrayModule:  # a list of the namespaces' functions, which have texts of their own
            methods = vars(owner).items()
            found |= {f"{owner.__name__}.{name}": each for name, each in methods if name[0] != "_" and callable(each)}
    for name, each in found.items():
        if callable(each) and not (inspect.isclass(each) and issubclass(each, BaseException)):
            assert inspect.signature(each) is not None, name
            assert (each.__doc__ or "").strip(), name


def test_nothing_public_is_missing_from_the_list() -> None:
    public = {
        name for name, value in vars(xl).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public - {"Any", "TYPE_CHECKING"} <= set(xl.__all__)  # what the lazy imports are declared with


@documented
def test_every_export_has_its_section_in_the_reference() -> None:
    sections = set(re.findall(r"^#+ `([\w.]+)`", (REFERENCE / "api.md").read_text(encoding="utf-8"), re.MULTILINE))
    linked = set(re.findall(r"`(?:xl\.|xferlib\.)?(\w+)`", (REFERENCE / "api.md").read_text(encoding="utf-8")))
    missing = {name for name in xl.__all__ if name not in sections and not isinstance(getattr(xl, name), ModuleType)}
    assert not missing, f"no section in docs/reference/api.md: {sorted(missing)}; run tools/make_reference.py"
    assert {"to_device"} <= sections & linked


@documented
def test_every_error_is_in_its_reference_and_in_the_tree_that_it_opens_with_and_inherits_a_builtin() -> None:
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    defined = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert "XferError" in defined
    families = (ValueError, TypeError, RuntimeError, MemoryError, ImportError, NotImplementedError, UserWarning)
    groups = {"XferError", "BackendError", "DeviceError", "ArrayError", "KernelError"}
    for name in defined:
        assert f"`{name}`" in page
        assert re.search(rf"\b{name}\b", errors.__doc__ or "")
        assert issubclass(getattr(errors, name), (errors.XferError, errors.XferWarning))
        assert name in groups or issubclass(getattr(errors, name), families), name  # builtins that callers catch

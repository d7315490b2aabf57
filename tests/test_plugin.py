"""Backends of third parties, found by their entry points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xferlib as xl
from tests.processes import path_with, printed
from xferlib.errors import BackendNotFoundError, BackendUnavailableError, ConfigError
from xferlib.testing import assert_same_bits, configured

pytestmark = pytest.mark.usefixtures("plugins")


def test_entry_points_are_listed_with_their_devices_or_the_reason_against() -> None:
    found = xl.available_backends()
    assert found["tiny"].devices == ("tiny:cpu",)
    assert str(found["tiny"]) == "available on tiny:cpu"
    assert not found["broken"].is_available
    assert "not plugged in" in found["broken"].reason
    assert found["broken"].install == "pip install xferlib-test-plugins"
    with pytest.raises(BackendUnavailableError, match="not plugged in; install it with pip install xferlib-"):
        xl.to_device(np.zeros(2), backend="broken")


def test_a_plug_ins_arrays_are_recognised_by_type_and_its_devices_by_name() -> None:
    d = xl.to_device(np.arange(3), backend="tiny")
    assert type(d).__name__ == "TinyArray"
    assert xl.get_backend(d).name == "tiny"
    assert xl.device_of(d) is xl.Device("tiny:cpu")
    assert_same_bits(xl.to_host(d), np.arange(3))
    with xl.use_backend("tiny"):
        assert type(xl.zeros(3)) is type(d)


def test_an_installed_plug_in_serves_as_the_default_of_a_fresh_process(plugins: Path) -> None:
    script = "import xferlib as xl; x = xl.ones(3); print(type(x).__name__, xl.device_of(x), xl.to_host(x).sum())"
    found = printed("-c", script, PYTHONPATH=path_with(plugins), XFERLIB_BACKEND="tiny")
    assert found.strip() == "TinyArray tiny:cpu 3.0"


@pytest.mark.parametrize("name", ["xferlib_tiny", "os", "xferlib_tiny:TinyBackend"])
def test_an_environment_variable_selects_names_and_never_imports_modules(name: str) -> None:
    with pytest.raises((BackendNotFoundError, ConfigError)) as raised, configured({"XFERLIB_BACKEND": name}):
        xl.zeros(2)
    assert "XFERLIB_BACKEND" in str(raised.value) or "no backend" in str(raised.value)

"""Configuration: read once, checked as a whole, changed by name."""

from __future__ import annotations

import os
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.errors import ConfigError, XferWarning
from xferlib.testing import configured, load_backend


def test_sizes_are_read_in_powers_of_1024() -> None:
    for text, nbytes in (
        ("0", 0), ("4096", 4096), ("1k", 1024), ("256MiB", 256 << 20), ("1.5 GiB", 3 << 29), ("2tb", 2 << 40),
        (" 8 m ", 8 << 20),
    ):  # fmt: skip
        with configured(host_cache=text) as given:
            assert given.host_cache == nbytes
    for text in ("", "lots", "-1", "1e9", "1 XiB", "1..5k", "MiB"):
        with pytest.raises(ConfigError, match="256MiB"), configured(host_cache=text):
            pass


def test_an_empty_environment_gives_the_defaults() -> None:
    for environ in ({}, {"XFERLIB_THREADS": "", "XFERLIB_DEVICE": "  "}):
        with configured(environ) as given:
            assert {each.name: getattr(given, each.name) for each in fields(given)} == {
                each.name: each.default for each in fields(given)
            }


GIVEN: dict[str, tuple[str, Any]] = {
    "XFERLIB_BACKEND": ("torch", "torch"),
    "XFERLIB_DEVICE": ("torch:cuda:1", "torch:cuda:1"),
    "XFERLIB_PINNED_LIMIT": ("1GiB", 1 << 30),
    "XFERLIB_HOST_CACHE": ("2MiB", 2 << 20),
    "XFERLIB_THREADS": ("3", 3),
    "XFERLIB_CPU": ("numpy", "numpy"),
    "XFERLIB_LOOP_TURNS": ("4096", 4096),
    "XFERLIB_KERNEL_CHECK": ("1", "1"),
    "XFERLIB_KERNEL_SCHEDULE": ("random", "random"),
    "XFERLIB_KERNEL_ARCH": ("compute_80", "compute_80"),
    "XFERLIB_KERNEL_OVERFLOW": ("1", "1"),
    "XFERLIB_NATIVE": ("off", "off"),
    "XFERLIB_STRICT": ("pageable", frozenset({"pageable"})),
    "XFERLIB_TORCH_FLOAT": ("torch", "torch"),
    "XFERLIB_TORCH_OPERATORS": ("numpy", "numpy"),
    "XFERLIB_SIM": ("log", "log"),
    "XFERLIB_SIM_IMPLICIT": ("log", "log"),
    "XFERLIB_SIM_STRICT": ("1", "1"),
    "XFERLIB_SIM_DEVICES": ("5", 5),
    "XFERLIB_SIM_MEMORY": ("1MiB", 1 << 20),
    "XFERLIB_SIM_SCHEDULE": ("lifo", "lifo"),
    "XFERLIB_SIM_SEED": ("7", 7),
    "XFERLIB_SIM_PROFILE": ("laptop", "laptop"),
    "XFERLIB_CACHE_DIR": ("/somewhere", "/somewhere"),
}


def test_every_setting_has_a_variable_that_reaches_it() -> None:
    texts = {variable: text for variable, (text, _) in GIVEN.items()}
    with configured({**texts, "HOME": "/", "XFERLIBRARY": "1"}) as read:
        pass
    found = {setting.metadata["variable"]: getattr(read, setting.name) for setting in fields(read)}
    assert found == {variable: value for variable, (_, value) in GIVEN.items()}
    assert all(setting.metadata["doc"] for setting in fields(read))


def test_a_value_that_cannot_be_used_is_an_error_that_names_it() -> None:
    for variable, text in (
        ("XFERLIB_BACKEND", "os;rm"), ("XFERLIB_THREADS", "many"), ("XFERLIB_THREADS", "0"), ("XFERLIB_THREADS", "257"),
        ("XFERLIB_STRICT", "everything"), ("XFERLIB_SIM_SCHEDULE", "eagre"), ("XFERLIB_HOST_CACHE", "-1"),
    ):  # fmt: skip
        said = f"{variable}='{text}': .*unset {variable}"
        with pytest.raises(ConfigError, match=said), configured({variable: text}):
            pass


PROGRAM = "import xferlib as xl\n\nfor _ in range(2):\n    xl.get_backend()\n"


@pytest.mark.parametrize(
    ("environ", "warned"),
    [
        ({"XFER_BACKEND": "sim"}, ["XFER_BACKEND"]),
        ({"xferlib_backend": "sim", "XFRLIB_DEVICES": "cpu"}, ["xferlib_backend", "XFRLIB_DEVICES"]),
        ({"XFER_BACKEND": "sim", "XFERLIB_BACKEND": "numpy"}, []),
        ({"XFCE_BACKEND": "x", "XFER_DEBUG": "1", "XDG_DEVICE": "1"}, []),
    ],
)
def test_a_name_with_another_beginning_draws_one_warning(
    environ: dict[str, str], warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {name: value for name, value in os.environ.items() if not name.startswith("XFERLIB_")}
    with configured(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        monkeypatch.setattr(os, "environ", {**others, **environ})
        monkeypatch.setattr("xferlib._runtime.process._config", None)  # as at the first look
        exec(compile(PROGRAM, "program.py", "exec"), {})
    found = [each for each in told if issubclass(each.category, XferWarning)]
    assert {(each.filename, each.lineno) for each in found} <= {("program.py", 4)}
    assert sorted(str(each.message).split()[0] for each in found) == sorted(warned)
    said = r"did you mean (XFERLIB_\w+)\?\); rename or unset \w+, or set \1$"
    assert all(re.search(said, str(each.message)) for each in found)


def test_configure_takes_what_the_environment_would_and_refuses_the_rest_unchanged() -> None:
    before = xl.configure(pinned_limit="1GiB", strict="pageable", threads="2")
    try:
        now = xl.configure()
        assert (now.pinned_limit, now.strict, now.threads) == (1 << 30, frozenset({"pageable"}), 2)
        wrong = ("threads", -1), ("threads", "many"), ("pinned_limit", -5), ("strict", 7), ("backend", "a b")
        for name, value in wrong:
            with pytest.raises(ConfigError, match=f"configure\\({name}={value!r}\\): expected"):
                xl.configure(host_cache=1, **{name: value})
        assert xl.configure() == now
    finally:
        xl.configure(**{name: getattr(before, name) for name in ("pinned_limit", "strict", "threads")})
    assert xl.configure() == before


def test_the_limit_of_pinned_memory_holds_for_the_pool() -> None:
    with configured(pinned_limit=1 << 20):
        pool = xl.PinnedPool(load_backend("numpy"), when_full="raise")
        kept = pool.empty((900_000,), np.dtype(np.uint8))
        with pytest.raises(xl.errors.PinnedMemoryError, match="XFERLIB_PINNED_LIMIT"):
            pool.empty((900_000,), np.dtype(np.uint8))
        del kept


def test_a_device_that_the_program_sets_behind_the_first_use_holds_in_each_thread() -> None:
    def current() -> list[xl.Device]:
        with ThreadPoolExecutor(1) as new_thread:
            threads = [each.submit(xl.get_device).result() for each in (again, new_thread)]
            return [xl.get_device(), xl.device_of(xl.zeros(2)), xl.current_stream().device, *threads]

    with configured({}), ThreadPoolExecutor(1) as again:
        for name in ("sim:sim:1", "sim:sim:0", "sim:1", "sim:0", "numpy:cpu", "sim:sim:1"):
            xl.configure(device=name)
            assert set(current()) == {xl.get_device(name)}
        with xl.Device("sim:sim:0"):
            xl.configure(device="sim:sim:0")
            xl.configure(device="sim:sim:1")
            assert xl.get_device() is xl.Device("sim:sim:0")
        sim = load_backend("sim")
        sim.device_use(sim.devices()[0])

"""The table of other libraries' names: it names what exists, here and there, and the page shows it."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType
from typing import Any

import pytest

import xferlib as xl
from tools import peer_names

SECTIONS = peer_names.sections()
EXACT = {"cupy", "torch"}
"""Libraries whose names are the same in all versions that xferlib takes."""
NARROWED = {
    "torch.cuda": ("stream", "event", "device", "synchronize"),
    "cupy": ("asnumpy", "asarray", "asanyarray", "contiguousarray", "fortranarray", "dlpack", "array_module", "save",
             "load"),
    "cupyx": ("pinned",),
}  # fmt: skip
"""Modules of which the table has only the names with one of these words: the others are not about transfers."""
ELSEWHERE = {"get_device_name", "get_device_properties", "get_device_capability", "can_device_access_peer", "_device",
             "device_of", "device_memory_used", "cudart", "DeferredCudaCallError", "current_device", "get_arch_list",
             "record_event", "host_memory_stats", "get_per_process_memory_fraction"}  # fmt: skip


def _there(path: str) -> Any:
    """The module or class of another library; a skip where it is not installed."""
    package, *rest = path.split(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found: Any = importlib.import_module(package)
            for number, name in enumerate(rest, 2):
                if not hasattr(found, name):
                    importlib.import_module(".".join([package, *rest][:number]))
                found = getattr(found, name)
        except Exception as error:  # a library that finds no driver may raise anything
            pytest.skip(f"{package}: {error}")
    return found


def _names(path: str) -> set[str]:
    """The public names of a library that are its own: not modules, nor constants, nor what it imports from others."""
    there = _there(path)
    package = path.partition(".")[0]
    if not isinstance(there, ModuleType):
        return {name for name in vars(there) if not name.startswith("_")}
    found = set()
    for name in dir(there):
        value = getattr(there, name)
        is_own = (getattr(value, "__module__", None) or "").partition(".")[0] in (package, f"{package}_backends")
        if not name.startswith("_") and not isinstance(value, ModuleType) and is_own and callable(value):
            found.add(name)
    if (words := NARROWED.get(path)) is not None:
        found = {name for name in found if any(word in name.lower() for word in words)}
    return found


def resolve(name: str) -> Any:
    """An object of xferlib by its name."""
    first, *rest = name.split(".")
    assert first == "xl", name
    found: Any = xl
    for each in rest:
        if isinstance(found, ModuleType) and not hasattr(found, each) and hasattr(found, "__path__"):
            importlib.import_module(f"{found.__name__}.{each}")
        found = getattr(found, each)
    return found


@pytest.mark.parametrize("section", SECTIONS)
def test_every_answer_names_what_xferlib_has_or_says_why_not(section: str) -> None:
    for answer in SECTIONS[section]:
        assert answer.names
        assert answer.ours or answer.note, answer.names
        for name in answer.ours:
            resolve(name)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_name_of_the_library_has_its_answer(section: str) -> None:
    missing = {name for name in _names(section) if not any(answer.covers(name) for answer in SECTIONS[section])}
    missing -= ELSEWHERE if section in NARROWED else set()
    assert not missing, f"tools/peer_names.txt has no answer for {section}: {sorted(missing)}"


@pytest.mark.parametrize("section", [name for name in SECTIONS if name.partition(".")[0] in EXACT])
def test_every_answer_is_for_a_name_that_the_library_has(section: str) -> None:
    there = _there(section)
    gone = [
        name for answer in SECTIONS[section] for name in answer.names if "*" not in name and not hasattr(there, name)
    ]
    assert not gone, f"{section} has no {', '.join(gone)}"


def test_a_name_is_answered_once() -> None:
    for section, answers in SECTIONS.items():
        names = [name for answer in answers for name in answer.names]
        assert len(names) == len(set(names)), section


def test_a_missing_answer_is_found() -> None:
    (answer,) = peer_names.sections("[a.b]\none, two_* | xl.empty, xl.zeros | a note\n")["a.b"]
    assert (answer.ours, answer.note) == (("xl.empty", "xl.zeros"), "a note")
    assert [answer.covers(name) for name in ("one", "two_three", "three")] == [True, True, False]
    with pytest.raises(AttributeError):
        resolve("xl.Stream.nothing_of_that_name")

"""Puts the site's sections in reading order; pages within them are found by themselves."""

from __future__ import annotations

from typing import Any

SECTIONS = ("tutorial", "how to", "explanation", "reference", "benchmarks", "studies")
TITLES = {"How to": "How-to"}


def on_nav(nav: Any, **_: Any) -> Any:
    """Sort the top level: the home page, then the sections as listed, then anything else."""
    nav.items.sort(key=lambda item: _rank(item.title or ""))
    for item in nav.items:
        if item.title in TITLES:
            item.title = TITLES[item.title]
    return nav


def _rank(title: str) -> int:
    lowered = title.lower()
    return SECTIONS.index(lowered) if lowered in SECTIONS else len(SECTIONS) if title and lowered != "xferlib" else -1

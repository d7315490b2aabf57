"""The float32 functions of native kernels: C source, correctly rounded, with no call of a library.

The C library's functions would be shorter: but their bits differ between libraries and CPUs, and compilers vectorise
none of them without a second library. The text is in ``native_functions.c``: a function's *fast* form takes operations
and selections alone and says where it is not certain of the rounding; the caller then repeats that element with the
*slow* form. float16 and bfloat16 have no functions of their own: theirs are those of float32, rounded once more
(`xferlib.kernels.formulas.call`).

A compiler must not contract (``-ffp-contract=off``): the slow forms add exactly what a rounding has lost. Where the
machine multiplies and adds in one instruction the text says so itself, and the correctly rounded result is the same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from xferlib.kernels.functions import CALLS

NAMES = (*CALLS, "power", "arctan2", "fmod")
"""The functions that have C text, of float32."""
BINARY = frozenset({"power", "arctan2", "fmod"})


Sections = dict[str, tuple[tuple[str, ...], str]]
"""The needs of each section of a text, and its own text, in an order that compiles."""


def read_sections(path: Path) -> Sections:
    """The sections of a text: each begins with a line ``//: its name: the sections that it needs``."""
    found = {}
    for part in path.read_text(encoding="utf-8").split("//: ")[1:]:
        head, _, body = part.partition("\n")
        name, _, needs = head.partition(":")
        found[name] = (tuple(needs.split()), body)
    return found


def collect_sections(sections: Sections, names: Iterable[str]) -> list[str]:
    """The names of the given sections and of all that they need, in an order that compiles."""
    waiting = list(names)
    wanted: set[str] = set()
    while waiting:
        each = waiting.pop()
        if each not in wanted:
            wanted.add(each)
            waiting += sections[each][0]
    return [each for each in sections if each in wanted]


@functools.cache
def _sections() -> Sections:
    return read_sections(Path(__file__).with_name("native_functions.c"))


def text(names: Iterable[str]) -> str:
    """C11 source of functions: no ``#include``, static functions alone, each once.

    Each function defines ``static inline float xf_NAME_f32(float x, int *flag)`` and ``static float
    xf_NAME_f32_slow(float x)``; those of two operands take ``float x, float y``. The fast form gives the correctly
    rounded result, or sets the flag's lowest bit and gives any value; the slow form is always right.

    The names are those of a ``call`` of the representation.
    """
    sections = _sections()
    return "".join(sections[each][1] for each in collect_sections(sections, names))

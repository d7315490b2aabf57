"""The pieces of device code that a module is linked with: further sources, and files of compiled code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from xferlib.errors import ArgumentError, shown

SOURCE = "source"
_KINDS = {
    ".cubin": "CUBIN", ".ptx": "PTX", ".fatbin": "FATBIN", ".o": "OBJECT", ".obj": "OBJECT", ".a": "LIBRARY",
    ".lib": "LIBRARY", ".ltoir": "LTOIR",
}  # fmt: skip
"""nvJitLink's names of what a file holds, by the file's ending."""
SOURCES = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h"})
"""The endings of files of source."""


class Piece(NamedTuple):
    """Device code that a module is linked with."""

    name: str
    kind: str
    """`SOURCE`, or a name of nvJitLink's."""
    content: str | bytes

    def bytes(self) -> bytes:
        return self.content.encode() if isinstance(self.content, str) else self.content


def is_relocatable(option: str) -> bool:
    """Whether an option makes the compiler leave calls between pieces to a linker."""
    return option.replace(" ", "") in ("--device-c", "-dc", "--relocatable-device-code=true", "-rdc=true")


def read(given: Any) -> tuple[Piece, ...]:
    """The pieces that a module is linked with; files are read now."""
    if not isinstance(given, (list, tuple)):
        raise ArgumentError(
            f"raw_module: link={shown(given)} is no list; give link=(source, pathlib.Path('part.cubin'))"
        )
    found = []
    for number, each in enumerate(given):
        if isinstance(each, str) and "\0" not in each:
            found.append(Piece(f"link[{number}]", SOURCE, each))
            continue
        suffix = Path(each).suffix.lower() if isinstance(each, os.PathLike) else ""
        kind = SOURCE if suffix in SOURCES else _KINDS.get(suffix)
        if kind is None:
            raise ArgumentError(
                f"raw_module: link[{number}]={shown(each)} is neither source nor the path of device code; give "
                f"a string, or a pathlib.Path that ends with one of {', '.join(sorted({*SOURCES, *_KINDS}))}"
            )
        content = Path(each).read_bytes()
        found.append(Piece(Path(each).name, kind, content.decode() if kind == SOURCE else content))
    return tuple(found)

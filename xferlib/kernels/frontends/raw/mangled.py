"""The parameters of a C++ kernel, read from its mangled name: all that machine code tells of them.

The names are those of the Itanium C++ ABI, which NVRTC and nvcc use: ``_Z5scaleIfEvPT_f`` is ``scale<float>`` of a
``float *`` and a ``float``.
"""

from __future__ import annotations

import re

_BUILTIN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "f": "float", "d": "double",
}  # fmt: skip
_POINTERS = {"P": "*", "R": "*", "O": "*"}
"""A reference is passed as a pointer."""
_QUALIFIERS = {"K": "const ", "V": "volatile ", "r": ""}
_NUMBERS = {"S": (re.compile(r"([0-9A-Z]*)_"), 36), "T": (re.compile(r"([0-9]*)_"), 10)}
"""How references are numbered, and to which base."""
_MOST_CHARACTERS = 4096


class _UnreadableError(Exception):
    """A part of a name that no kernel of plain parameters has."""


class _Reader:
    """Reads a name from left to right, with the earlier parts to which later ones refer."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._parts: list[str] = []
        self._arguments: list[str] = []

    def signature(self) -> str:
        _, is_template = self._name(is_function=True)
        if is_template:
            self._type()  # the result
        types = []
        while self._at < len(self._text) and self._text[self._at] != ".":
            types.append(self._type())
        if types == ["void"]:
            return ""
        return ", ".join(f"{each} p{number}" for number, each in enumerate(types))

    # --- pieces
    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, expected: str) -> bool:
        found = self._text.startswith(expected, self._at)
        self._at += len(expected) if found else 0
        return found

    def _kept(self, part: str) -> str:
        self._parts.append(part)
        return part

    def _identifier(self) -> str:
        match = re.compile(r"\d+").match(self._text, self._at)
        if match is None:
            raise _UnreadableError
        start = match.end()
        self._at = start + int(match[0])
        found = self._text[start : self._at]
        if len(found) != int(match[0]):
            raise _UnreadableError
        return found

    def _reference(self, table: list[str], *, letter: str) -> str:
        """``S_``, ``S0_``, ``S1_``: the first, the second, the third part; likewise ``T_`` of the arguments."""
        pattern, base = _NUMBERS[letter]
        match = pattern.match(self._text, self._at)
        if match is None:
            raise _UnreadableError
        self._at = match.end()
        number = 0 if not match[1] else int(match[1], base) + 1
        if number >= len(table):
            raise _UnreadableError
        return table[number]

    def _template_arguments(self) -> list[str]:
        found = []
        while not self._take("E"):
            if self._take("L"):
                self._type()
                end = self._text.find("E", self._at)
                found.append(self._text[self._at : end].replace("n", "-"))
                self._at = end + 1
            else:
                found.append(self._type())
        return found

    # --- names and types
    def _name(self, *, is_function: bool = False) -> tuple[str, bool]:
        """A name, and whether its last part is a template's instance."""
        if not self._take("N"):
            name = ("std::" if self._take("St") else "") + self._identifier()
            is_template = self._peek() == "I"
            if is_template or not is_function:
                self._kept(name)
            return self._instance(name, is_function=is_function) if is_template else (name, False)
        while self._peek() in _QUALIFIERS and self._peek():
            self._at += 1
        name, is_template = "", False
        while not self._take("E"):
            if self._take("St"):
                name = "std"
                continue
            if self._take("S"):
                name = self._reference(self._parts, letter="S")
                continue
            if self._peek() == "I":
                name, is_template = self._instance(name, is_function=is_function)
            else:
                name, is_template = (f"{name}::" if name else "") + self._identifier(), False
            if not (is_function and self._peek() == "E"):
                self._kept(name)
        return name, is_template

    def _instance(self, name: str, *, is_function: bool) -> tuple[str, bool]:
        self._take("I")
        arguments = self._template_arguments()
        if is_function:
            self._arguments = arguments
        return f"{name}<{', '.join(arguments)}>", True

    def _type(self) -> str:
        letter = self._peek()
        if letter in _POINTERS and letter:
            self._at += 1
            inner = self._type()
            return self._kept(f"{inner}{' ' if not inner.endswith('*') else ''}{_POINTERS[letter]}")
        if letter in _QUALIFIERS and letter:
            self._at += 1
            inner = self._type()
            return self._kept(f"{inner} const" if inner.endswith("*") else f"{_QUALIFIERS[letter]}{inner}")
        if self._take("T"):
            return self._kept(self._reference(self._arguments, letter="T"))
        if self._take("Dh"):
            return "half"
        if letter == "S" and not self._text.startswith("St", self._at):
            self._at += 1
            found = self._reference(self._parts, letter="S")
            return self._kept(self._instance(found, is_function=False)[0]) if self._peek() == "I" else found
        if letter in _BUILTIN and letter:
            self._at += 1
            return _BUILTIN[letter]
        name, is_template = self._name()
        if is_template and not (self._parts and self._parts[-1] == name):
            self._kept(name)
        return name


def signature_of(name: str) -> str | None:
    """The parameters that a mangled name tells, as ``const float * p0, int p1``; None where it tells none."""
    if not name.startswith("_Z") or len(name) > _MOST_CHARACTERS:
        return None
    try:
        text = _Reader(name[2:]).signature()
    except (_UnreadableError, RecursionError):
        return None
    return re.sub(r"\b(?:\w+::)+complex<", "complex<", text).replace("* const", "*")

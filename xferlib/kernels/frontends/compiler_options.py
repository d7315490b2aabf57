"""``options=`` of element-wise kernels and reductions: those of a compiler that mean something on every backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xferlib.errors import KernelSyntaxError, shown
from xferlib.kernels.frontends.raw.preprocessor import expanded, option_macros

_FAST = frozenset({"--use_fast_math", "-use_fast_math"})
_DEFINE = ("-D", "--define-macro=")
_WITHOUT_EFFECT = ("--std=", "-std=", "-w", "--device-debug", "-G", "--generate-line-info", "-lineinfo")


class CompilerOptions(NamedTuple):
    """The options, the macros of them that replace words of the texts, and ``math``."""

    options: tuple[str, ...]
    macros: dict[str, str]
    math: str

    def applied(self, text: Any) -> Any:
        """A list of parameters with its macros replaced; anything else as it is."""
        return expanded(text, self.macros) if isinstance(text, str) else text


def read(options: Sequence[str], math: str) -> CompilerOptions:
    """The meaning of some options.

    Raises:
        KernelSyntaxError: One that no backend without a CUDA compiler could follow.
    """
    is_list = isinstance(options, Sequence) and not isinstance(options, str)
    if not is_list or not all(isinstance(each, str) for each in options):
        raise KernelSyntaxError(f"options={shown(options)} is no list of strings; give options=('-DSCALE=2',)")
    for each in options:
        if each in _FAST:
            math = "fast"
        elif not each.startswith((*_DEFINE, *_WITHOUT_EFFECT)):
            raise KernelSyntaxError(
                f"options: {shown(each)} is for a CUDA compiler alone, and a kernel means the same on every backend; "
                "give -DNAME=VALUE or --use_fast_math, or take raw_module"
            )
    return CompilerOptions(tuple(options), option_macros(options), math)

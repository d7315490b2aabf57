"""``xferlib cache``: the compiled kernels on disk."""

from __future__ import annotations

import argparse


def info(argv: list[str]) -> int:
    """``xferlib cache info``."""
    from xferlib.kernels.engines.cuda import cache

    _no_arguments("info", "where compiled kernels are kept, and how many", argv)
    found = cache.info()
    print(f"{found.directory}: {found.files} kernel(s), {found.nbytes / 1e6:.1f} MB")
    if found.problem:
        print(f"not used: {found.problem}")
    return 0


def clear(argv: list[str]) -> int:
    """``xferlib cache clear``."""
    from xferlib.kernels.engines.cuda import cache

    _no_arguments("clear", "delete the compiled kernels; programs that run keep theirs", argv)
    found = cache.clear()
    if found.problem:
        print(f"nothing deleted: {found.problem}")
        return 1
    print(f"{found.directory}: deleted {found.files} kernel(s), {found.nbytes / 1e6:.1f} MB")
    return 0


def _no_arguments(name: str, description: str, argv: list[str]) -> None:
    argparse.ArgumentParser(prog=f"xferlib cache {name}", description=description).parse_args(argv)

"""``xferlib cache info``."""

from __future__ import annotations

import argparse

from xferlib.kernels import cuda_engine as cache


def main(argv: list[str]) -> int:
    """Print where compiled kernels are kept, and how many."""
    parser().parse_args(argv)
    found = cache.info()
    print(f"{found.directory}: {found.files} kernel(s), {found.nbytes / 1e6:.1f} MB")
    if found.problem:
        print(f"not used: {found.problem}")
    return 0


def parser() -> argparse.ArgumentParser:
    """The arguments: none."""
    return argparse.ArgumentParser(
        prog="xferlib cache info", description="Print where compiled kernels are kept, and how many."
    )

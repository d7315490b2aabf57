"""``xferlib cache clear``."""

from __future__ import annotations

import argparse

from xferlib.kernels import cuda_engine as cache


def main(argv: list[str]) -> int:
    """Delete the compiled kernels; 1 where the directory cannot be used."""
    parser().parse_args(argv)
    found = cache.clear()
    if found.problem:
        print(f"nothing deleted: {found.problem}")
        return 1
    print(f"{found.directory}: deleted {found.files} kernel(s), {found.nbytes / 1e6:.1f} MB")
    return 0


def parser() -> argparse.ArgumentParser:
    """The arguments: none."""
    return argparse.ArgumentParser(
        prog="xferlib cache clear", description="Delete the compiled kernels; programs that run keep theirs."
    )

"""Ranks forked from one process that imports PyTorch once: ``python -m tests.distributed.forked SIZE PROGRAM``.

The program is a file, or ``-m`` and a module, with its arguments. Ranks find each other as those of torchrun do, whose
import and one more in each rank take longer than what most tests do in them.
"""

from __future__ import annotations

import os
import runpy
import sys

from tests.distributed.failing import free_port


def run_rank(rank: int, size: int, port: int, program: list[str]) -> None:
    """Run a program as the main module of a rank."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    os.environ |= {"MASTER_ADDR": "127.0.0.1"} | {name: str(number) for name, number in place.items()}
    if program[0] == "-m":
        sys.argv = program[1:]
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = program
        runpy.run_path(program[0], run_name="__main__")


def main() -> None:
    """End with the highest exit status of all ranks."""
    import torch.distributed  # noqa: F401 - before the forks, once for all

    size, port, ranks = int(sys.argv[1]), free_port(), []
    for rank in range(size):
        child = os.fork()
        if not child:
            run_rank(rank, size, port, sys.argv[2:])
            return
        ranks.append(child)
    sys.exit(max(abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) for child in ranks))


if __name__ == "__main__":
    main()

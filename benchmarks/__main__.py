"""``python -m benchmarks NAME [arguments]``; ``--help`` behind a name explains its arguments."""

import importlib
import sys

from xferlib.errors import XferError

NAMES = ("exact", "kernels", "overlap")

if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
    sys.exit(f"usage: python -m benchmarks {'|'.join(NAMES)} [arguments]")
try:
    sys.exit(importlib.import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:]))
except XferError as error:
    sys.exit(f"benchmarks: {error}")

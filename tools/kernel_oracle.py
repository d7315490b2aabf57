"""Digests of the correctly rounded float32 functions over all 2^32 inputs, computed without xferlib.

    python tools/kernel_oracle.py --core-math DIRECTORY [--only exp,log]

The oracle is CORE-MATH (Sibidanov, Zimmermann and Glondu, "The CORE-MATH Project", ARITH 2022): C functions that
are proven or exhaustively checked to be correctly rounded. DIRECTORY is its source tree; a C compiler builds each
function into the loop of `tools/digest.py`. One core takes 10 to 60 s for a function. The digests are
written beside those of the CPU and the GPU in ``tools/kernel_digests.json``: where they are equal, every one of the
2^32 results is correctly rounded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from xferlib.kernels.functions import CALL_NAMES, CALLS

DIGESTS = Path(__file__).with_name("kernel_digests.json")

LOOP = """
#include <stdint.h>
#include <stdio.h>
#include <string.h>
float FUNCTION(float);
int main(void) {
  uint64_t total = 0;
  uint32_t counter = 0;
  do {
    float x, y;
    uint32_t result;
    memcpy(&x, &counter, 4);
    y = FUNCTION(x);
    memcpy(&result, &y, 4);
    if (y != y) result = 0x7fc00000u;
    uint32_t hash = (counter * 0x9e3779b1u ^ result) * 0x85ebca6bu;
    total += hash ^ hash >> 15;
  } while (++counter);
  printf("%016llx\\n", (unsigned long long)total);
  return 0;
}
"""


def digest(name: str, core_math: Path) -> str:
    """The digest of one function."""
    short = CALL_NAMES.get(name, name)
    source = core_math / "src" / "binary32" / short / f"{short}f.c"
    with tempfile.TemporaryDirectory() as folder:
        loop, program = Path(folder, "loop.c"), Path(folder, "loop")
        loop.write_text(LOOP)
        options = ["-O3", "-march=native", "-ffp-contract=off", "-w", f"-DFUNCTION=cr_{short}f"]
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, *options, "-o", program, loop, source, "-lm"], check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout.strip()


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--core-math", type=Path, required=True)
    parser.add_argument("--only", default="", help="functions, separated by commas")
    options = parser.parse_args(argv)
    only = options.only.split(",") if options.only else CALLS
    rows = json.loads(DIGESTS.read_text())
    wrong = 0
    for row in rows:
        if row["function"] not in only or row["inputs"] != 1 << 32:
            continue
        row["oracle"] = digest(row["function"], options.core_math)
        is_right = row["oracle"] == row["here"]
        wrong += not is_right
        print(f"{row['function']:10} {row['oracle']} {'equal' if is_right else 'DIFFERENT'}", flush=True)
        DIGESTS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

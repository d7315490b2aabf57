"""The recorded launches on another backend, compared with the results of the CPU."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from tools.cuda_corpus import arguments
from tools.cuda_corpus.arguments import Launch
from tools.cuda_corpus.running import list_digests
from xferlib.kernels.cuda_cpu import emit, ptx

_OLDER_VERSIONS = ("9.0", "8.7", "8.4", "8.0")
_UNSIGNED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


def replay(archive: Path, backend: str, numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Repeat the recorded launches of some texts on a backend.

    Args:
        archive: The file that `tools.cuda_corpus` has recorded.
        backend: Its name.
        numbers: The texts.
    """
    xl.use_backend(backend)
    with zipfile.ZipFile(archive) as file, tempfile.TemporaryDirectory() as folder:
        entries = json.loads(file.read("record.json"))
        for number in numbers:
            entry = entries[number]
            clean = [each for each in entry["kernels"] if each["attempt"] >= 0]
            path = Path(folder, "text.ptx")
            path.write_bytes(file.read(f"{entry['key']}.ptx"))
            kernels = emit.translate(ptx.parse(path.read_text(encoding="utf-8")), checked=False).kernels
            module = None
            for each in clean:
                launch = arguments.make_launch(kernels[each["kernel"]], each["signature"], each["attempt"])
                before = [array.copy() for array in launch.arrays]
                result: dict[str, Any] = {"text": number, "kernel": each["kernel"]}
                try:
                    if module is None:
                        module = _load(path)
                    _launch(module, each["kernel"], launch)
                    result["digests"] = list_digests(launch.arrays)
                except Exception as error:  # of a driver, whose types are its own
                    result["error"] = f"{type(error).__name__}: {error}"[:300]
                if result.get("digests") != each["digests"] and "digests" in result:
                    result["differences"] = [
                        _compare(old, new, zlib.decompress(file.read(f"{entry['key']}/{each['kernel']}/{nth}")))
                        for nth, (old, new) in enumerate(zip(before, launch.arrays, strict=True))
                    ]
                yield result


def _load(path: Path) -> Any:
    """The module of a text; a driver older than the compiler gets it as PTX of its own version."""
    text = path.read_text(encoding="utf-8")
    kernels = emit.translate(ptx.parse(text), checked=False).kernels
    sizes = {each.nbytes for kernel in kernels.values() for each in kernel.params}
    types = {f"Bytes{count}": np.dtype([("bytes", "u1", (count,))]) for count in sizes}
    for version in ("", *_OLDER_VERSIONS):
        if version:
            path.write_text(
                re.sub(r"^\.version .*$", f".version {version}", text, flags=re.MULTILINE), encoding="utf-8"
            )
        module = xl.raw_module(path=path, types=types)
        try:
            module.compile()
            module.get_function(next(iter(kernels)), "void *p").attributes()  # a driver may look at the text only now
            return module
        except Exception as error:  # of a driver, whose types are its own
            failure = error
    raise failure


def _launch(module: Any, name: str, launch: Launch) -> None:
    """Run a launch, and replace the arrays by what it leaves in them."""
    arrays = [xl.to_device(each) for each in launch.arrays]
    addresses = [xl.get_backend(each).view(each).pointer for each in arrays]
    types: list[str] = []
    given: list[Any] = []
    for value, content in zip(launch.values, arguments.list_bytes(launch, addresses), strict=True):
        if isinstance(value, int):
            types.append("void *")
            given.append(addresses[value] + launch.offset)
        elif len(content) in _UNSIGNED:
            types.append(_UNSIGNED[len(content)])
            given.append(int.from_bytes(content, "little"))
        else:
            types.append(f"Bytes{len(content)}")
            given.append(np.frombuffer(content, [("bytes", "u1", (len(content),))])[0])
    signature = ", ".join(f"{kind} p{number}" for number, kind in enumerate(types))
    kernel = module.get_function(name, signature)
    options = {"shared_nbytes": launch.shared_nbytes, "cooperative": launch.is_cooperative}
    kernel(launch.grid, launch.block, tuple(given), **options)
    xl.synchronize()
    launch.arrays[:] = [xl.to_host(each) for each in arrays]


def _compare(before: Any, found: Any, changed: bytes) -> dict[str, Any]:
    """How many elements differ from those of the CPU, and by how many units in the last place at most."""
    expected = (before.view(np.uint8) ^ np.frombuffer(changed, np.uint8)).view(before.dtype)
    bits = np.dtype(f"i{before.dtype.itemsize}")
    differ = expected.view(bits) != found.view(bits)
    result = {"dtype": str(before.dtype), "count": int(differ.sum())}
    if before.dtype.kind == "f" and differ.any():
        are_nan = np.isnan(expected) & np.isnan(found)
        result["nan"] = int((differ & are_nan).sum())
        lines = [np.where(x < 0, np.iinfo(bits).min - x.astype(object), x.astype(object)) for x in
                 (each.view(bits)[differ & ~are_nan] for each in (expected, found))]  # fmt: skip
        result["ulps"] = int(max(abs(lines[0] - lines[1]), default=0))
    if differ.any():
        first = int(np.flatnonzero(differ)[0])
        result["first"] = [first, str(expected[first]), str(found[first])]
    return result


def main() -> None:
    """Write the results of the texts whose numbers are the last arguments, each as soon as it is there."""
    archive, backend, target, *numbers = sys.argv[1:]
    with open(target, "a", encoding="utf-8") as file:
        for result in replay(Path(archive), backend, [*map(int, numbers)]):
            file.write(json.dumps(result) + "\n")
            file.flush()
            if "error" in result:
                xl.synchronize()  # raises where a fault has ended what the process can do on a GPU


if __name__ == "__main__":
    main()

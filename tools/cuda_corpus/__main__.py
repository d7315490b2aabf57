"""Run the device code of NVIDIA's samples and of the peers on a CPU, and the same launches on a GPU.

    python -m tools.cuda_corpus CHECKOUT ... --archive build/corpus.zip [--table FILE]
    python -m tools.cuda_corpus --backend cupy --archive build/corpus.zip [--table FILE]

The first form compiles what it finds in the checkouts, of which nothing is kept, loads it, and gives every kernel
arguments made from its parameters: the first with which checked runs find no fault. The archive has the PTX, a number
for the arguments of each kernel, and what the runs changed. The second form needs neither a compiler nor the checkouts:
it repeats the launches and compares all arrays bit by bit. Both write a table, as JSON where ``--table`` names a file;
the exit status is 1 where a text that a compiler takes does not load, or bits differ that are promised to be equal.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools.cuda_corpus import finding
from tools.cuda_corpus.finding import Source
from xferlib.errors import XferError

_LIMIT_S = 120
_MOST_CHANGED = 1 << 20
"""Bytes of one text's results that the archive keeps; of more, only the digests."""


def record(source: Source, kept: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Compile, load and run one source, in a process of its own; PTX is kept in a folder for the next time."""
    key = hashlib.sha256(f"{source.name}\0{source.text}".encode()).hexdigest()[:16]
    path, debug = kept / f"{key}.ptx", kept / f"{key}.debug.ptx"
    entry: dict[str, Any] = {"name": source.name, "key": key, "refusal": "", "loads": {}, "kernels": []}
    if not debug.is_file():
        with contextlib.suppress(XferError):  # it is empty where there is no debug build
            debug.write_text(finding.compile_source(source, is_debug=True), encoding="utf-8")
        debug.touch()
    entry["is_searched"] = bool(debug.stat().st_size)
    if not path.is_file():
        try:
            path.write_text(finding.compile_source(source), encoding="utf-8")
        except XferError as error:
            entry["refusal"] = str(error)[:500]
            return entry, {}
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "source")
        text.write_text(source.text, encoding="utf-8")
        command = [sys.executable, "-m", "tools.cuda_corpus.running", *map(str, (path, debug, text, folder))]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return {**entry, "failure": f"not done in {_LIMIT_S} s"}, {}
        if done.returncode:
            return {**entry, "failure": f"exit status {done.returncode}: {done.stderr[-500:]}"}, {}
        entry.update(json.loads(Path(folder, "found.json").read_text(encoding="utf-8")))
        with zipfile.ZipFile(Path(folder, "changes.zip")) as file:
            changes = {name: file.read(name) for name in file.namelist()}
    return entry, changes


def record_all(checkouts: Sequence[Path], archive: Path, kept: Path, workers: int) -> list[dict[str, Any]]:
    """Record all sources of checkouts in an archive."""
    sources = [source for each in checkouts for source in finding.find_sources(each)]
    kept.mkdir(parents=True, exist_ok=True)
    archive.parent.mkdir(parents=True, exist_ok=True)
    entries = []
    with ThreadPoolExecutor(workers) as pool, zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for entry, changes in pool.map(lambda each: record(each, kept), sources):
            entries.append(entry)
            if any(each["attempt"] >= 0 for each in entry["kernels"]):
                file.write(kept / f"{entry['key']}.ptx", f"{entry['key']}.ptx")
                for name, content in changes.items():
                    if len(content) < _MOST_CHANGED:
                        file.writestr(f"{entry['key']}/{name}", content, zipfile.ZIP_STORED)
        file.writestr("record.json", json.dumps(entries))
    return entries


def replay_all(archive: Path, backend: str, workers: int) -> list[dict[str, Any]]:
    """Repeat all launches of an archive on a backend, in some processes at a time."""
    with zipfile.ZipFile(archive) as file:
        entries = json.loads(file.read("record.json"))
    numbers = [number for number, entry in enumerate(entries) if any(each["attempt"] >= 0 for each in entry["kernels"])]
    with ThreadPoolExecutor(workers) as pool:
        found = pool.map(lambda first: _replay_some(archive, backend, numbers[first::workers]), range(workers))
        return sorted((result for each in found for result in each), key=lambda result: result["text"])


def _replay_some(archive: Path, backend: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """The results of some texts; where a fault ends the process, another one goes on behind that text."""
    results: list[dict[str, Any]] = []
    while numbers:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "results")
            command = [sys.executable, "-m", "tools.cuda_corpus.replaying", str(archive), backend, str(target)]
            said = "it was late"
            status: int | None = None
            try:
                done = subprocess.run(
                    [*command, *map(str, numbers)], capture_output=True, text=True, errors="replace", timeout=_LIMIT_S,
                    check=False,
                )  # fmt: skip
                status, said = done.returncode, done.stderr[-500:]
            except subprocess.TimeoutExpired:
                pass
            found = [json.loads(line) for line in target.read_text().splitlines()] if target.is_file() else []
        results += found
        if status == 0:
            break
        last = found[-1]["text"] if found else numbers[0]
        print(f"text {last}: the process ended with {status}: {said}", file=sys.stderr)
        numbers = numbers[numbers.index(last) + 1 :]
    return results


def _is_loaded(entry: dict[str, Any]) -> bool:
    return set(entry["loads"].values()) == {""} and "failure" not in entry


def tell(entries: list[dict[str, Any]]) -> str:
    """The table of what ran on the CPU."""
    taken = [each for each in entries if not each["refusal"]]
    lines = [f"{len(entries)} texts; a compiler takes {len(taken)}"]
    loaded = [each for each in taken if _is_loaded(each)]
    lines.append(f"{len(loaded)} load, checked and unchecked")
    searched = sum(each["is_searched"] for each in taken)
    lines.append(f"{searched} searched for variables that nothing sets: there is a debug build of them")
    kernels = [(entry, kernel) for entry in loaded for kernel in entry["kernels"]]
    covered = [each for each in kernels if each[1]["is_covered"]]
    clean = [each for each in covered if each[1]["attempt"] >= 0]
    lines.append(f"{len(kernels)} kernels, {len(covered)} of covered instructions, {len(clean)} without a report")
    kinds = collections.Counter(each["report"].partition(":")[0] for _, each in covered if each["attempt"] < 0)
    lines += [f"  reports, {kind}: {number}" for kind, number in kinds.most_common()]
    lines += [
        f"NOT LOADED {each['name']}: {each.get('failure', each['loads'])}" for each in taken if each not in loaded
    ]
    lines += [
        f"uncovered {entry['name']} {each['kernel']}: {each['report']}"
        for entry, each in kernels
        if not each["is_covered"]
    ]
    lines += [
        f"report {entry['name']} {each['kernel']}: {each['report']}" for entry, each in covered if each["attempt"] < 0
    ]
    lines += [
        f"refused {each['name']}: {each['refusal'].partition('error:')[2][:150].strip()}"
        for each in entries
        if each["refusal"]
    ]
    return "\n".join(lines)


def tell_equal(entries: list[dict[str, Any]], results: list[dict[str, Any]]) -> str:
    """The table of what a backend gave."""
    traits = {
        (number, each["kernel"]): each["traits"] for number, entry in enumerate(entries) for each in entry["kernels"]
    }
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    lines = []
    for each in results:
        kind = ", ".join(traits[each["text"], each["kernel"]]) or "promised"
        differences = [one for one in each.get("differences", ()) if one["count"]]
        outcome = "error" if "error" in each else "differs" if differences else "equal"
        counts[kind][outcome] += 1
        if outcome != "equal":
            what = each.get("error") or json.dumps(differences)
            lines.append(f"{outcome} ({kind}) {entries[each['text']]['name']} {each['kernel']}: {what}")
    head = [f"{kind}: {dict(found)}" for kind, found in sorted(counts.items())]
    recorded = sum(each["attempt"] >= 0 for entry in entries for each in entry["kernels"])
    return "\n".join([f"{len(results)} of {recorded} launches ran", *head, *lines])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.cuda_corpus", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="*", type=Path, metavar="CHECKOUT")
    parser.add_argument("--archive", type=Path, default=Path("build/corpus.zip"))
    parser.add_argument("--backend", help="repeat the launches of the archive there")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the table as JSON")
    parser.add_argument(
        "--ptx", type=Path, default=Path("build/corpus-ptx"), metavar="FOLDER", help="PTX that is made already"
    )
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    if given.backend is None:
        table = record_all([each.resolve() for each in given.checkouts], given.archive, given.ptx, given.workers)
        print(tell(table))
        is_wrong = any(not each["refusal"] and not _is_loaded(each) for each in table)
    else:
        table = replay_all(given.archive, given.backend, given.workers)
        with zipfile.ZipFile(given.archive) as file:
            told = tell_equal(json.loads(file.read("record.json")), table)
        print(told)
        is_wrong = "\ndiffers (promised)" in told
    if given.table is not None:
        given.table.write_text(json.dumps(table, indent=1), encoding="utf-8")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())

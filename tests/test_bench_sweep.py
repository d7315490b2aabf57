"""`xferlib bench sweep`: its cases are what they say, repeatable, and checked before they are timed."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import xferlib as xl
from tests.console import main
from xferlib.testing import assert_same_bits

HostArray = np.ndarray[Any, Any]
CASE = re.compile(
    r"transfer:3:\d+: [\d.]+ \w+ (?P<given>\w+)( as (?P<wanted>\w+))? \((?P<shape>[\d, ]+)\) "
    r"(?P<pinned>pinned )?(?P<layout>[a-z ]+), (?P<way>up|down) to (?P<target>a new|an existing) \w+ array"
)


class _Stopped(xl.errors.TransferError):
    """Ends a case before anything is timed."""


@pytest.mark.parametrize(
    ("case", "network", "tensors", "numbers"),
    [
        ("tree:3:7", "ResNet-50", 161, 25_557_032),
        ("tree:3:4", "BERT-base", 197, 108_891_648),
        ("tree:3:26", "decoder of 1.1 billion", 201, 1_100_048_384),
    ],
)
def test_networks_have_their_published_sizes(
    case: str, network: str, tensors: int, numbers: int,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    sent: list[tuple[int, ...]] = []

    def send(tree: Any, **_: Any) -> Any:
        sent.extend(each.shape for each in tree)
        raise _Stopped("the sizes are known")

    def one_number(shape: Any, value: Any, dtype: Any) -> HostArray:
        return np.lib.stride_tricks.as_strided(np.array(value, dtype), shape, (0,) * len(shape))

    monkeypatch.setattr(np, "full", one_number)  # or the arrays would take gigabytes
    monkeypatch.setattr(xl.tree, "to_device", send)
    assert main(["bench", "sweep", "--case", case, "--largest", "4GiB"]) == 0
    assert capsys.readouterr().out.startswith(f"{case}: {network} ({tensors} arrays, ")
    assert (len(sent), sum(map(math.prod, sent))) == (tensors, numbers)


class _Drawn(NamedTuple):
    """One case, as the command describes it and as the library gets it."""

    text: dict[str, Any]
    source: HostArray
    out: HostArray | None


def _drawn(number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> _Drawn:
    sources: list[HostArray] = []
    outs: list[HostArray | None] = []
    own = xl.to_device

    def send(x: Any, **options: Any) -> Any:
        sources.append(x)
        return own(x, **options)

    def receive(d: Any, *, out: HostArray | None = None, **_: Any) -> Any:
        outs.append(out)
        raise _Stopped("both arrays are known")

    with monkeypatch.context() as patched:
        patched.setattr(xl, "to_device", send)
        patched.setattr(xl, "to_host", receive)
        assert main(["bench", "sweep", "--case", f"transfer:3:{number}", "--largest", "1MiB"]) == 0
    told = CASE.match(capsys.readouterr().out)
    assert told is not None
    assert len(outs) == 1
    assert len(sources) in (1, 2)  # on a GPU a stream is named, and has its block
    assert_same_bits(sources[-1], sources[0])
    return _Drawn(told.groupdict(), sources[0], outs[0])


def _lies_as_told(array: HostArray, layout: str) -> bool:
    """Whether an array whose extents are all above 1 has exactly the layout of that name."""
    shape, strides, itemsize = array.shape, array.strides, array.itemsize
    if layout == "contiguous":
        return array.flags.c_contiguous and array.dtype.isnative
    if layout == "swapped":  # of which a single byte knows nothing
        return array.flags.c_contiguous and array.dtype.isnative == (itemsize == 1)
    if layout == "transposed":
        return array.ndim == 2 and array.T.flags.c_contiguous and not array.flags.c_contiguous
    if layout == "permuted":
        return array.ndim >= 3 and array.transpose(np.argsort(strides)[::-1]).flags.c_contiguous
    if layout == "every second row":
        return array.ndim >= 2 and array[0].flags.c_contiguous and strides[0] == 2 * array[0].nbytes
    if layout == "cropped":
        gaps = [outer > extent * inner for outer, extent, inner in zip(strides, shape[1:], strides[1:], strict=False)]
        return array.ndim >= 2 and all(gaps) and strides[-1] == itemsize
    assert layout == "reversed"
    return strides[0] < 0 and array[::-1].flags.c_contiguous


def test_a_case_is_the_same_at_each_draw_and_has_the_layout_that_it_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    layouts: dict[str, set[str]] = {"up": set(), "down": set()}
    for number in range(60):
        text, source, out = _drawn(number, monkeypatch, capsys)
        if number % 6 == 0:
            again = _drawn(number, monkeypatch, capsys)
            assert again.text == text
            assert_same_bits(again.source, source)
        is_upload, is_new = text["way"] == "up", text["target"] == "a new"
        host = source if is_upload else out
        assert source.shape == tuple(map(int, re.findall(r"\d+", text["shape"])))
        assert min(source.shape) > 1
        assert source.dtype.newbyteorder("=") == np.dtype(text["given"])
        wanted = np.dtype(text["wanted"] or text["given"])
        assert 2 << 10 <= source.size * min(source.itemsize, wanted.itemsize) <= 4 << 20
        assert (out is not None) == (not is_upload and not is_new)
        if out is not None:
            assert (out.shape, out.dtype) == (source.shape, wanted)
        if not is_upload:
            assert _lies_as_told(source, "contiguous"), number
        if host is None:
            assert text["layout"] == "contiguous"
            continue
        assert _lies_as_told(host, text["layout"]), (number, host.shape, host.strides)
        assert (xl.pinned_pool().find(host.ctypes.data) is not None) == bool(text["pinned"]), number
        layouts[text["way"]].add(text["layout"])
    names = {"contiguous", "transposed", "permuted", "every second row", "cropped", "reversed", "swapped"}
    assert layouts["up"] == names
    assert layouts["down"] >= {"contiguous", "transposed", "permuted", "cropped"}


def test_a_sweep_checks_and_times_every_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sweep.json"
    arguments = [
        "bench",
        "sweep",
        "--seconds",
        "3",
        "--seed",
        "11",
        "--largest",
        "64KiB",
        "--without-compile",
        "--twins",
    ]
    assert main([*arguments, "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "WRONG" not in out
    assert "behind by over 10 %" in out
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert found["machine"]["seed"] == 11
    assert {each["kind"] for each in found["cases"]} == {"transfer", "tree", "kernel", "reduction"}
    for each in found["cases"]:
        assert each["problem"] == ""
        for regime in ("hot", "cold"):
            timed, again = each["seconds"][regime], each["again"][regime]
            peers = {name for name in timed if not name.startswith("xferlib")}
            assert 0 < len(peers) < len(timed)
            assert again.keys() == peers
            assert all(again[name].keys() == timed[name].keys() for name in peers)


def test_one_case_can_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "sweep", "--case", "transfer:11:4", "--largest", "64KiB"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("transfer:11:4: ")
    assert "GB/s" in out
    assert main(["bench", "sweep", "--case", "everything"]) == 2
    assert "transfer:7:12" in capsys.readouterr().err


def test_wrong_bits_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    own = xl.to_device
    monkeypatch.setattr(xl, "to_device", lambda x, **options: own(np.zeros(x.shape, x.dtype), **options))
    status = main(["bench", "sweep", "--seconds", "0.5", "--seed", "11", "--largest", "8KiB", "--kind", "transfer"])
    assert status == 1
    assert "WRONG: the bits differ" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["kernel", "reduction"])
def test_kernels_and_reductions_are_drawn_alike_checked_and_timed(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sweep.json"
    arguments = ["bench", "sweep", "--kind", kind, "--seconds", "1.5", "--seed", "4", "--largest", "64KiB"]
    found: list[list[dict[str, Any]]] = []
    for _ in range(2):
        assert main([*arguments, "--without-compile", "--json", str(file)]) == 0
        assert "WRONG" not in capsys.readouterr().out
        found.append(json.loads(file.read_text(encoding="utf-8"))["cases"])
    one, two = ([(case["name"], case["text"]) for case in each] for each in found)
    assert one
    assert two
    assert all(first == second for first, second in zip(one, two, strict=False))
    for case in found[0]:
        assert (case["kind"], case["problem"]) == (kind, "")
        for regime in ("hot", "cold"):
            assert {name.partition(" ")[0] for name in case["seconds"][regime]} > {"xferlib"}
    name, text = one[0]
    assert main(["bench", "sweep", "--case", name, "--largest", "64KiB", "--without-compile"]) == 0
    assert text in capsys.readouterr().out


def test_a_wrong_kernel_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    own = xl.elementwise

    def wrong(*args: Any, **options: Any) -> Any:
        kernel = own(*args, **options)
        return lambda *given, **more: _one_off(kernel(*given, **more))

    monkeypatch.setattr(xl, "elementwise", wrong)
    arguments = ["bench", "sweep", "--kind", "kernel", "--seconds", "1", "--seed", "4", "--largest", "8KiB"]
    assert main([*arguments, "--without-compile"]) == 1
    assert "WRONG: " in capsys.readouterr().out


def _one_off(found: Any) -> Any:
    """Change the last number of an array, whatever its dtype is."""
    found[(-1,) * found.ndim] = found[(-1,) * found.ndim] == 0
    return found

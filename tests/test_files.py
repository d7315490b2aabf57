"""Trees of arrays in files: what is written comes back, and what cannot be is refused before anything is written."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import sys
import threading
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import ArgumentError, BackendUnavailableError, UnsupportedArrayError, UnsupportedDTypeError
from xferlib.testing import assert_same_bits, cores

SUFFIXES = (".npz", ".safetensors")
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64",
)  # fmt: skip


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Layer:
    weight: Any
    scale: float


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == ".safetensors":
        pytest.importorskip("safetensors")
    return tmp_path / f"saved{request.param}"


def host(tree: Any) -> Any:
    return xl.tree.to_host(tree)


def same(found: Any, expected: Any) -> None:
    """Compare trees of NumPy arrays: containers, values, dtypes, shapes and bits."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert [*found] == [*expected]
        for key, each in expected.items():
            same(found[key], each)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, two in zip(found, expected, strict=True):
            same(one, two)
    elif isinstance(expected, np.ndarray):
        assert_same_bits(found, expected)
    else:
        assert found == expected


def example() -> dict[Any, Any]:
    x = np.arange(12, dtype="float32").reshape(3, 4)
    return {
        "layers": [{"weight": x, "bias": x[0, ::2]}, {"weight": x.T, "bias": np.zeros(0, "int8")}],
        "steps": (np.array(7), 3, 2.5, "adam", None, True),
        5: [],
        "nested": ((), {}, [[x[::-1]]]),
    }


@pytest.mark.usefixtures("plugins")
def test_a_tree_comes_back(backend: str, path: Path) -> None:
    tree = example()
    xl.save(path, xl.tree.to_device(tree))
    found = xl.load(path)
    assert xl.get_backend(found["layers"][0]["weight"]).name == backend
    same(host(found), {**tree, "nested": ((), {}, [[tree["nested"][2][0][0]]])})


ARRAYS = st.builds(
    lambda dtype, shape, seed: np.random.default_rng(seed).integers(0, 2, (*shape, 16), "uint8").view(dtype),
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.integers(0, 99),
)
TREES = st.recursive(
    ARRAYS
    | st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(tree=TREES, suffix=st.sampled_from(SUFFIXES))
def test_any_tree_of_containers_comes_back(tmp_path_factory: pytest.TempPathFactory, tree: Any, suffix: str) -> None:
    if suffix == ".safetensors":
        pytest.importorskip("safetensors")
    path = tmp_path_factory.mktemp("trees") / f"tree{suffix}"
    xl.save(path, tree)
    same(xl.load(path, backend="numpy"), tree)


def test_a_single_array_and_one_that_stands_twice(path: Path) -> None:
    x = np.ones(3)
    xl.save(path, x)
    same(xl.load(path, backend="numpy"), x)
    xl.save(path, [x, {"again": x}])
    found = xl.load(path, backend="numpy")
    assert found[0] is found[1]["again"]
    found[0][0] = 5  # memory of its own, not the file's
    same(xl.load(path, backend="numpy")[0], x)


def test_names_are_those_of_the_keys(path: Path) -> None:
    xl.save(path, {"a": {"b": np.ones(1)}, "a/b": np.zeros(2), "c": [np.ones(3)]})
    if path.suffix == ".npz":
        with np.load(path) as other:
            names = [name for name in other.files if not name.endswith(".json")]
            same(other["c/0"], np.ones(3))
    else:
        from safetensors.numpy import load_file

        other = load_file(path)
        names = [*other]
        same(other["c/0"], np.ones(3))
    assert sorted(names) == ["a/b", "a/b'", "c/0"]


def test_names_that_a_format_keeps_for_itself(path: Path) -> None:
    keys = ("\0", "a\0b", "a", "\\0", "__metadata__", "__metadata__'", "xferlib", "\ud800", "\\ud800", "", "../a")
    tree = {key: np.full(2, number) for number, key in enumerate(keys)}
    xl.save(path, tree)
    same(xl.load(path, backend="numpy"), tree)


def test_files_of_other_programs_give_a_dict(tmp_path: Path) -> None:
    x, y = np.arange(6.0).reshape(2, 3), np.asfortranarray(np.ones((2, 2), ">i4"))
    np.savez(tmp_path / "plain.npz", x=x, y=y)
    np.savez_compressed(tmp_path / "packed.npz", x=x, y=y)
    for name in ("plain.npz", "packed.npz"):
        same(xl.load(tmp_path / name, backend="numpy"), {"x": x, "y": y.astype("i4", order="C")})
    numpy_files = pytest.importorskip("safetensors.numpy")
    numpy_files.save_file({"x": x}, tmp_path / "theirs")
    same(xl.load(tmp_path / "theirs", backend="numpy"), {"x": x})


def test_classes_come_back_with_a_tree_like_them(path: Path) -> None:
    def tree(x: Any, scale: float) -> Any:
        return {"p": Point(x, 2 * x), "l": Layer(3 * x, scale), "o": collections.OrderedDict(k=4 * x)}

    x = np.arange(3.0)
    xl.save(path, tree(x, 0.5))
    with pytest.raises(ArgumentError, match=r"Point.*like="):
        xl.load(path, backend="numpy")
    found = xl.load(path, like=tree(np.empty(0), 7.0), backend="numpy")
    assert isinstance(found["p"], Point)
    assert isinstance(found["l"], Layer)
    assert found["l"].scale == 7.0
    same([*found["p"], found["l"].weight, found["o"]["k"]], [x, 2 * x, 3 * x, 4 * x])
    with pytest.raises(ArgumentError, match=r"only the tree has q; only the file has l/weight, o/k, p/x, p/y"):
        xl.load(path, like={"q": x}, backend="numpy")


def test_a_conversion_on_the_way(path: Path) -> None:
    xl.save(path, {"x": np.arange(3, dtype="int16")})
    same(xl.load(path, backend="numpy", dtype="float64"), {"x": np.arange(3.0)})


def test_bfloat16_goes_with_safetensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    pytest.importorskip("ml_dtypes")
    x = torch.tensor([1.5, -0.0, float("nan"), 3e38], dtype=torch.bfloat16, requires_grad=True)
    path = tmp_path / "x.safetensors"
    xl.save(path, {"x": x, "y": np.ones(2)})
    found: Any = xl.load(path, backend="torch", device="cpu")
    assert found["x"].dtype is torch.bfloat16
    assert torch.equal(found["x"].view(torch.int16), x.detach().view(torch.int16))
    from safetensors.torch import load_file

    assert torch.equal(load_file(path)["x"].view(torch.int16), x.detach().view(torch.int16))
    wide: Any = xl.load(path, backend="numpy", dtype="float32")
    assert_same_bits(wide["x"], x.detach().float().numpy())
    assert_same_bits(xl.load(path, backend="numpy")["x"].view(np.int16), x.detach().view(torch.int16).numpy())
    with pytest.raises(UnsupportedDTypeError, match=r"bfloat16, which \.npz does not have; save to \.safetensors"):
        xl.save(tmp_path / "x.npz", {"x": x})


class Unknown:
    pass


def _nested(depth: int) -> Any:
    tree: Any = [np.ones(1)]
    for _ in range(depth):
        tree = {"k": tree}
    return tree


ENDLESS: dict[str, Any] = {"x": np.ones(2)}
ENDLESS["self"] = [ENDLESS]
REFUSED: list[tuple[Any, type[Exception], str]] = [
    (ENDLESS, ArgumentError, "self/0/self/0/self/0/self/0 leads more than 200 containers deep, or one of them holds"),
    (_nested(1000), ArgumentError, "k/k/k/k/k/k/k/k leads more than 200 containers deep"),
    ({"k" * 65_536: np.ones(1)}, ArgumentError, "have 65536 bytes, and names in files up to 65000"),
    ([{"\0" * 40_000: np.ones(1)}], ArgumentError, "have 80002 bytes"),
    ({"a": 10**5000}, ArgumentError, "a number of the tree cannot be written"),
    ({10**5000: np.ones(1)}, ArgumentError, "has the key an int of 16610 bits"),
    ({"a": Unknown()}, UnsupportedArrayError, "a is an object of type Unknown"),
    ([1, [1j]], UnsupportedArrayError, "1/0 is 1j"),
    ({(1, 2): np.ones(1)}, ArgumentError, "the dict at the tree itself has the key"),
    ({"a": np.array(["x"])}, UnsupportedDTypeError, "a"),
]


@pytest.mark.parametrize(("tree", "error", "message"), REFUSED)
def test_what_cannot_be_saved_leaves_the_file_as_it_was(path: Path, tree: Any, error: Any, message: str) -> None:
    xl.save(path, {"old": np.ones(2)})
    with pytest.raises(error, match=message):
        xl.save(path, tree)
    same(xl.load(path, backend="numpy"), {"old": np.ones(2)})
    assert [*path.parent.iterdir()] == [path]


def test_complex128_goes_with_npz_alone(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    x = {"x": np.ones(2, "complex128")}
    with pytest.raises(UnsupportedDTypeError, match="complex128, which the safetensors format does not have"):
        xl.save(tmp_path / "x.safetensors", x)
    assert not [*tmp_path.iterdir()]
    xl.save(tmp_path / "x.npz", x)
    same(xl.load(tmp_path / "x.npz", backend="numpy"), x)


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: xl.save("x.bin", {}), ArgumentError, r"'x\.bin' ends neither in '\.npz' nor in '\.safetensors'"),
    (lambda: xl.save("no/x.npz", {}), FileNotFoundError, "no"),
    (lambda: xl.load("no.npz"), FileNotFoundError, "no.npz"),
    (lambda: xl.load(None), ArgumentError, "the path is"),  # type: ignore[arg-type]
    (lambda: xl.load(b"x.npz"), ArgumentError, "the path is"),  # type: ignore[arg-type]
    (lambda: xl.save({}, "x.npz"), ArgumentError, "the path is"),  # type: ignore[arg-type]
    (lambda: xl.load("a\0.npz"), ArgumentError, r"'a\\x00\.npz' holds a null character"),
    (lambda: xl.save("a\0.npz", {}), ArgumentError, r"'a\\x00\.npz' holds a null character"),
]


@pytest.mark.parametrize(("call", "error", "message"), WRONG)
def test_wrong_paths_are_refused(
    call: Callable[[], Any], error: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        call()


def test_without_safetensors_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(BackendUnavailableError, match=r"pip install .+\[safetensors\]'"):
        xl.save(tmp_path / "x.safetensors", {})


def test_objects_of_python_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", x=np.array([{}], object))
    with pytest.raises(ArgumentError, match="Python objects"):
        xl.load(tmp_path / "o.npz")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.npz", b"PK and no more", r"cannot be read as \.npz"),
        *(
            ("x", content, r"neither \.npz nor safetensors")
            for content in (b"", b"nothing", b"\xff" * 64, b"\x02\x00\x00\x00\x00\x00\x00\x00{}" + b"x" * 9)
        ),
    ],
)
@pytest.mark.parametrize("is_installed", [True, False])
def test_damaged_files_are_refused(
    name: str, content: bytes, message: str, is_installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_installed:
        pytest.importorskip("safetensors")
    elif content[8:9] != b"{":  # what begins as a file of safetensors is read by its package
        monkeypatch.setitem(sys.modules, "safetensors", None)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ArgumentError, match=message):
        xl.load(tmp_path / name)


def test_a_cut_file_is_refused(path: Path) -> None:
    xl.save(path, {"x": np.ones(1000)})
    path.write_bytes(path.read_bytes()[:4000])
    with pytest.raises(ArgumentError, match="load: "):
        xl.load(path)


def test_a_failure_while_writing_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    xl.save(path, {"old": np.ones(2)})

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        xl.save(path, {"new": np.ones(2)})
    monkeypatch.undo()
    same(xl.load(path, backend="numpy"), {"old": np.ones(2)})
    assert [*path.parent.iterdir()] == [path]


def test_a_link_stays_one(path: Path) -> None:
    (path.parent / "real").mkdir()
    target = path.parent / "real" / path.name
    path.symlink_to(target)
    xl.save(path, {"x": np.ones(2)})
    assert path.is_symlink()
    assert target.is_file()


def test_the_file_may_go_once_it_is_loaded(path: Path, backend: str) -> None:
    x = np.arange(100_000, dtype="float32")
    xl.save(path, {"x": x})
    found = xl.load(path)
    path.unlink()
    same(host(found), {"x": x})


def test_trees_come_back_from_200_deep(path: Path) -> None:
    xl.save(path, _nested(199))
    same(xl.load(path, backend="numpy"), _nested(199))


def test_other_classes_come_back_with_what_their_attributes_hold(path: Path) -> None:
    def tree(x: Any, y: Any, n: int) -> Any:
        states = collections.OrderedDict(w=x)
        states._metadata = {"version": n}  # type: ignore[attr-defined]
        layer = Layer(y, n)
        layer.more = [2 * y]  # type: ignore[attr-defined]
        layer.lock = threading.Lock()  # type: ignore[attr-defined]
        return [states, layer, collections.UserDict(z=3 * y)]

    x, y = np.arange(3.0), np.arange(4)
    xl.save(path, tree(x, y, 1))
    states, layer, user = xl.load(path, like=tree(np.empty(0), np.empty(1), 7), backend="numpy")
    assert states._metadata == {"version": 7}
    assert layer.scale == 7
    same([states["w"], layer.weight, layer.more, user["z"]], [x, y, [2 * y], 3 * y])


# --- files that are damaged, or made to do harm


def _members(path: Path, arrays: dict[str, Any], method: int) -> None:
    """An archive of these: of arrays by their bytes, and of the header that is told."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, (shape, descr, body) in arrays.items():
            header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
            archive.writestr(f"{name}.npy", b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + body)


@contextlib.contextmanager
def within(nbytes: float) -> Iterator[None]:
    """Check that no more memory was allocated at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_header_that_claims_what_its_member_has_not_is_refused(tmp_path: Path, method: int) -> None:
    path, body = tmp_path / "x.npz", np.random.default_rng(0).bytes(300_000)
    with within(20e6):
        for shape, descr in (((3 << 28,), "<f4"), ((40,), "<f8"), ((-5,), "<f4"), ((2, 10**30), "<f4"), ((3,), "|V1")):
            _members(path, {"a": (shape, descr, body), "b": ((3,), "<f4", b"next")}, method)
            with pytest.raises(ArgumentError, match=r"'a\.npy' has 300000 bytes, and its header tells of shape"):
                xl.load(path, backend="numpy")


def test_zip_bombs_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    zeros = b"\0" * 20_000_000
    _members(path, {"a": ((8,), "<f4", zeros)}, zipfile.ZIP_DEFLATED)  # 20 KB that are more than they tell
    bombs = [path.read_bytes()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xferlib.json", b"[" * len(zeros))
    bombs.append(path.read_bytes())
    _members(path, {"a": ((16 << 20,), "<f4", b"\0" * 1000)}, zipfile.ZIP_DEFLATED)  # and 1 KB that claims 64 MiB
    size = (len(b"\x93NUMPY\1\0") + 2 + len(repr({"descr": "<f4", "fortran_order": False, "shape": (16 << 20,)}))) + (
        64 << 20
    )
    claims = bytearray(path.read_bytes())
    for mark, place in ((b"PK\1\2", 24), (b"PK\3\4", 22)):
        begin = claims.find(mark) + place
        claims[begin : begin + 4] = size.to_bytes(4, "little")
    bombs.append(bytes(claims))
    with within(5e6):
        for bomb in bombs:
            path.write_bytes(bomb)
            with pytest.raises(ArgumentError, match=r"cannot be read as \.npz"):
                xl.load(path, backend="numpy")


def test_members_over_the_same_bytes_or_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    _members(path, {"a": ((2,), "<f4", b"12345678"), "b": ((2,), "<f4", b"12345678")}, zipfile.ZIP_STORED)
    whole = path.read_bytes()
    for text in (whole.replace(b"b.npy", b"a.npy"), whole[: whole.rfind(b"PK\1\2")] + whole[whole.rfind(b"PK\5\6") :]):
        path.write_bytes(text)
        with pytest.raises(ArgumentError, match=r"cannot be read as \.npz"):
            xl.load(path, backend="numpy")
    again = whole.replace(b"b.npy", b"a.npy").rfind(b"PK\1\2")
    path.write_bytes(whole[: again + 42] + bytes(4) + whole[again + 46 :])
    with pytest.raises(ArgumentError, match="overlap"):
        xl.load(path, backend="numpy")


SOUND: dict[str, Any] = {"a": np.arange(40, dtype="f4").reshape(8, 5), "b": [np.arange(7), (None, "t", 2.5)]}


def _sound_files(folder: Path) -> list[Path]:
    xl.save(folder / "stored.npz", SOUND)
    with zipfile.ZipFile(folder / "stored.npz") as one, zipfile.ZipFile(folder / "packed.npz", "w", 8) as two:
        for member in one.infolist():
            two.writestr(member.filename, one.read(member))
    with contextlib.suppress(BackendUnavailableError):
        xl.save(folder / "a.safetensors", SOUND)
    return sorted(folder.iterdir())


def test_one_flipped_bit_is_never_another_number(tmp_path: Path) -> None:
    for path in _sound_files(tmp_path):
        if path.suffix == ".npz":  # safetensors has no checksum
            whole = path.read_bytes()
            for place in range(0, len(whole), 5):
                path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
                with contextlib.suppress(ArgumentError, UnsupportedDTypeError):
                    same(xl.load(path, backend="numpy"), SOUND)


def test_checksums_of_large_arrays_are_made_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    for size in ((8 << 20) - 129, (8 << 20) + 1, (11 << 20) + 77):
        x = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
        xl.save(path, {"x": x})
        with cores(4):
            same(xl.load(path, backend="numpy"), {"x": x})
        with path.open("r+b") as file:
            file.seek(-size // 2, os.SEEK_END)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 4]))
        with cores(4), pytest.raises(ArgumentError, match="checksum"):
            xl.load(path, backend="numpy")


def _damage(text: bytes, chance: np.random.Generator) -> bytes:
    """Cut, insert, delete, repeat, or overwrite by an extreme number, a digit or any byte."""
    at, other = (int(each) for each in chance.integers(0, len(text) or 1, 2))
    number = int(chance.choice([0, 2**31, 2**32 - 1])).to_bytes(4, "little")
    changes = (
        (b"", len(text)), (chance.bytes(5), 0), (b"", 20), (text[other : other + 30], 30), (number, 4),
        (bytes([48 + other % 10]), 1), (chance.bytes(1), 1),
    )  # fmt: skip
    new, dropped = changes[int(chance.integers(len(changes)))]
    return text[:at] + new + text[at + dropped :]


def test_mutated_files_end_in_errors_of_xferlibs_own(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    for path in _sound_files(tmp_path):
        whole = path.read_bytes()
        for _ in range(150):
            text = whole
            for _ in range(int(chance.integers(1, 4))):
                text = _damage(text, chance)
            path.write_bytes(text)
            with contextlib.suppress(xl.errors.XferError):
                found = xl.load(path, backend="numpy")
                if path.suffix == ".npz":
                    same(found, SOUND)


STRUCTURES = (
    "[]", "3", '{"version": 99}', '{"version": 1, "tree": {"array": "gone"}}',
    '{"version": 1, "tree": "array"}', '{"version": 1, "tree": {"dict": [[[], {"value": 1}]]}}',
    '{"version": 1, "tree": {"dict": [["", {"value": 1}], ["", {"value": 2}]]}}',
    '{"version": 1, "tree": {"value": {}}}', '{"version": ' + 5000 * "9" + "}",
    '{"version": 1, "tree": ' + 50_000 * '{"list": [',
)  # fmt: skip


def test_damaged_structures_are_refused(path: Path) -> None:
    for structure in STRUCTURES:
        if path.suffix == ".npz":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("xferlib.json", structure)
        else:
            from safetensors.numpy import save_file

            save_file({"a": np.ones(2)}, path, {"xferlib": structure})
        with pytest.raises(ArgumentError, match="version 99" if structure == '{"version": 99}' else "is damaged"):
            xl.load(path, backend="numpy")

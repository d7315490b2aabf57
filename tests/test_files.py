"""Trees of arrays in files: what is written comes back, and what cannot be is refused before anything is written."""

from __future__ import annotations

import collections
import dataclasses
import os
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import (
    ArgumentError,
    BackendUnavailableError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
)
from xferlib.testing import assert_same_bits

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
    lambda dtype, shape, seed: (
        np.random.default_rng(seed).integers(0, 2, (*shape, 16)).astype("uint8").view(dtype)
        if dtype != "bool"
        else np.random.default_rng(seed).integers(0, 2, shape).astype(bool)
    ),
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
    tree = {
        key: np.full(2, number)
        for number, key in enumerate(("\0", "a\0b", "a", "\\0", "__metadata__", "__metadata__'", "xferlib"))
    }
    xl.save(path, tree)
    found = xl.load(path)
    assert list(found) == list(tree)
    assert all(np.array_equal(xl.to_host(found[key]), each) for key, each in tree.items())


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
    x = np.arange(3.0)
    tree = {"p": Point(x, 2 * x), "l": Layer(3 * x, 0.5), "o": collections.OrderedDict(k=4 * x)}
    xl.save(path, tree)
    with pytest.raises(ArgumentError, match=r"Point.*like="):
        xl.load(path, backend="numpy")
    empty = np.empty(0)
    blank = {
        "p": Point(empty, empty.copy()),
        "l": Layer(empty.copy(), 7.0),
        "o": collections.OrderedDict(k=empty.copy()),
    }
    found = xl.load(path, like=blank, backend="numpy")
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
    with pytest.raises(UnsupportedDTypeError, match=r"bfloat16, which numpy does not have; give dtype='float32'"):
        xl.load(path, backend="numpy")
    with pytest.raises(UnsupportedDTypeError, match=r"bfloat16, which \.npz does not have; save to \.safetensors"):
        xl.save(tmp_path / "x.npz", {"x": x})


class Unknown:
    pass


REFUSED: list[tuple[Any, type[Exception], str]] = [
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


def test_wrong_names_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match=r"'x\.bin' ends neither in '\.npz' nor in '\.safetensors'"):
        xl.save(tmp_path / "x.bin", {})
    with pytest.raises(FileNotFoundError):
        xl.save(tmp_path / "no" / "x.npz", {})
    with pytest.raises(FileNotFoundError):
        xl.load(tmp_path / "x.npz")
    (tmp_path / "x.npz").write_bytes(b"PK and no more")
    with pytest.raises(ArgumentError, match=r"cannot be read as \.npz"):
        xl.load(tmp_path / "x.npz")
    np.savez(tmp_path / "o.npz", x=np.array([{}], object))
    with pytest.raises(ArgumentError, match="Python objects"):
        xl.load(tmp_path / "o.npz")
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    with pytest.raises(BackendUnavailableError, match=r"pip install .+\[safetensors\]'"):
        xl.save(tmp_path / "x.safetensors", {})


@pytest.mark.parametrize("content", [b"", b"nothing", b"\xff" * 64, b"\x02\x00\x00\x00\x00\x00\x00\x00{}" + b"x" * 9])
def test_a_damaged_file_of_safetensors(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("safetensors")
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ArgumentError, match=r"neither \.npz nor safetensors"):
        xl.load(tmp_path / "x")


def test_a_cut_file_is_refused(path: Path) -> None:
    xl.save(path, {"x": np.ones(1000)})
    path.write_bytes(path.read_bytes()[:4000])
    with pytest.raises(ArgumentError, match="load: "):
        xl.load(path)


def test_a_structure_of_a_later_version(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xferlib.json", '{"version": 99}')
    with pytest.raises(ArgumentError, match="version 99"):
        xl.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xferlib.json", '{"version": 1, "tree": {"array": "gone"}}')
    with pytest.raises(ArgumentError, match="damaged"):
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


def test_a_path_that_is_none_is_an_argument_error() -> None:
    for call in (lambda: xl.load(None), lambda: xl.load(b"x.npz"), lambda: xl.save({}, "x.npz")):  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="the path is"):
            call()

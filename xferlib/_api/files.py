"""Trees of arrays in files: ``.npz`` and safetensors with the names of a tree, beside its structure as JSON.

What is stored without compression is read where it lies in the file. What a file claims about itself is compared with
what it holds before memory is taken for it, since it may be a stranger's: sizes, headers, members that overlap, numbers
of bytes behind a compression. Checksums of ``.npz`` are verified, as `numpy.load` does; safetensors has none.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import math
import os
import secrets
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, cast

import numpy as np

from xferlib._core import dtypes, registry
from xferlib._core.arrays import Array, check_dtype
from xferlib._core.trees import Staying, flatten, parts
from xferlib._runtime.version import install_command
from xferlib.errors import (
    ArgumentError,
    BackendUnavailableError,
    OutOfMemoryError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
    XferError,
    quote,
)

HostArrays: TypeAlias = dict[str, np.ndarray[Any, Any]]

# The structure of a tree as text beside its arrays, which have names: so that a file gives the same tree back.

_SCALARS = (bool, int, float, str, type(None))
_ROOT = "array"
"""The name of an array that is the whole tree."""
_RESERVED = "__metadata__"
"""The entry of a file of safetensors that is no array."""
_VERSION = 1
_DEEPEST = 200
"""Containers within each other: JSON is read by a function that calls itself, three times for each."""
_NAME_MOST = 65_000
"""Bytes of a name: those of a zip file have at most 65,535."""
_KEY_BITS = 2000
"""Of a key that is a number: of longer ones Python may refuse to write the digits."""


class Names:
    """The arrays of a tree by their names: the keys and numbers that lead to each, divided by ``/``."""

    def __init__(self, tree: Any) -> None:
        self.arrays: dict[str, Array] = {}
        self.by_id: dict[int, str] = {}
        """The name of each array object; one that stands in several places has one."""
        self._structure = self._node(tree, ())

    def to_json(self) -> str:
        """The structure, as a line of JSON."""
        try:
            return json.dumps({"version": _VERSION, "tree": self._structure})
        except ValueError as error:
            raise ArgumentError(f"save: a number of the tree cannot be written ({error}); save it as a text") from error

    def _node(self, node: Any, path: tuple[Any, ...]) -> Any:
        cls = type(node)
        if cls in _SCALARS:
            return {"value": node}
        if len(path) > _DEEPEST:
            raise ArgumentError(
                f"save: {_where(path[:8])} leads more than {_DEEPEST} containers deep, or one of them holds itself; "
                "save a flatter tree"
            )
        if cls is dict:
            return {"dict": [[self._key(key, path), self._node(each, (*path, key))] for key, each in node.items()]}
        if cls is list or cls is tuple:
            return {cls.__name__: [self._node(each, (*path, number)) for number, each in enumerate(node)]}
        if registry.owner_of(node) is not None:
            return {"array": self._name(node, path)}
        children = [self._node(each, (*path, key)) for key, each in _children(node, path)]
        return {"object": cls.__name__, "children": children}

    def _key(self, key: Any, path: tuple[Any, ...]) -> Any:
        if type(key) not in (str, int) or (type(key) is int and key.bit_length() > _KEY_BITS):
            raise ArgumentError(
                f"save: the dict at {_where(path)} has the key {quote(key)}, and files take texts and whole numbers; "
                "give it such a key"
            )
        return key

    def _name(self, array: Array, path: tuple[Any, ...]) -> str:
        if id(array) in self.by_id:
            return self.by_id[id(array)]
        text = "/".join(map(str, path)).encode("utf-8", "backslashreplace").decode()  # half a pair has no encoding
        name = text.replace("\0", "\\0") or _ROOT  # at which a name in a zip file ends
        if (nbytes := len(name.encode())) > _NAME_MOST:
            raise ArgumentError(
                f"save: the keys that lead to {_where(path)} have {nbytes} bytes, and names in files up to "
                f"{_NAME_MOST}; give shorter ones"
            )
        while name in self.arrays or name == _RESERVED:  # as "a/b" is, beside "b" of "a"
            name += "'"
        self.by_id[id(array)], self.arrays[name] = name, array
        return name


def _children(node: Any, path: tuple[Any, ...]) -> Iterable[tuple[Any, Any]]:
    """The children of a class other than Python's usual containers, with names.

    Attributes beside the items or the fields of an object are among them if they hold arrays: the others come from the
    tree that it is read with.
    """
    inside = parts(node)
    if inside is None:
        raise UnsupportedArrayError(
            f"save: {_where(path)} is {quote(node)}: neither an array, nor a number, a text or None; leave it out, or "
            "convert it"
        )
    if any(type(each) is Staying for _, each in inside):
        raise UnsupportedArrayError(
            f"save: {_where(path)} is {quote(node)}, of which some arrays stay on the host; save them as a dict"
        )
    if not all(step.is_named for step, _ in inside):  # of a registered class, whose leaves are numbered
        return enumerate(flatten(node, moving="")[0])
    return [(step.key, each) for step, each in inside if not step.is_extra or _has_arrays(each)]


def _has_arrays(node: Any) -> bool:
    return any(registry.owner_of(leaf) is not None for leaf in flatten(node, moving="")[0])


def _where(path: tuple[Any, ...]) -> str:
    text = "/".join(map(str, path)) or "the tree itself"
    return text if len(text) <= 80 else f"{text[:80]}..."


def rebuild_tree(text: str | None, arrays: dict[str, Any], *, source: str) -> Any:
    """Make the tree of that structure; a dict of the arrays by their names where a file tells none."""
    if text is None:
        return arrays
    try:
        found = json.loads(text)
        if found["version"] != _VERSION:
            raise ArgumentError(
                f"load: {source} has a structure of version {quote(found['version'])}, and this xferlib reads "
                f"{_VERSION}; install a newer one"
            )
        return _build_node(found["tree"], arrays, source)
    except ArgumentError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"[:300]
        raise ArgumentError(f"load: the structure in {source} is damaged ({reason}); save it again") from error


def _build_node(node: dict[str, Any], arrays: dict[str, Any], source: str) -> Any:
    if "array" in node:
        return arrays[node["array"]]
    if "value" in node:
        if type(node["value"]) not in _SCALARS:
            raise ValueError("a value is neither text nor a number")
        return node["value"]
    if "dict" in node:
        found = {key: _build_node(each, arrays, source) for key, each in node["dict"]}
        if len(found) < len(node["dict"]):
            raise ValueError("a dict has a key twice")
        return found
    for kind in (list, tuple):
        if kind.__name__ in node:
            return kind(_build_node(each, arrays, source) for each in node[kind.__name__])
    raise ArgumentError(
        f"load: {source} holds a {str(node['object'])[:80]}, which a file does not tell how to make; give a tree of "
        "the same kind: xferlib.load(path, like=tree)"
    )


def fill_like(tree: Any, arrays: dict[str, Any], *, source: str) -> Any:
    """Put the arrays of a file into a tree as ``tree``, in the places of its own of the same names."""
    names = Names(tree)
    if names.arrays.keys() != arrays.keys():
        missing, more = sorted(names.arrays.keys() - arrays.keys()), sorted(arrays.keys() - names.arrays.keys())
        differences = "; ".join(
            f"{what} {', '.join(name[:80] for name in some[:5])}{', ...' if len(some) > 5 else ''}"
            for what, some in (("only the tree has", missing), ("only the file has", more))
            if some
        )
        raise ArgumentError(
            f"load: the tree of like= does not have the names of {source}: {differences}; give one that has"
        )
    leaves, rebuild = flatten(tree, moving="")
    return rebuild([arrays[names.by_id[id(leaf)]] if id(leaf) in names.by_id else leaf for leaf in leaves])


# NumPy's ``.npz``.

_STRUCTURE = "xferlib.json"
"""The member with the structure: no array, and so no name of one."""
_HEAD = struct.Struct("<26xHH")
"""The lengths of the name and of the extra field, in what precedes a member."""
_END, _END_MOST = b"PK\5\6", 22 + (1 << 16)
"""The first bytes of the table's end, and the most bytes of it."""
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_HEADER_MOST = 12_000
"""Bytes of an array's header, of which NumPy takes 10,000."""
_DEFLATED_MOST = 1032
"""Bytes that one byte of deflate can stand for."""
_STRUCTURE_LEAST, _STRUCTURE_RATIO = 1 << 20, 20
"""Bytes of the structure, which xferlib does not compress, and of what one byte of a compressed one may stand for: the
objects that it describes take as much again many times."""
_PART = 1 << 20
"""Bytes that are unpacked at once, into memory that grows with them."""


@contextlib.contextmanager
def _damage_as(path: Path, text: str, remedy: str) -> Iterator[None]:
    """Raise one of xferlib's errors where a damaged file leads libraries to errors of any kind."""
    try:
        yield
    except XferError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(f"load: the host has no memory for what {path} holds; load a part of it") from error
    except Exception as error:
        reason = (str(error) or type(error).__name__)[:300]
        raise ArgumentError(f"load: {path} {text} ({reason}); {remedy}") from error


def _write_npz(path: Path, arrays: HostArrays, structure: str) -> None:
    with zipfile.ZipFile(path, "x", allowZip64=True) as archive:
        archive.writestr(_STRUCTURE, structure)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(cast("Any", member), array, allow_pickle=False)


def _read_npz(path: Path) -> tuple[HostArrays, str | None]:
    """The arrays, over the file's memory where they lie in it as they are, and the structure."""
    arrays: HostArrays = {}
    structure = None
    with _damage_as(path, "cannot be read as .npz", "save it again"), zipfile.ZipFile(path) as archive:
        whole = memoryview(cast("Any", np.memmap(path, np.uint8, "r")))
        members = archive.infolist()
        _check_table(members, bytes(whole[-_END_MOST:]))
        for member in members:
            archive.open(member).close()  # compares what precedes it, its name too, with the table of the archive
            if member.filename == _STRUCTURE:
                most = max(_STRUCTURE_LEAST, _STRUCTURE_RATIO * member.compress_size)
                structure = _unpack(archive, member, most).decode()
            elif member.filename.endswith(".npy"):
                is_stored = member.compress_type == zipfile.ZIP_STORED
                data = _read_stored(member, whole) if is_stored else _unpack(archive, member, member.file_size)
                shape, dtype, order, start = _read_header(member, bytes(data[:_HEADER_MOST]))
                found = np.ndarray(shape, dtype, cast("Any", data), start, order=order)
                arrays[member.filename.removesuffix(".npy")] = found
    return arrays, structure


def _check_table(members: list[zipfile.ZipInfo], end: bytes) -> None:
    """Refuse what zipfile takes: a table with fewer members than it says, two of one name, or over the same bytes.

    A small file could have any number of the last ones.
    """
    counts = struct.unpack_from("<HH", end, end.rfind(_END) + 8)  # of this part of the archive, and of all
    if not {*counts} <= {len(members), 0xFFFF}:  # which stands for more than it can say
        raise ValueError(f"its table has {len(members)} members instead of {max(counts)}")
    if len({member.filename for member in members}) < len(members):
        raise ValueError("two members have one name")
    for one, two in pairwise(sorted(members, key=lambda member: member.header_offset)):
        if one.header_offset + _HEAD.size + one.compress_size > two.header_offset:
            raise ValueError(f"{quote(one.filename)} and {quote(two.filename)} overlap")


def _read_stored(member: zipfile.ZipInfo, whole: memoryview) -> memoryview:
    """The bytes of a member that lies in the file as it is, whose checksum is right."""
    begin = member.header_offset + _HEAD.size
    begin += sum(_HEAD.unpack(whole[member.header_offset : begin]))
    found = whole[begin : begin + member.file_size]
    if member.compress_size != member.file_size or len(found) != member.file_size:
        raise ValueError(f"{quote(member.filename)} is said to have {member.file_size} bytes, which it has not")
    if zlib.crc32(found) != member.CRC:
        raise ValueError(f"the checksum of {quote(member.filename)} is wrong")
    return found


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytearray:
    """Unpack a member, whose number of bytes and checksum are right."""
    name, size = quote(member.filename), member.file_size
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is compressed in another way than NumPy's")
    if size > most or size > _DEFLATED_MOST * member.compress_size:
        raise ValueError(f"{name} is said to have {size} bytes, and has {member.compress_size} in the file")
    found = bytearray()
    with archive.open(member) as packed:
        if member.filename != _STRUCTURE:
            found += packed.read(min(size, _HEADER_MOST))
            _read_header(member, bytes(found))  # before the rest is unpacked
        while part := packed.read(_PART):
            found += part
    if len(found) != size:
        raise ValueError(f"{name} has {len(found)} bytes instead of {size}")
    return found


def _read_header(member: zipfile.ZipInfo, start: bytes) -> tuple[tuple[int, ...], np.dtype[Any], Any, int]:
    """The shape, the dtype, the order and the header's length of the array that a member begins."""
    file, name = cast("Any", io.BytesIO(start)), quote(member.filename)
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"{name} has version {version}")
    try:
        shape, is_fortran, dtype = _HEADERS[version](file)
    except MemoryError as error:  # what Python's own parser calls brackets within each other
        raise ValueError("the header is not a description of an array") from error
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects")
    rest = member.file_size - file.tell()
    if min(shape, default=0) < 0 or not dtype.itemsize or math.prod(shape) * dtype.itemsize != rest:
        raise ValueError(f"{name} has {rest} bytes, and its header tells of shape {quote(shape)} and dtype {dtype}")
    return shape, dtype, "F" if is_fortran else "C", file.tell()


# The safetensors format, by its library.

_METADATA_KEY = "xferlib"
"""The entry of the file's metadata with the structure."""
_DTYPES = {
    "BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8", "U16": "uint16",
    "U32": "uint32", "U64": "uint64", "F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64",
    **{each.safetensors: name for name, each in dtypes.SMALL_FLOATS.items()},
    **{each.safetensors: name for name, each in dtypes.STORED.items() if each.safetensors},
}  # fmt: skip
"""The dtypes by the format's names."""
_NAMES = {name: theirs for theirs, name in _DTYPES.items()}


def _safetensors() -> ModuleType:
    try:
        return importlib.import_module("safetensors")
    except ImportError as error:
        raise BackendUnavailableError(
            f"files of safetensors need the package safetensors: {install_command('safetensors')}"
        ) from error


def _write_safetensors(path: Path, arrays: HostArrays, structure: str) -> None:
    library: Any = _safetensors()
    ready = {
        name: np.ascontiguousarray(
            each, each.dtype.newbyteorder("<") if dtypes.is_numpys(each.dtype) else each.dtype
        ).reshape(each.shape)
        for name, each in arrays.items()
    }
    specs = {
        name: library.TensorSpec(
            dtype=dtypes.name_of(each.dtype), shape=each.shape, data_ptr=each.ctypes.data, data_len=each.nbytes
        )
        for name, each in ready.items()
    }
    library.serialize_file(specs, str(path), metadata={_METADATA_KEY: structure})


def _read_safetensors(path: Path) -> tuple[HostArrays, str | None]:
    """The arrays over the file's memory, and the structure."""
    arrays: HostArrays = {}
    with _damage_as(path, "is neither .npz nor safetensors", "give one of the two"):
        with path.open("rb") as file:
            if file.read(9)[8:] != b"{":  # behind the header's length; what is no such file asks for no package
                raise ValueError("no header of either")
        library: Any = _safetensors()
        library.safe_open(str(path), framework="np")  # checks the header, before any of it is read here
        whole = memoryview(cast("Any", np.memmap(path, np.uint8, "r")))
        start = 8 + int.from_bytes(whole[:8], "little")
        header = dict(json.loads(bytes(whole[8:start]), object_pairs_hook=_refuse_twins))
        metadata = header.pop("__metadata__", None) or {}
        for name, entry in header.items():
            dtype = _DTYPES.get(entry["dtype"])
            if dtype is None:
                raise UnsupportedDTypeError(
                    f"load: {quote(name)} in {path} is {quote(entry['dtype'])}, which xferlib does not know; read it "
                    "by safetensors itself"
                )
            shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
            kind = check_dtype(dtype, what=f"load: {quote(name)} in {path}")
            if entry["dtype"] == "F4":  # of which the format counts each, and an element has two
                shape = (*shape[:-1], shape[-1] // 2)
            if math.prod(shape) * kind.itemsize != end - begin:
                raise ValueError(f"{end - begin} bytes for an array of shape {quote(shape)} and dtype {kind}")
            arrays[name] = np.ndarray(shape, kind, cast("Any", whole), start + begin)
    return arrays, metadata.get(_METADATA_KEY)


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of these, of which no two may have one key: the library may have checked the other."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("two entries have one name")
    return found


# Saving and loading: everything is checked before a file is written, and before anything is copied to a device.

_NPZ, _SAFETENSORS = ".npz", ".safetensors"
_ZIP, _NPY = b"PK", b"\x93NUMPY"
"""The first bytes of files."""


def path_of(path: Any, call: str) -> Path:
    """The path that a user has given to ``call``."""
    name = call.partition("(")[0]
    given = path.__fspath__() if isinstance(path, os.PathLike) else path
    if not isinstance(given, str):
        raise ArgumentError(f"{name}: the path is {type(path).__name__}; write {call}, the file's name first")
    if "\0" in given:
        raise ArgumentError(f"{name}: the path {quote(given)} holds a null character; give a name without")
    try:
        os.fsencode(given)
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{name}: no file can have the name {quote(given)} ({error}); give another") from error
    return Path(given)


def save(path: str | os.PathLike[str], tree: Any, fetch: Callable[[Any], Any]) -> None:
    """See `xferlib.tree.save`; ``fetch`` copies the arrays of a dict to the host."""
    path = path_of(path, "save(path, tree)")
    if path.suffix not in (_NPZ, _SAFETENSORS):
        raise ArgumentError(
            f"save: {path.name!r} ends neither in {_NPZ!r} nor in {_SAFETENSORS!r}; give one of the two"
        )
    names = Names(tree)
    for name, array in names.arrays.items():
        _check_format(name, array, path.suffix)
    if path.suffix == _SAFETENSORS:
        _safetensors()
    if not path.parent.is_dir():
        raise FileNotFoundError(f"save: {path.parent} is not a folder; make it first")
    arrays: HostArrays = fetch(names.arrays)
    structure = names.to_json()
    with _replace_file(path) as new:
        if path.suffix == _NPZ:
            _write_npz(new, arrays, structure)
        else:
            _write_safetensors(new, arrays, structure)


@contextlib.contextmanager
def _replace_file(path: Path) -> Iterator[Path]:
    """A new file beside ``path``, which takes its place when it is on the disk.

    What was at ``path`` stays as it is if anything fails, Ctrl-C included.
    """
    target = Path(os.path.realpath(path))  # where a link leads
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield beside
        with beside.open("rb+") as written:
            os.fsync(written.fileno())
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def _check_format(name: str, array: Any, suffix: str) -> None:
    """Refuse an array of a dtype that the format has not."""
    owner = registry.owner_of(array)
    assert owner is not None
    dtype = check_dtype(owner.view(array).dtype, what=name)
    if suffix == _NPZ and dtype.isbuiltin == 2:  # one of ml_dtypes', which NumPy would read again as bytes
        raise UnsupportedDTypeError(
            f"save: {name} is {dtypes.name_of(dtype)}, which {_NPZ} does not have; save to {_SAFETENSORS}"
        )
    if suffix == _SAFETENSORS and dtypes.name_of(dtype) not in _NAMES:
        raise UnsupportedDTypeError(
            f"save: {name} is {dtypes.name_of(dtype)}, which the safetensors format does not have; convert it, or save "
            "to .npz"
        )


def load(path: Path, like: Any, send: Callable[[Any], Any]) -> Any:
    """See `xferlib.tree.load`; ``send`` copies the arrays of a dict to the device."""
    with path.open("rb") as file:
        start = file.read(len(_NPY))
    if start == _NPY:
        raise ArgumentError(f"load: {path} is an .npy file, of one array; take xferlib.to_device(numpy.load(path))")
    arrays, text = _read_npz(path) if start.startswith(_ZIP) else _read_safetensors(path)
    for name, array in arrays.items():
        check_dtype(array.dtype, what=f"load: {quote(name)} in {path}")

    def build(found: dict[str, Any]) -> Any:
        if like is None:
            return rebuild_tree(text, found, source=path.name)
        return fill_like(like, found, source=path.name)

    build(arrays)  # raises before anything is copied
    return build(send(arrays))

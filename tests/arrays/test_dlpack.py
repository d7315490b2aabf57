"""Exchange of arrays with other libraries over one memory, and of copies in host memory."""

from __future__ import annotations

import functools
import gc
import math
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import xferlib as xl
from tests.arrays.conftest import Space, opened, same
from tests.needed import need
from xferlib.errors import ArgumentError, UnsupportedArrayError

X = np.arange(24, dtype="float32").reshape(2, 3, 4)
VIEWS: list[Callable[[Any], Any]] = [
    lambda x: x, lambda x: x[:, ::2], lambda x: x[1], lambda x: x[0, :, 1:3].T, lambda x: x[:, :0],
    lambda x: x[1, 2, 3], lambda x: x[::-1, :, ::-1], lambda x: x[0, 1:, ::-2],
]  # fmt: skip


@pytest.fixture
def shared_memory(plugins: object) -> Iterator[Space]:
    """A namespace over a library that takes memory of the host."""
    yield from opened("vendor")


class Consumer:
    """Gives NumPy an array's capsule, asked for with options of its own."""

    def __init__(self, array: Any, **options: Any) -> None:
        self.array = array
        self.options = options

    def __dlpack__(self, **given: Any) -> Any:
        return self.array.__dlpack__(**{**given, **self.options})

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


# --- to other libraries


@pytest.mark.parametrize("name", ["bare", "vendor", "sim", "pycuda"])
def test_an_explicit_copy_in_host_memory(plugins: object, name: str) -> None:
    for space in opened(name):
        d = space.put(X)
        for view in VIEWS:
            same(np.from_dlpack(Consumer(view(d), dl_device=(1, 0), copy=None)), view(X))
        made = np.from_dlpack(Consumer(d, dl_device=(1, 0), copy=True))
        made[...] = 0
        same(space.get(d), X)


@pytest.mark.parametrize("options", [{"dl_device": (2, 5)}, {"copy": False}, {"stream": 7}])
def test_what_cannot_be_copied_to_the_host_so_is_a_buffer_error(plugins: object, options: dict[str, Any]) -> None:
    d: Any = xl.to_device(X, backend="sim")
    with pytest.raises(BufferError, match="__dlpack__: "):
        d.__dlpack__(**{"dl_device": (1, 0), **options})


@pytest.mark.parametrize("name", ["max_version", "dl_device"])
@pytest.mark.parametrize(
    "value", [object(), math.nan, 1 << 63, (1,), (1, 0, 0), ("1", 0)], ids=lambda value: type(value).__name__
)
def test_what_is_not_a_pair_of_integers_is_refused_by_name(bare: Space, name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"__dlpack__: {name}=.* is not a pair of integers"):
        bare.put(np.arange(3)).__dlpack__(**{name: value})


def test_numpy_reads_and_writes_the_memory(bare: Space) -> None:
    d = bare.put(X)
    part = np.from_dlpack(d[:, 1:])
    part[0, 0, 0] = 99
    assert bare.get(d)[0, 1, 0] == 99


@pytest.mark.parametrize("version", [None, (1, 0), (0, 8)])
def test_read_only_arrays_are_marked_or_copied(bare: Space, version: Any) -> None:
    d = bare.put(X[0])
    spread = bare.xp.broadcast_to(d, (5, 3, 4))
    found = np.from_dlpack(Consumer(spread, max_version=version, copy=None))
    same(found, np.broadcast_to(X[0], (5, 3, 4)))
    assert (found.strides[0] == 0) == (version == (1, 0))  # else a copy
    assert not found.flags.writeable  # as NumPy takes all that has no version
    same(bare.get(d), X[0])
    if version != (1, 0):
        with pytest.raises(BufferError, match="read-only"):
            spread.__dlpack__(copy=False, max_version=version)


def test_reversed_arrays_are_copied_for_a_consumer(bare: Space) -> None:
    d = bare.put(X)
    same(np.from_dlpack(d[::-1]), X[::-1])
    with pytest.raises(BufferError, match="strides"):
        d[::-1].__dlpack__(copy=False)


def test_torch_takes_every_view(space: Space) -> None:
    torch = pytest.importorskip("torch")
    if space.name == "sim" or (space.name == "pycuda" and not torch.cuda.is_available()):
        pytest.skip("torch does not see this device")
    for dtype in ("float32", "bool", "int8", "float16", "float64", "complex64"):
        x = X.astype(dtype)
        d = space.put(x)
        for view in VIEWS:
            same(torch.from_dlpack(view(d)).cpu().numpy(), view(x))
        shared = torch.from_dlpack(d[:, ::2].T)
        shared[0, 0, 0] = True
        del shared
        assert space.get(d)[0, 0, 0] == 1


def test_torchs_namespace_never_hands_torch_a_negative_stride(plugins: object) -> None:
    """Torch ends the process at one."""
    xp = xl.get_array_module(pytest.importorskip("torch").ones(1))
    x = np.arange(6.0).reshape(2, 3)
    read_only = x.copy()
    read_only.flags.writeable = False
    for given in (x[::-1], x[:, ::-1], x.T[::-1], read_only, x.astype(">f8"), xl.to_device(x, backend="bare")[::-1]):
        for function in (xp.from_dlpack, xp.asarray):
            for copy in (None, True):
                found = function(given, copy=copy)
                np.testing.assert_array_equal(xl.to_host(found), xl.to_host(given))
        with pytest.raises(BufferError, match="leave copy out"):
            xp.from_dlpack(given, copy=False)
    shared = xp.from_dlpack(x, copy=False)
    shared += 1
    assert x[0, 0] == 1
    for given in (x, x[::-1]):
        other = Consumer(given)  # of no backend
        for function in (xp.from_dlpack, xp.asarray):
            np.testing.assert_array_equal(xl.to_host(function(other)), given)
    with pytest.raises(BufferError):
        xp.from_dlpack(Consumer(x[::-1]), copy=False)


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0)])
def test_torch_takes_a_capsule_that_is_handed_out_once(version: Any) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.int8)

    class Once:
        capsules: ClassVar = [tensor.__dlpack__(max_version=version)]

        def __dlpack__(self, **options: Any) -> Any:
            return self.capsules.pop()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    found: Any = xl.get_array_module(tensor).from_dlpack(Once())
    assert found.data_ptr() == tensor.data_ptr()
    assert found.tolist() == tensor.tolist()


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_that_is_not_taken_frees_its_array(bare: Space, version: Any) -> None:
    d = bare.put(X)
    kept = weakref.ref(d)
    capsule = d.__dlpack__(max_version=version)
    del d
    gc.collect()
    assert kept() is not None
    del capsule
    gc.collect()
    assert kept() is None


# --- from other libraries


@pytest.mark.parametrize("library", ["numpy", "torch", "bare"])
def test_memory_of_another_library_is_taken_as_it_lies(shared_memory: Space, library: str) -> None:
    need(library)
    theirs: Any = xl.to_device(X, device=f"{library}:cpu")
    for view in VIEWS[:6]:
        same(shared_memory.get(shared_memory.xp.from_dlpack(view(theirs))), view(X))
    ours = shared_memory.xp.from_dlpack(theirs[:, 1:])
    ours[0, 0, 0] = 99
    assert xl.to_host(theirs)[0, 1, 0] == 99


def test_reversed_arrays_are_taken_as_they_lie(shared_memory: Space) -> None:
    x = X.copy()
    ours = shared_memory.xp.from_dlpack(x[:, ::-1])
    same(shared_memory.get(ours), x[:, ::-1])
    ours[0, 0, 0] = 99
    assert x[0, 2, 0] == 99


class Foreign:
    """An array of a library that is no backend, of the newest DLPack or of one without versions."""

    def __init__(self, array: Any, *, has_versions: bool = True) -> None:
        self.array = array
        self.has_versions = has_versions

    def __dlpack__(self, **options: Any) -> Any:
        if not self.has_versions and "max_version" in options:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, index = self.array.__dlpack_device__()
        return int(kind), int(index)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "complex128"])
def test_objects_of_no_backend_share_their_memory(shared_memory: Space, dtype: str) -> None:
    theirs: Any = X.astype(dtype)
    xp, foreign = shared_memory.xp, functools.partial(Foreign, has_versions=dtype not in ("int8", "float32"))
    take = lambda x, **options: xp.from_dlpack(foreign(np.asarray(x)), **options)
    for view in VIEWS:
        same(shared_memory.get(take(view(theirs))), view(theirs))
        same(shared_memory.get(take(view(theirs), copy=True)), view(theirs))
    take(theirs[:, 1:])[0, 0, 0] = 0
    assert theirs[0, 1, 0] == 0
    take(theirs, copy=True)[1, 0, 0] = 0
    assert theirs[1, 0, 0] == np.array(12, dtype)
    same(shared_memory.get(take(theirs, device="vendor:cpu", copy=False)), theirs)


@pytest.mark.parametrize("lend", [lambda x: x, Foreign], ids=["of a backend", "of none"])
def test_memory_is_released_with_the_last_array_over_it(shared_memory: Space, lend: Callable[[Any], Any]) -> None:
    theirs: Any = xl.to_device(X, backend="bare")
    kept = weakref.ref(theirs)
    ours = shared_memory.xp.from_dlpack(lend(theirs))[1:]
    del theirs
    gc.collect()
    assert kept() is not None
    same(shared_memory.get(ours + 0), X[1:])
    del ours
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("lend", [lambda x: x, Foreign], ids=["of a backend", "of none"])
def test_read_only_memory_is_copied_and_so_is_any_on_demand(shared_memory: Space, lend: Callable[[Any], Any]) -> None:
    x = X.copy()
    shared_memory.xp.from_dlpack(lend(x), copy=True)[0, 0, 0] = 99
    x.flags.writeable = False
    shared_memory.xp.from_dlpack(lend(x))[0, 0, 0] = 99
    assert x[0, 0, 0] == 0
    with pytest.raises(BufferError, match="copy=False"):
        shared_memory.xp.from_dlpack(lend(x), copy=False)


def test_a_bfloat16_of_no_backend_is_shared(shared_memory: Space) -> None:
    torch, ml_dtypes = pytest.importorskip("torch"), pytest.importorskip("ml_dtypes")
    x = torch.ones(3, dtype=torch.bfloat16)
    found = shared_memory.get(shared_memory.xp.from_dlpack(Foreign(x)))
    assert found.dtype == ml_dtypes.bfloat16
    assert found.tolist() == [1, 1, 1]


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_an_object_of_no_backend_is_refused_for_its_device_or_dtype(shared_memory: Space) -> None:
    class Elsewhere(Foreign):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 10, 3

    with pytest.raises(UnsupportedArrayError, match="device 3 of DLPack's kind 10"):
        shared_memory.xp.from_dlpack(Elsewhere(X))
    torch = pytest.importorskip("torch")
    with pytest.raises(UnsupportedArrayError, match="type 5 with 32 bits"):
        shared_memory.xp.from_dlpack(Foreign(torch.ones(3, dtype=torch.complex32)))


@pytest.mark.parametrize("name", ["sim", "pycuda"])
def test_a_device_takes_a_copy_of_an_object_in_host_memory(plugins: object, name: str) -> None:
    for space in opened(name):
        for options in ({"copy": True}, {"device": xl.get_device()}):
            same(space.get(space.xp.from_dlpack(Foreign(X[:, ::2]), **options)), X[:, ::2])
        with pytest.raises(UnsupportedArrayError, match="cannot share"):
            space.xp.from_dlpack(Foreign(X))


def test_memory_of_another_device_is_refused(shared_memory: Space) -> None:
    with pytest.raises(UnsupportedArrayError, match="cannot share"):
        shared_memory.xp.from_dlpack(xl.to_device(X, backend="sim"))
    with pytest.raises(UnsupportedArrayError, match="asarray"):
        shared_memory.xp.from_dlpack([1, 2])


# --- on CUDA


@pytest.fixture
def cuda(plugins: object) -> Iterator[Space]:
    yield from opened("pycuda")


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_cuda_libraries_share_memory_in_the_order_of_their_streams(cuda: Space, library: str) -> None:
    status = xl.available_backends()[library]
    if not status.is_available or not any("cuda" in device for device in status.devices):
        pytest.skip(f"{library} has no CUDA device")
    big = np.ones(1 << 22, "float32")
    theirs: Any = xl.to_device(big, backend=library)
    with xl.use_backend(library), xl.Stream():
        for _ in range(50):
            theirs = theirs * 1.0 + 1.0
        with xl.use_backend("pycuda"), xl.Stream():
            ours = cuda.xp.from_dlpack(theirs)
            same(cuda.get(ours), big + 50)
            ours[...] = 7.0
            back = xl.get_array_module(theirs).from_dlpack(ours)
            same(xl.to_host(back), np.full_like(big, 7))
        ours = cuda.xp.from_dlpack(Foreign(theirs))
        same(cuda.get(ours), np.full_like(big, 7))
        ours[...] = 8.0  # on PyCUDA's stream, which is not the current one of the other library
        xl.synchronize(xl.device_of(ours))
        same(xl.to_host(theirs), np.full_like(big, 8))
    view = xl.to_device(X, backend=library)[:, ::2]
    same(cuda.get(cuda.xp.from_dlpack(view)), X[:, ::2])
    assert cuda.xp.from_dlpack(view).strides == (48, 32, 4)

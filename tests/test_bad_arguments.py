"""Whatever nonsense a public function is given, it says so itself, and asks no stranger's object for its text."""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.errors import ArgumentError, UnsupportedArrayError, XferError, quote


class Hostile:
    """Asked for its text, its length or its value, it fails as nothing else does."""

    def _fail(self, *_: Any) -> Any:
        raise SystemError("a stranger's object was asked")

    __repr__ = __str__ = __len__ = __eq__ = __bool__ = __iter__ = __format__ = _fail
    __hash__ = object.__hash__


class Ghost:
    """Whatever protocol it is asked for, it raises what none documents."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        raise self.error(name)

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise self.error("a stranger's object was asked")

    __array__ = __len__ = __iter__ = __getitem__ = __index__ = __int__ = __float__ = __complex__ = __bool__ = _fail
    __dlpack__ = __dlpack_device__ = __cuda_stream__ = __fspath__ = __hash__ = __eq__ = _fail
    __cuda_array_interface__ = __array_interface__ = shape = dtype = ndim = device = kind = property(_fail)


def nested(kind: type, depth: int = 1000) -> Any:
    """A container in a container, and so on: deeper than Python recurses."""
    found: Any = 1
    for _ in range(depth):
        found = {"a": found} if kind is dict else kind([found])
    return found


WITHIN_ITSELF: list[Any] = []
WITHIN_ITSELF.append(WITHIN_ITSELF)


class Pretender:
    """Claims to be a stream, and gives rubbish."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __cuda_stream__(self) -> Any:
        return self.given


RUBBISH: dict[str, Any] = {
    "nothing": None, "object": object(), "empty text": "", "text": "cuda:\x00:1", "-1": -1, "1e300": 1e300,
    "nan": float("nan"), "huge": 1 << 5000, "-huge": -(1 << 5000), "bytes": b"x" * 500, "class": int,
    "list": [[1], [1, 2]], "objects": np.array([object(), None], dtype=object), "texts": np.array(["a", "b"]),
    "void": np.zeros(2, "V3"), "hostile": Hostile(), "dict": {"a": 1}, "module": np, "set": {1, 2},
    "within itself": WITHIN_ITSELF, "deep list": nested(list), "deep tuple": nested(tuple), "deep dict": nested(dict),
    "ghost": Ghost(KeyError), "recursive ghost": Ghost(RecursionError), "NUL": "\0", "surrogate": "\ud800",
    "2**63": 1 << 63, "-2**63-1": -(1 << 63) - 1, "inf": float("inf"), "complex": 1j, "array": np.ones(3),
    "no axes": np.array(1.0), "flags": np.array([True, False]), "nothing in it": [], "empty dict": {},
    "slice": slice(3), "function": lambda *_: None, "ellipsis": ..., "dtype": np.dtype("f4"), "decimal": Decimal(1),
    "true": True, "NumPy's scalar": np.float32(2), "NumPy's flag": np.bool_(1), "long double": np.longdouble(1),
    "masked": np.ma.masked_array([1.0], mask=True),
}  # fmt: skip
STREAMS = [
    (), (0,), (0, None), (0, -1), (0, 1 << 80), (0, "1"), (0, 1.5), (0, True), (None, 3), 7, None, "ab", Hostile(),
]  # fmt: skip


Case = tuple[str, Callable[[Any], Any]]


def signature_of(function: Any) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:  # one that wraps a function of torch's in C, which has none
        try:
            return inspect.signature(function, follow_wrapped=False)
        except ValueError:  # one of PyCUDA's own, in C++
            return inspect.Signature()


def each_argument(name: str, function: Any, /, *args: Any, **options: Any) -> Iterator[Case]:
    """One case for each argument of a function, those of a sound call and those that it leaves out."""
    signature = signature_of(function)
    try:
        given = signature.bind(*args, **options)
    except TypeError:  # a method of PyCUDA's own, which needs more
        return
    for number in range(len(given.args)):
        kept = [*given.args]
        yield f"{name}({number})", lambda v, n=number, a=kept: function(*a[:n], v, *a[n + 1 :], **given.kwargs)
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for each in signature.parameters.values():
        if each.kind in kinds and (each.name not in given.arguments or each.name in given.kwargs):
            yield f"{name}({each.name}=)", lambda v, o=each.name: function(*given.args, **{**given.kwargs, o: v})


def kernels(d: Any) -> Iterator[Case]:
    """The definitions of kernels, and their calls."""
    copied = xl.elementwise("T x", "T y", "y = x", name="copied")
    yield from each_argument("elementwise", xl.elementwise, "T x", "T y", "y = x", name="k", math="exact")
    yield "elementwise(function)", xl.elementwise
    for option in ("name", "math"):
        yield f"elementwise(function, {option}=)", lambda v, o=option: xl.elementwise(lambda x: x, **{o: v})(d)
    yield from each_argument("kernel", copied, d)
    for option in ("out", "size", "range", "slice", "block_size", "stream", "nothing"):
        yield f"kernel({option}=)", lambda v, o=option: copied(d, **{o: v})
    sound = {"map_expr": "x", "reduce_expr": "a + b", "identity": "0"}
    yield from each_argument("reduction", xl.reduction, "T x", "T y", **sound)
    yield from each_argument("reduction(...)", xl.reduction("T x", "T y", **sound), d, axis=0)
    for name in ("sum", "argmax", "var", "norm"):
        yield from each_argument(f"reductions.{name}", getattr(xl.kernels.reductions, name), d, axis=0)


def others(d: Any) -> Iterator[Case]:
    """The pool, a transfer, and a communicator of one rank."""
    yield from each_argument("pool.empty", xl.pinned_pool().empty, (64,), np.dtype("f4"))
    transfer = xl.to_host_async(d)
    yield "Transfer.wait", transfer.wait
    comm = xl.distributed.init("single")
    for name in ("all_reduce", "broadcast", "all_gather"):
        yield from each_argument(f"comm.{name}", getattr(comm, name), d)
    for name in ("reduce_scatter", "all_to_all"):
        yield from each_argument(f"comm.{name}", getattr(comm, name), xl.zeros((1, 3)))
    yield "comm.split(color)", comm.split
    yield "comm.split(key)", lambda v: comm.split(0, v)
    yield from each_argument("mean_grads", xl.distributed.mean_grads, comm, [d])
    yield from each_argument("broadcast_params", xl.distributed.broadcast_params, comm, [d])
    yield "pairwise_sum", xl.distributed.pairwise_sum
    yield "init(driver)", xl.distributed.init
    yield "init(timeout=)", lambda v: xl.distributed.init("single", timeout=v)


ODD = (
    "nothing", "object", "text", "nan", "2**63", "ghost", "recursive ghost", "deep list", "within itself", "surrogate",
    "array", "empty dict",
)  # fmt: skip
"""Some of the rubbish, for functions of which there are many."""


def namespace(*, is_sound: bool = False) -> Iterator[Case]:
    """Each argument of each function of the Array API that the current backend's namespace has; or the sound calls."""
    d, v, i = xl.to_device(np.eye(2) + 1), xl.to_device(np.arange(3.0)), xl.to_device(np.array([0, 1]))
    xp: Any = xl.get_array_module(d)
    standard: Any = xl.get_array_module(xl.zeros(1, backend="sim"))
    sound: dict[str, tuple[Any, ...]] = {
        **dict.fromkeys(("zeros", "ones", "empty", "eye"), (2,)), **dict.fromkeys(("concat", "stack"), ([d, d],)),
        "isdtype": (xp.float32, "real floating"),
        **dict.fromkeys(("fftfreq", "rfftfreq"), (3,)),
        **dict.fromkeys(("outer", "cross", "searchsorted"), (v, v)), "arange": (0, 3, 1), "asarray": ([1, 2],),
        "astype": (d, xp.float64), "broadcast_shapes": ((2, 2), (2,)), "broadcast_to": (d, (2, 2, 2)),
        "can_cast": (xp.float32, xp.float64), "clip": (d, 0, 1), "finfo": (xp.float32,), "full": (2, 1),
        "full_like": (d, 1), "iinfo": (xp.int32,), "linspace": (0, 1, 3), "matrix_power": (d, 2), "moveaxis": (d, 0, 1),
        "permute_dims": (d, (1, 0)), "repeat": (d, 2), "reshape": (d, (4,)), "roll": (d, 1), "squeeze": (d[:1], 0),
        "take": (v, i), "take_along_axis": (d, xl.to_device(np.zeros((2, 2), "i8"))), "tile": (d, (1, 1)),
        "where": (d > 1, d, d), "array_split": (d, 2), "split": (d, 2), "swapaxes": (d, 0, 1), "bincount": (i,),
        "digitize": (v, v), "interp": (v, v, v), "einsum": ("ij->ji", d), "pad": (d, 1),
        **dict.fromkeys(("hstack", "vstack", "dstack", "column_stack"), ([d, d],)),
        **dict.fromkeys(("percentile", "quantile", "nanpercentile", "nanquantile"), (d, 0.5)),
    }  # fmt: skip
    for part in ("", "linalg.", "fft."):
        within = operator.attrgetter(part[:-1]) if part else lambda module: module
        for name in within(standard).__all__:
            function = getattr(within(xp), name)
            if not inspect.isfunction(function):
                continue
            parameters = [
                each for each in signature_of(function).parameters.values() if each.kind < each.VAR_POSITIONAL
            ]
            needed = sum(each.default is each.empty for each in parameters)
            given = sound.get(name, (i if "bitwise" in name else d,) * max(needed, 1))
            options = {"axis": 0} if name in ("take", "take_along_axis", "cumulative_sum", "cumulative_prod") else {}
            if is_sound:
                yield part + name, lambda _, f=function, a=given, o=options: f(*a, **o)
            else:
                yield from each_argument(part + name, function, *given, **options)


def methods() -> Iterator[Case]:
    """Each argument of the methods of an array whose methods are ours."""
    x: Any = xl.to_device(np.eye(2))
    i = xl.to_device(np.array([0, 1]))
    sound: dict[str, tuple[Any, ...]] = {
        "astype": ("f4",), "dot": (x,), "fill": (1,), "repeat": (2,), "reshape": ((4,),), "swapaxes": (0, 1),
        "take": (i,), "to_device": (xl.get_device(),),
    }  # fmt: skip
    pycudas = [
        each for each in type(x).__mro__ if each.__module__.startswith("pycuda")
    ]  # whose methods keep their rules
    for name in [each for each in dir(x) if not each.startswith("_")]:
        if callable(method := getattr(x, name)) and not any(name in vars(each) for each in pycudas):
            yield from each_argument(f"x.{name}", method, *sound.get(name, ()))
    yield "x[]", x.__getitem__
    yield "x[] = 1", lambda v: x.__setitem__(v, 1)
    yield "x[0] =", lambda v: x.__setitem__(0, v)
    yield "x.__dlpack__", lambda v: x.__dlpack__(dl_device=v)


def functions() -> Iterator[Case]:
    """Each argument of each public function and method by name, the others being sound."""
    x = np.arange(6, dtype=np.float32)
    d = xl.to_device(x)
    stream, event, rng, device = xl.Stream(), xl.Event(), xl.random.Generator(1), xl.get_device()
    stream.record(event)
    for name in ("to_device", "to_device_async", "pinned_array", "pinned_empty_like", "explain", "pin"):
        yield from each_argument(name, getattr(xl, name), x)
    for name in ("to_host", "to_host_async", "empty_like", "zeros_like", "device_of", "get_backend",
                 "get_array_module", "common", "full_like", "asarray"):  # fmt: skip
        yield from each_argument(name, getattr(xl, name), *((d, 1) if name == "full_like" else (d,)))
    for name in ("empty", "zeros", "ones", "pinned_empty", "pinned_zeros", "arange", "eye"):
        yield from each_argument(name, getattr(xl, name), 3)
    for name in ("Device", "Stream", "Event", "use_backend", "synchronize", "current_stream", "pinned_pool", "trace",
                 "get_device"):  # fmt: skip
        yield from each_argument(name, getattr(xl, name))
        yield name, getattr(xl, name)
    yield from each_argument("tree.to_device", xl.tree.to_device, [x])
    yield from each_argument("tree.to_host", xl.tree.to_host, [d])
    yield "pin", lambda v: xl.pin(v).__enter__()
    yield "common(d, x)", lambda v: xl.common(d, v)
    yield from each_argument("copy_to", xl.copy_to, d, device)
    yield from each_argument("astype", xl.astype, d, "float32")
    yield from each_argument("arange", xl.arange, 0, 3, 1)
    yield from each_argument("linspace", xl.linspace, 0, 1, 3)
    yield from each_argument("eye", xl.eye, 3, 3, 1)
    yield from each_argument("full", xl.full, 3, 1)
    yield from each_argument("concat", xl.concat, [d])
    yield "concat(element)", lambda v: xl.concat([d, v])
    over = {"dtype": "float32", "owner": None, "backend": None, "device": None}
    yield from each_argument("array_over", xl.array_over, 4096, 3, **over)
    yield from each_argument("default_rng", xl.random.default_rng)
    yield from each_argument("integers", rng.integers, 0, 3, size=2)
    for name in ("uniform", "normal", "random"):
        yield from each_argument(name, getattr(rng, name), size=2)
    for name in ("permutation", "spawn", "set_state"):
        yield name, getattr(rng, name)
    yield "attribute", device.attribute
    yield "Event.from_ipc_handle", xl.Event.from_ipc_handle
    for name in ("timing", "blocking", "interprocess"):
        yield f"Event({name}=)", lambda v, o=name: stream.record(xl.Event(**{o: v}))
    for call in (stream.call, stream.wait, stream.record, event.elapsed_ms, xl.Stream.from_any):
        yield call.__name__, call
    source = 'extern "C" __global__ void k(float *x, float2 v, int n) {}'
    module = xl.raw_module(source)
    kernel = module.get_function("k", cpu=lambda *_: None)
    for name in ("source", "path", "options", "names", "types"):
        given = {} if name == "path" else {"source": source}
        yield f"raw_module({name}=)", lambda v, o=name, g=given: xl.raw_module(**{**g, o: v})
    yield "get_function(name)", module.get_function
    yield "get_function(signature)", lambda v: module.get_function("k", v)
    for name in ("name", "dtype", "backend", "device"):
        yield f"get_global({name}=)", lambda v, o=name: module.get_global(**{"name": "x", o: v})
    yield "occupancy(block)", kernel.occupancy
    for number, name in enumerate(("x", "v", "n")):
        sound_args = [d, (1, 2), 3]
        yield f"kernel({name})", lambda v, n=number, a=sound_args: kernel(1, 1, [*a[:n], v, *a[n + 1 :]])
    yield "kernel(cooperative=)", lambda v: kernel(1, 1, (d, (1, 2), 3), cooperative=v)
    running = xl.scan("a + b", neutral="0")
    yield from each_argument("scan", xl.scan, "a + b", neutral="0")
    for name in ("x", "segments", "exclusive", "out"):
        yield f"scan(...)({name})", lambda v, o=name: running(v) if o == "x" else running(d, **{o: v})
    yield "result(timeout=)", lambda v: xl.to_host_async(d).result(timeout=v)
    yield "prefetch(x)", xl.prefetch
    for name in ("depth", "device"):
        yield f"prefetch({name}=)", lambda v, o=name: xl.prefetch([x], **{o: v})
    for name in ("chunk_rows", "out", "devices", "depth", "start"):
        yield f"stream_map({name}=)", lambda v, o=name: xl.stream_map(lambda c: c, x, **{"chunk_rows": 2, o: v})
    for setting in xl.configure().__dataclass_fields__:
        yield f"configure({setting}=)", lambda v, n=setting: xl.configure(**{n: v})


def refuses_well(call: Callable[[Any], Any], given: Any, *, asks_its_source: bool = False) -> str:
    """The fault in how an argument is refused; empty where there is none, or where it is accepted."""
    try:
        call(given)
    except XferError as error:
        return "" if len(str(error)) > 15 else f"says too little: {error}"
    except (TypeError, MemoryError, OverflowError, BufferError, IndexError) as error:
        return "" if type(error) is not TypeError or "argument" in str(error) else f"{type(error).__name__}: {error}"
    except BaseException as error:
        if asks_its_source and "a stranger's object was asked" in str(error):
            return ""
        return f"{type(error).__name__}: {error}"
    return ""


def wrongs(cases: Iterable[Case], kinds: Iterable[str]) -> str:
    """The cases that are refused badly, one a line."""
    found = []
    for name, call in cases:
        before = xl.configure()
        for kind in kinds:
            if said := refuses_well(call, RUBBISH[kind], asks_its_source=name == "prefetch(x)"):
                found.append(f"{name} <- {kind}: {said}")
        xl.configure(**asdict(before))
        try:
            xl.synchronize()
        except Exception as error:  # an operation that NumPy computes on the simulator was given rubbish
            found.append(f"{name}: {type(error).__name__} too late: {error}")
    return "\n".join(found)


@pytest.mark.filterwarnings("ignore::xferlib.errors.XferWarning")  # of what stays where it is in a tree
@pytest.mark.parametrize("backend", ["numpy", "sim"])
def test_a_nonsense_argument_is_refused_by_name(backend: str) -> None:
    with xl.use_backend(backend):
        d = xl.to_device(np.arange(3, dtype=np.float32))
        RUBBISH["device array"] = d
        assert wrongs(itertools.chain(functions(), kernels(d), others(d)), RUBBISH) == ""


@pytest.mark.filterwarnings("ignore")  # NumPy's, of numbers
@pytest.mark.parametrize("backend", ["torch", "sim", "pycuda"], indirect=True)
def test_a_nonsense_argument_of_a_namespace_is_refused(backend: str, plugins: object) -> None:
    assert wrongs(namespace(), ODD) == ""
    if backend != "torch":  # whose tensors have torch's own
        assert wrongs(methods(), ODD) == ""


def test_a_sound_call_of_each_function_of_a_namespace_works() -> None:
    with xl.use_backend("sim"):
        for _, call in namespace(is_sound=True):
            call(None)


@pytest.mark.parametrize("backend", ["numpy", "sim"])
def test_nonsense_from_the_stream_protocol_is_no_stream(backend: str) -> None:
    with xl.use_backend(backend):
        for given in STREAMS:
            with pytest.raises(xl.errors.StreamError, match="is (no|not a) stream"):
                xl.Stream.from_any(Pretender(given))


def test_a_message_shows_simple_values_and_names_the_type_of_others() -> None:
    assert quote([[[[1], 2]]]) == "[[[[...], 2]]]"
    assert quote([[], ((1,),)]) == "[[], ((1,),)]"
    assert quote((1, "a", Hostile())) == "(1, 'a', an object of type Hostile)"
    assert quote(np.float32(2.5)) == "np.float32(2.5)"
    assert quote(1 << 20000) == "an int of 20001 bits"
    assert len(quote("x" * 10_000)) < 100


def test_an_object_of_the_wrong_kind_is_a_type_error_as_in_numpy(backend: str) -> None:
    no_shape: Any = (1.0,)
    with pytest.raises(TypeError, match="is (no|not a) shape"):
        xl.empty(no_shape)
    with pytest.raises(ValueError, match="negative"):
        xl.empty((-1,))
    out = xl.zeros(3, "float32")
    with pytest.raises(TypeError, match="out has dtype float32"):
        xl.to_device(np.arange(3), out=out)
    with pytest.raises(xl.errors.LayoutTypeError, match="pass dtype"):
        xl.to_host(out, out=np.empty(3))


@pytest.mark.parametrize("code", ["q", "Q", "l", "L"])
def test_both_names_of_the_integers_of_64_bits_are_taken(backend: str, code: str) -> None:
    assert xl.to_host(xl.to_device(np.arange(3, dtype=code))).tolist() == [0, 1, 2]


def test_texts_of_any_length_are_refused(backend: str) -> None:
    texts = np.array(["x", "yy"], np.dtypes.StringDType())  # a dtype without byte order
    for call in (xl.to_device, xl.to_device_async, lambda x: xl.tree.to_device([x]), lambda x: xl.empty(2, x.dtype)):
        with pytest.raises(xl.errors.UnsupportedDTypeError, match="which no device holds"):
            call(texts)


def test_a_scalar_of_numpy_is_no_array_to_write_to_or_to_join(backend: str) -> None:
    scalar: Any = np.float32(3)
    for call in (
        lambda: xl.to_device(np.float32(5), out=scalar),
        lambda: xl.to_device_async(np.float32(5), out=scalar).result(),
        lambda: xl.to_host(np.float32(5), out=scalar),
        lambda: xl.distributed.init("single").all_reduce(np.ones((), "f4"), out=scalar),
    ):
        with pytest.raises(UnsupportedArrayError, match="out is float32"):
            call()
    if backend != "numpy":
        with pytest.raises(ArgumentError, match="no scalars"):
            xl.concat([xl.zeros(2), np.bool_(1)])

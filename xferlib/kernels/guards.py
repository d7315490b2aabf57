"""Guards of the recording of a Python function: numbers and captured values, for which another call may use it.

The Python numbers of a traced kernel: an expression of Python numbers alone follows Python's rules, ``2**n`` is an int
or, for a negative ``n``, a float. So each call computes it on the host, and a number that meets an array becomes a
parameter of the kernel, of the dtype that the array gives it (NEP 50). A recording assumes the types that these values
have; a call with other types is recorded anew.

The values that a traced function reads beside its arguments, globals, closures, attributes, contents of containers: a
recording has them as constants. So each call asks whether they are still the same, by one generated function: a
comparison of identity for each value costs about 20 ns. What is followed is found from the code: the names that it
loads, in the function and in the Python functions, methods and classes that it reaches.
"""

from __future__ import annotations

import builtins
import contextvars
import dis
import functools
import operator
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np

from xferlib.errors import KernelRangeError
from xferlib.kernels import functions
from xferlib.kernels.ir import BOOL, Builder, DType, Node, Param, is_complex, is_integer

# --- numbers

MOST_VARIANTS = 8
"""Recordings that are kept for one combination of argument types."""

Run = Callable[[Any, list[Any]], Any]
NumberFunction = Callable[..., Any]
"""A function of as many numbers as the step has operands."""


class GuardFailedError(Exception):
    """The numbers of a call break an assumption of the recording."""


class Step(NamedTuple):
    """A number computed from others: a function of the numbers at the positions ``operands``."""

    function: NumberFunction
    operands: tuple[int, ...]


class Use(NamedTuple):
    """A parameter of the kernel: the number at ``position``, converted to ``dtype``."""

    position: int
    dtype: DType
    text: str


class Assumption(NamedTuple):
    """An assumption of the recording: ``question``, asked of the number at ``position``, gives ``answer``."""

    position: int
    question: Callable[[Any], Any]
    answer: Any


class Recording:
    """The numbers of one recording: first those given, in the order of the parameters, then those computed.

    Args:
        builder: The builder of the program, whose parameters are its inputs so far.
        given: The value of each input that is a Python number.
    """

    def __init__(self, builder: Builder, given: dict[int, Any]) -> None:
        self.sources = list(given)
        self.values: list[Any] = list(given.values())
        self._builder = builder
        self._first = len(builder.params)
        self._uses: dict[tuple[int, DType], Use] = {}
        self._steps: list[Step] = []
        self._guards: dict[tuple[int, Any], Assumption] = {}

    def compute(self, function: NumberFunction, *operands: int) -> int:
        """Apply ``function`` to the numbers at these positions; returns the position of the result."""
        self.values.append(function(*(self.values[each] for each in operands)))
        self._steps.append(Step(function, operands))
        return len(self.values) - 1

    def ask(self, position: int, question: Callable[[Any], Any]) -> Any:
        """The answer of ``question`` for the number at ``position``; every call must give the same one."""
        answer = question(self.values[position])
        if question is not type or position >= len(self.sources):  # an argument's type chooses the recording already
            self._guards[position, question] = Assumption(position, question, answer)
        return answer

    def parameter(self, position: int, dtype: DType, text: str) -> Node:
        """The number at ``position`` as a scalar parameter of ``dtype``; ``text`` is its expression, for messages."""
        if (position, dtype) not in self._uses:
            convert_number(self.values[position], dtype, text)  # an error belongs to the line that is being recorded
            self._uses[position, dtype] = Use(position, dtype, text)
            self._builder.params.append(Param(name=text, dtype=dtype, is_scalar=True))
        return self._builder.load(self._first + list(self._uses).index((position, dtype)))

    def finish(self) -> HostNumbers | None:
        """The work of each call; None for a kernel without numbers."""
        if not self.sources:
            return None
        uses, guards = tuple(self._uses.values()), tuple(self._guards.values())
        return HostNumbers(self._first, tuple(self.sources), tuple(self._steps), uses, guards)


@dataclass(frozen=True, slots=True)
class HostNumbers:
    """Computes the numbers of a call, which follow its inputs as parameters of the kernel."""

    first: int
    sources: tuple[int, ...]
    steps: tuple[Step, ...]
    uses: tuple[Use, ...]
    guards: tuple[Assumption, ...]

    def compute(self, arguments: Sequence[Any]) -> list[np.generic]:
        """The values of the parameters for the arguments of a call.

        Raises:
            GuardFailedError: They break an assumption of the recording.
            KernelRangeError: One is out of range for the dtype of the array that it meets.
        """
        numbers = [arguments[each] for each in self.sources]
        for function, operands in self.steps:
            numbers.append(function(*[numbers[each] for each in operands]))
        for position, question, answer in self.guards:
            if question(numbers[position]) != answer:
                raise GuardFailedError
        return [convert_number(numbers[position], dtype, text) for position, dtype, text in self.uses]

    def insert(self, arguments: Sequence[Any], computed: list[np.generic]) -> list[Any]:
        """The arguments of the kernel: those given, the computed numbers inserted; the kernel reads no given number."""
        result = list(arguments)
        for each in self.sources:
            result[each] = _NOTHING[type(arguments[each])]
        result[self.first : self.first] = computed
        return result

    def parameter_of(self, number: int) -> int:
        """The parameter for argument ``number``."""
        return number if number < self.first else number + len(self.uses)

    @property
    def parameters(self) -> frozenset[int]:
        """The parameters for numbers: those given, which the kernel does not read, and those computed."""
        return frozenset(self.sources) | frozenset(range(self.first, self.first + len(self.uses)))

    def wrap(self, run: Run, given: Sequence[Any]) -> Run:
        """Wrap ``run``, which takes the kernel's parameters, into a function of arguments of the types of ``given``."""
        made = _RunWithNumbers(self, run, [type(given[each]) for each in self.sources])
        return Variants([made.run]) if self.guards else made.run


class _RunWithNumbers:
    """The run of one kernel for arguments of one kind, which computes their numbers unless they are the last ones."""

    __slots__ = ("_inner", "_kinds", "_last", "_numbers", "_run")

    def __init__(self, numbers: HostNumbers, run: Run, kinds: list[type]) -> None:
        self._numbers = numbers
        self._run = run
        self._kinds = kinds
        self._last: tuple[list[Any], list[np.generic]] = [], []  # in one, for other threads
        self._inner: Callable[..., Any] | None = None

    def run(self, given: Any, values: list[Any]) -> Any:
        """Run for arguments, and what they are on the host."""
        computed = self._compute(given)
        return self._run(self._numbers.insert(given, computed), self._numbers.insert(values, computed))

    def _compute(self, given: Any) -> list[np.generic]:
        numbers = [given[each] for each in self._numbers.sources]
        known, computed = self._last
        # The very objects, as constants of a program are: numbers that are equal may differ, as 0.0 and -0.0 do.
        if not known or any(map(operator.is_not, numbers, known)):
            computed = self._numbers.compute(given)
            self._last = numbers, computed
        return computed

    @property
    def direct(self) -> Callable[..., Any] | None:
        """Runs plain calls of the same dtypes and any shape, once C does those of the parameters."""
        if self._inner is None:
            self._inner = getattr(getattr(self._run, "__self__", None), "direct", None)
        return None if self._inner is None or self._numbers.guards else self._run_direct

    def _run_direct(self, given: tuple[Any, ...], out: Any) -> Any:
        """Run a call by C; `NotImplemented` where the arguments are of another kind, or an error has to be found."""
        numbers = self._numbers
        if len(given) < numbers.first or [type(given[each]) for each in numbers.sources] != self._kinds:
            return NotImplemented
        try:
            computed = self._compute(given)
        except Exception:
            return NotImplemented
        plain = numbers.insert(given, [each.item() for each in computed])
        for each in numbers.sources:
            plain[each] = plain[each].item()
        assert self._inner is not None
        return self._inner(tuple(plain), out)


class Variants:
    """The runs of one kernel for arguments of one kind, one for each set of assumptions about their numbers."""

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs

    @staticmethod
    def join(first: Any, others: Any) -> Variants:
        return Variants([*first.runs, *others.runs][:MOST_VARIANTS])

    def __call__(self, given: Any, values: list[Any]) -> Any:
        for run in self.runs:
            try:
                return run(given, values)
            except GuardFailedError:
                continue
        raise GuardFailedError


_NOTHING: dict[type, np.generic] = {kind: dtype.type(0) for kind, dtype in functions.PYTHON_TYPES.items()}


def convert_number(value: Any, dtype: DType, text: str) -> np.generic:
    """A Python number converted to ``dtype`` as NumPy does beside an array; ``text`` names it in messages.

    Raises:
        KernelRangeError: It is out of range; NumPy would refuse it, too.
    """
    if dtype == BOOL:
        return np.bool_(bool(value))
    if is_integer(dtype):
        if not functions.fits(value, dtype):
            raise KernelRangeError(
                f"{text} is {show_number(value)}, out of range for {dtype}, the dtype of what it meets; convert that "
                "first, with astype(...)"
            )
    elif type(value) is int and not is_complex(dtype):
        try:
            value = float(value)
        except OverflowError:
            raise KernelRangeError(
                f"{text} is {show_number(value)}, beyond every float; pass a smaller number, or a float"
            ) from None
    with np.errstate(all="ignore"):
        result: np.generic = dtype.type(value)
    return result


def show_number(value: Any) -> str:
    """A number for a message; a long one is described by its size."""
    if type(value) is int and value.bit_length() > 128:
        return f"an int of {value.bit_length()} bits"
    return repr(value)


# --- values that the function captures

_ABSENT = object()
_NUMBERS = (int, float, complex, str, bytes, type(None), np.generic)
_UNFOLLOWED = frozenset({"numpy", "xferlib", *sys.stdlib_module_names})
"""Modules whose names are taken not to change."""
_INSTALLED = ("site-packages", "dist-packages")
_NOT_RUN = frozenset({"__init__", "__new__", "__init_subclass__", "__repr__", "__reduce__", "__del__"})
_MOST_VISITED = 4096
"""Objects that are looked at; those nearest to the function come first."""


class CapturedValue(NamedTuple):
    """A value that a recording rests on: what ``read`` finds in ``owner``, and the state that it had."""

    owner: Any
    kind: str
    name: Any
    value: Any
    state: Hashable

    @property
    def slot(self) -> tuple[str, int, Any]:
        return self.kind, id(self.owner), self.name


_TEXTS = {
    "item": "{owner}[{name}]",
    "cell": "{owner}.cell_contents",
    "attribute": "getattr({owner}, {name}, absent)",
    "absence": "{owner}.get({name}, absent)",
    "context": "{owner}.get(absent)",
    "list": "{owner}",
    "mapping": "{owner}",
    "set": "{owner}",
    "buffer": "{owner}",
}


def _same(new: Any, old: Any) -> bool:
    """Whether two values are numbers of one type and the same bits; a plain comparison would confuse 0.0 and -0.0."""
    return new is old or (type(new) is type(old) and isinstance(old, _NUMBERS) and _state(new) == _state(old))


def _same_items(new: Iterable[Any], old: tuple[Any, ...]) -> bool:
    found = tuple(new)
    return len(found) == len(old) and (all(map(operator.is_, found, old)) or all(map(_same, found, old)))


def _state(value: Any) -> Hashable:
    """The bits of a number, else which object it is."""
    kind = type(value)
    if kind is float:
        return kind, value.hex()
    if kind is complex:
        return kind, value.real.hex(), value.imag.hex()
    if kind in (int, bool, str, bytes):
        return kind, value
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return kind, value.tobytes()
    return kind, id(value)


def _content(buffer: Any) -> Hashable:
    """The bytes of an array, with what gives them their meaning."""
    if isinstance(buffer, np.ndarray):
        return buffer.shape, buffer.dtype.str, buffer.tobytes()
    return memoryview(buffer).tobytes()


class _CodeNames(NamedTuple):
    globals: frozenset[str]
    attributes: frozenset[str]
    words: frozenset[str]
    """Texts that may be names: ``getattr(config, "scale", 1)``."""


@functools.lru_cache(maxsize=4096)
def _names(code: CodeType) -> _CodeNames:
    """The names that code loads, the functions within it included."""
    loaded: set[str] = set()
    attributes: set[str] = set()
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            loaded.add(each.argval)
        elif each.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"):
            attributes.add(each.argval)
    words = {each for each in _constants(code) if isinstance(each, str) and each.isidentifier()}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            found = _names(each)
            loaded |= found.globals
            attributes |= found.attributes
            words |= found.words
    if "globals" in loaded:
        loaded |= words
    return _CodeNames(frozenset(loaded), frozenset(attributes | words), frozenset(words))


def _constants(code: CodeType) -> Iterator[Any]:
    for each in code.co_consts:
        yield from each if isinstance(each, tuple) else (each,)


def _package(name: object) -> str:
    return str(name).partition(".")[0]


class _Walk:
    """Finds the guards of a function, given the names of attributes that its code may read."""

    def __init__(self, function: Callable[..., Any], names: frozenset[str], words: frozenset[str]) -> None:
        self.names, self.words = set(names), set(words)
        self._words = words
        self._own = _package(getattr(function, "__module__", None))
        self._attributes = names
        self._found: dict[tuple[str, int, Any], CapturedValue] = {}
        self._seen: dict[int, Any] = {}
        self._waiting: deque[Any] = deque()
        self._root = function

    def guards(self) -> tuple[CapturedValue, ...]:
        self._follow(self._root)
        while self._waiting and len(self._seen) < _MOST_VISITED:
            self._visit(self._waiting.popleft())
        return tuple(self._found.values())

    def _follow(self, value: Any) -> None:
        if not isinstance(value, (*_NUMBERS, np.dtype, np.ufunc, CodeType, range)) and id(value) not in self._seen:
            self._seen[id(value)] = value
            self._waiting.append(value)

    def _guard(self, owner: Any, kind: str, name: Any, value: Any, state: Hashable = _ABSENT) -> None:
        guard = CapturedValue(owner, kind, name, value, _state(value) if state is _ABSENT else state)
        self._found.setdefault(guard.slot, guard)

    def _read(self, owner: Any, kind: str, name: Any, value: Any) -> None:
        """A value that the code may read."""
        if isinstance(value, ModuleType) and _package(value.__name__) in _UNFOLLOWED:
            return
        self._guard(owner, kind, name, value)
        self._follow(value)

    def _visit(self, value: Any) -> None:
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, ModuleType):
            if _package(value.__name__) not in _UNFOLLOWED:
                self._namespace(vars(value))
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, CellType):
            try:
                contents = value.cell_contents
            except ValueError:  # a name that is not bound yet
                return
            self._read(value, "cell", None, contents)
        elif isinstance(value, (MethodType, functools.partial, property, functools.cached_property)):
            for name in ("__func__", "__self__", "func", "args", "keywords", "fget"):
                self._follow(getattr(value, name, None))
        elif isinstance(value, (staticmethod, classmethod)):
            self._follow(value.__func__)
        elif isinstance(value, contextvars.ContextVar):
            self._read(value, "context", None, value.get(_ABSENT))
        else:
            self._contents(value)
            self._object(value)

    def _is_foreign(self, module: object) -> bool:
        """Whether a function or class belongs to an installed library, not to the package of the kernel."""
        package = _package(module)
        if package in _UNFOLLOWED:
            return True
        if package == self._own:
            return False
        path = getattr(sys.modules.get(str(module)), "__file__", None) or ""
        return any(each in path for each in _INSTALLED)

    def _namespace(self, names: Mapping[str, Any]) -> None:
        for name in self._attributes & names.keys():
            self._read(names, "item", name, names[name])
        for name in self._words - names.keys():
            self._guard(names, "absence", name, _ABSENT)

    def _function(self, function: FunctionType) -> None:
        if function is not self._root:
            if self._is_foreign(function.__module__):
                return
            self._guard(function, "attribute", "__code__", function.__code__)
        for name in ("__defaults__", "__kwdefaults__"):
            if (defaults := getattr(function, name)) is not None:
                self._read(function, "attribute", name, defaults)
        found = _names(function.__code__)
        self.names |= found.attributes
        self.words |= found.words
        names = function.__globals__
        for name in found.globals:
            if (value := names.get(name, _ABSENT)) is not _ABSENT:
                self._read(names, "item", name, value)
            elif not hasattr(builtins, name):  # a call that fails today may be right tomorrow
                self._guard(names, "absence", name, _ABSENT)
        for cell in function.__closure__ or ():
            self._follow(cell)
        self._follow(getattr(function, "__wrapped__", None))

    def _class(self, found: type) -> None:
        for each in found.__mro__:
            if self._is_foreign(each.__module__) or each.__module__ == builtins.__name__:
                continue
            names = vars(each)
            for name in self._attributes & names.keys():
                self._read(names, "item", name, names[name])
            for name, value in names.items():
                if name[:2] == "__" and name not in _NOT_RUN and isinstance(value, FunctionType):
                    self._follow(value)

    def _contents(self, value: Any) -> None:
        if isinstance(value, (tuple, frozenset)):
            items: Iterable[Any] = value
        elif isinstance(value, (list, deque)):
            items = tuple(value)
            self._guard(value, "list", None, items, tuple(map(_state, items)))
        elif isinstance(value, dict):
            items = tuple(value.items())
            flat = (*value, *value.values())
            self._guard(value, "mapping", None, flat, tuple(map(_state, flat)))
        elif isinstance(value, set):
            items = frozenset(value)
            self._guard(value, "set", None, items, items)
        else:
            items = ()
            try:
                content = _content(value)
            except (TypeError, ValueError, BufferError):
                return
            self._guard(value, "buffer", None, content, content)
        for each in items:
            self._follow(each)

    def _object(self, value: Any) -> None:
        """The attributes of an object, of the names that the code reads."""
        kind = type(value)
        self._follow(kind)
        self._follow(getattr(value, "__wrapped__", None) if callable(value) else None)
        if kind.__module__ == "torch":  # which counts the writes to a tensor
            self._read(value, "attribute", "_version", getattr(value, "_version", _ABSENT))
        own = getattr(value, "__dict__", None)
        if isinstance(value, threading.local) or isinstance(kind.__getattribute__, FunctionType):  # no dict tells
            for name in self._attributes:
                found = getattr(value, name, _ABSENT)
                if found is _ABSENT and name not in self._words:
                    continue
                if not isinstance(found, (MethodType, BuiltinMethodType, MethodWrapperType)):  # a new one each time
                    self._read(value, "attribute", name, found)
            return
        if isinstance(own, dict):
            functions = (getattr(kind, name, None) for name in ("__getattr__", "__getitem__", "__call__"))
            if any(isinstance(each, FunctionType) for each in functions):
                for name in own:
                    self._read(own, "item", name, own[name])
            self._namespace(own)
        else:
            own = {}
        for name in self._attributes - own.keys():
            static = next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), _ABSENT)
            if isinstance(static, (MemberDescriptorType, *_NUMBERS)):  # of the class, until the object has its own
                if (found := getattr(value, name, _ABSENT)) is not _ABSENT:
                    self._read(value, "attribute", name, found)


def find_guards(function: Callable[..., Any]) -> tuple[CapturedValue, ...]:
    """The values that ``function`` may read beside its arguments, as they are now."""
    names = words = frozenset[str]()
    while True:
        walk = _Walk(function, names, words)
        found = walk.guards()
        if walk.names == names and walk.words == words:
            return found
        names, words = frozenset(walk.names), frozenset(walk.words)


def make_check(guards: Iterable[CapturedValue]) -> Callable[[], bool]:
    """Make the function that tells whether all guards hold; generated, as one call for each would cost more."""
    names: dict[str, Any] = {
        "same": _same, "same_items": _same_items, "content": _content, "absent": _ABSENT, "new": None,
    }  # fmt: skip
    terms = []
    for number, (owner, kind, name, value, _) in enumerate(guards):
        names[f"owner{number}"], names[f"value{number}"] = owner, value
        text = _TEXTS[kind].format(owner=f"owner{number}", name=repr(name))
        if kind in ("list", "mapping"):
            items = text if kind == "list" else f"(*{text}, *{text}.values())"
            terms.append(f"same_items({items}, value{number})")
        elif kind in ("set", "buffer"):
            terms.append(f"{text if kind == 'set' else f'content({text})'} == value{number}")
        elif isinstance(value, _NUMBERS):
            terms.append(f"((new := {text}) is value{number} or same(new, value{number}))")
        else:
            terms.append(f"{text} is value{number}")
    lines = ["def holds():", " try:", f"  return {' and '.join(terms)}", " except Exception:", "  return False"]
    exec("\n".join(lines), names)  # noqa: S102 - the lines above, of names alone
    holds: Callable[[], bool] = names["holds"]
    return holds


class OtherValuesError(Exception):
    """The captured values changed while the function was recorded."""


class Environment:
    """The values that the recordings of a kernel rest on, and the calls prepared for them."""

    def __init__(self, guards: tuple[CapturedValue, ...]) -> None:
        self.guards = guards
        self.holds = make_check(guards)
        self.prepared: Any = None


MOST_ENVIRONMENTS = 8
"""Combinations of captured values whose recordings are kept."""


class Captured:
    """The values that a traced function captures, and for each combination of them the calls that were prepared.

    Args:
        function: The function.
        prepare: Makes what is kept for a combination, before anything is recorded; it takes a function to call after
            each recording.
    """

    def __init__(self, function: Callable[..., Any], prepare: Callable[[Callable[[], None]], Any]) -> None:
        self._function = function
        self._make = prepare
        self._current: Environment | None = None
        self._known: dict[Hashable, Environment] = {}
        self._doubtful: frozenset[tuple[str, int, Any]] = frozenset()
        self._changed_by_itself: dict[tuple[str, int, Any], Any] = {}
        """Slots that change whenever the function is recorded, such as a counter of its own, with their owners."""

    def prepare(self) -> Environment | None:
        """The calls prepared for the values as they are now; None for a function that captures nothing."""
        current = self._current
        if current is not None and current.holds():
            return current
        guards = self._guards()
        if not guards:
            return None
        key = tuple((*each.slot, each.state) for each in guards)
        found = self._known.pop(key, None)
        if found is None or not found.holds():
            found = Environment(guards)
            found.prepared = self._make(functools.partial(self._check, found))
            while len(self._known) >= MOST_ENVIRONMENTS:
                self._known.pop(next(iter(self._known)), None)
        self._known[key] = self._current = found
        return found

    def _check(self, environment: Environment) -> None:
        """Called after a recording: refuse it if another thread, or the function itself, has changed what it read.

        Raises:
            OtherValuesError: It has; the call is made again.
        """
        if environment.holds():
            self._doubtful = frozenset()
            return
        states = {each.slot: each.state for each in self._guards()}
        changed = {each.slot: each.owner for each in environment.guards if states.get(each.slot) != each.state}
        own = {slot: owner for slot, owner in changed.items() if slot in self._doubtful}  # twice in a row
        self._changed_by_itself.update(own)
        self._doubtful = frozenset(changed)
        raise OtherValuesError

    def _guards(self) -> tuple[CapturedValue, ...]:
        return tuple(each for each in find_guards(self._function) if each.slot not in self._changed_by_itself)

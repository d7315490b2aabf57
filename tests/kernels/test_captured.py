"""Values that a traced function captures: each call uses those of now, whatever was recorded before."""

import contextvars
import functools
import threading
import types
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.kernels.captured import MOST_ENVIRONMENTS

scale = 2
limits: dict[str, Any] = {"low": 1.0, "nested": [{"high": 2}]}
variable = contextvars.ContextVar("variable", default=2)
local = threading.local()
local.scale = 2


class Model:
    scale = 2

    def __init__(self):
        self.factor = 2
        self.parts = [types.SimpleNamespace(weight=2)]

    @property
    def doubled(self):
        return self.factor * 2

    def weighted(self, x):
        return x * self.factor

    @staticmethod
    def scaled(x):
        return x * Model.scale

    def __call__(self, x):
        return self.weighted(x)


class Slotted:
    __slots__ = ("factor",)

    def __init__(self):
        self.factor = 2


class Dynamic:
    def __init__(self):
        self.values = {"factor": 2}

    def __getattr__(self, name):
        return self.__dict__["values"][name]

    def __float__(self):
        return float(self.values["factor"])


def _helper(x, by=2):
    return x * scale + by


def _set_global(value):
    globals()["scale"] = value


def _by_closure():
    factor = 2

    def change(value):
        nonlocal factor
        factor = value

    return lambda x: x * factor, change


def _by_attribute(make, read, name="factor"):
    def ways():
        found = make()
        return functools.partial(read, found), lambda value: setattr(found, name, value)

    return ways


def _by_item(found, read, key):
    return lambda: (functools.partial(read, found), functools.partial(found.__setitem__, key))


def _by_defaults():
    def inner(x, by=2):
        return x * by

    return lambda x: inner(x), lambda value: setattr(inner, "__defaults__", (value,))


def _by_helper():
    helper = _helper
    names: dict[float, Any] = {}

    def change(value):
        nonlocal helper
        helper = names.setdefault(value, lambda x: x * value)

    return lambda x: helper(x), change


def _by_module():
    module: Any = types.ModuleType("settings_of_test")
    module.scale = 2
    return lambda x: x * module.scale, lambda value: setattr(module, "scale", value)


def _by_default_of_getattr():
    settings = types.SimpleNamespace()
    return lambda x: x * getattr(settings, "scale", 2), lambda value: setattr(settings, "scale", value)


def _by_partial():
    weights = {"weight": 2}
    function = functools.partial(lambda weights, x: x * weights["weight"], weights)
    return function, functools.partial(weights.__setitem__, "weight")


def _by_own_default():
    def function(x, by=2):
        return x * by

    return function, lambda value: setattr(function, "__defaults__", (value,))


def _by_keyword_of_a_partial():
    function = functools.partial(lambda x, by: x * by, by=2)
    return function, functools.partial(function.keywords.__setitem__, "by")


def _by_method():
    model = Model()
    return model.weighted, lambda value: setattr(model, "factor", value)


def _by_instance():
    model = Model()
    return lambda x: model(x), lambda value: setattr(model, "factor", value)


def _by_property():
    model = Model()
    return lambda x: x * model.doubled, lambda value: setattr(model, "factor", value)


def _by_part():
    model = Model()
    return lambda x: x * model.parts[0].weight, lambda value: setattr(model.parts[0], "weight", value)


def _by_dynamic():
    found = Dynamic()
    return lambda x: x * found.factor * float(found), functools.partial(found.values.__setitem__, "factor")


def _by_array(array):
    return lambda: (lambda x: x * float(array[1]), functools.partial(array.__setitem__, 1))


def _by_nested():
    def inner(x):
        return next(x * scale for _ in range(1))

    return lambda x: inner(x), _set_global


def _by_flag():
    settings = types.SimpleNamespace(factor=2)

    def branches(x):
        return x * 2 if settings.factor == 2 else x * 3

    return branches, lambda value: setattr(settings, "factor", value)


WAYS = {
    "global": lambda: (lambda x: x * scale, _set_global),
    "helper's global": lambda: (lambda x: _helper(x), _set_global),
    "nested function": _by_nested,
    "closure": _by_closure,
    "attribute": _by_attribute(Model, lambda model, x: x * model.factor),
    "slot": _by_attribute(Slotted, lambda found, x: x * found.factor),
    "class": lambda: (lambda x: x * Model.scale, lambda value: setattr(Model, "scale", value)),
    "static method": lambda: (lambda x: Model.scaled(x), lambda value: setattr(Model, "scale", value)),
    "class by an instance": _by_attribute(Model, lambda model, x: x * model.scale, name="scale"),
    "property": _by_property,
    "method": _by_method,
    "instance": _by_instance,
    "part of a part": _by_part,
    "getattr": _by_attribute(Model, lambda model, x: x * getattr(model, "factor")),  # noqa: B009 - the way
    "default of getattr": _by_default_of_getattr,
    "dynamic": _by_dynamic,
    "dict": _by_item({"low": 2}, lambda found, x: x * found["low"], "low"),
    "list": _by_item([1, 2], lambda found, x: x * found[1], 1),
    "dict in a list in a dict": lambda: (
        lambda x: x * limits["nested"][0]["high"],
        functools.partial(limits["nested"][0].__setitem__, "high"),
    ),
    "array": _by_array(np.array([1, 2])),
    "float32 array": _by_array(np.array([1, 2], np.float32)),
    "default": _by_defaults,
    "function": _by_helper,
    "module": _by_module,
    "partial": _by_partial,
    "own default": _by_own_default,
    "keyword of a partial": _by_keyword_of_a_partial,
    "flag": _by_flag,
    "context variable": lambda: (lambda x: x * variable.get(), variable.set),
    "thread's own": lambda: (lambda x: x * local.scale, lambda value: setattr(local, "scale", value)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [int, float, np.float32], ids=lambda kind: kind.__name__)
def test_each_call_uses_the_value_of_now(way, number):
    function, change = WAYS[way]()
    kernel = xl.elementwise(function)
    x = np.arange(4.0)
    np.testing.assert_array_equal(kernel(x), function(x))
    for value, dtype in ((2, "f8"), (3, "f4"), (3, "f8"), (2, "f4"), (4, "f8"), (4, "f4")):
        change(number(value))
        expected = function(x.astype(dtype))
        np.testing.assert_array_equal(kernel(x.astype(dtype)), expected)
        np.testing.assert_array_equal(kernel(x.astype(dtype)), expected)
    change(2)


def test_arrays_of_each_library(library):
    settings = types.SimpleNamespace(factor=2)
    kernel = xl.elementwise(lambda x: x * settings.factor)
    d = xl.to_device(np.arange(4.0))
    first = kernel(d)
    settings.factor = 3
    np.testing.assert_array_equal(xl.to_host(kernel(d)), np.arange(4.0) * 3)
    np.testing.assert_array_equal(xl.to_host(first), np.arange(4.0) * 2)


@pytest.mark.parametrize(("first", "second"), [(0.0, -0.0), (1, True), (1, 1.0), (2.0, np.float32(2))])
def test_numbers_that_are_equal_and_not_the_same(first, second):
    settings = types.SimpleNamespace(factor=first)
    kernel = xl.elementwise(lambda x: x * settings.factor)
    x = np.arange(-2, 3, dtype=np.int16)
    for value in (first, second, first):
        settings.factor = value
        found, expected = kernel(x), x * value
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_a_derivative_uses_the_value_of_now():
    torch = pytest.importorskip("torch")
    settings = types.SimpleNamespace(factor=2.0)
    kernel = xl.elementwise(lambda x: x * x * settings.factor)
    for value in (2.0, 3.0):
        settings.factor = value
        x = torch.ones(3, requires_grad=True)
        kernel(x).sum().backward()
        assert x.grad.tolist() == [2 * value] * 3


def test_a_tensor_that_is_written():
    torch = pytest.importorskip("torch")
    factor = torch.tensor(2.0)
    kernel = xl.elementwise(lambda x: x * float(factor))
    for value, dtype in ((2, "f8"), (3, "f4"), (4, "f8")):
        factor.fill_(value)
        assert kernel(np.ones(2, dtype)).tolist() == [value] * 2


def test_threads_with_values_of_their_own():
    kernel = xl.elementwise(lambda x: x * getattr(local, "scale", 2))
    found = {}

    def compute(value):
        local.scale = value
        found[value] = [kernel(np.ones(2))[0] for _ in range(50)]

    threads = [threading.Thread(target=compute, args=(value,)) for value in (5, 6, 7)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == {value: [value] * 50 for value in (5, 6, 7)}


def test_what_the_function_changes_itself_is_not_followed():
    recorded = []

    def counted(x):
        recorded.append(x.dtype)
        return x + 1

    kernel = xl.elementwise(counted)
    kernel(np.ones(2))
    count = len(recorded)
    for _ in range(3):
        kernel(np.ones(2))
    kernel(np.ones(2, np.float32))
    assert len(recorded) == count + 1


def test_values_that_come_back_are_recorded_once():
    recorded = 0
    settings = types.SimpleNamespace(factor=0)

    def function(x):
        nonlocal recorded
        recorded += 1
        return x * settings.factor

    kernel = xl.elementwise(function)
    kernel(np.ones(2))
    for _ in range(2):
        for settings.factor in range(MOST_ENVIRONMENTS - 1):
            kernel(np.ones(2))
        if _ == 0:
            count = recorded
    assert recorded == count


def test_a_name_that_appears_later():
    names: dict[str, Any] = {}
    exec("def function(x): return x * later", names)
    kernel = xl.elementwise(names["function"])
    with pytest.raises(NameError):
        kernel(np.ones(2))
    for names["later"] in (2, 3):
        assert kernel(np.ones(2)).tolist() == [names["later"]] * 2

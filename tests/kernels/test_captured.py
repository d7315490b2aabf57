"""Values that a traced function captures: each call uses those of now, whatever was recorded before."""

import contextvars
import threading
import types
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.kernels.guards import MOST_ENVIRONMENTS

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


MODULE = """
import functools
scale = 2

def helper(x, by=2):
    return x * scale + by

def make():
    {setup}
    def change(value):
        {change}
    function = {function}
    return function, change
"""
WAYS = {
    "global": ("", "lambda x: x * scale", "global scale; scale = value"),
    "helper's global": ("", "lambda x: helper(x)", "global scale; scale = value"),
    "nested function": ("def inner(x): return next(x * scale for _ in range(1))", "lambda x: inner(x)",
                        "global scale; scale = value"),
    "closure": ("factor = 2", "lambda x: x * factor", "nonlocal factor; factor = value"),
    "attribute": ("found = Model()", "lambda x: x * found.factor", "found.factor = value"),
    "slot": ("found = Slotted()", "lambda x: x * found.factor", "found.factor = value"),
    "class": ("", "lambda x: x * Model.scale", "Model.scale = value"),
    "static method": ("", "lambda x: Model.scaled(x)", "Model.scale = value"),
    "class by an instance": ("found = Model()", "lambda x: x * found.scale", "found.scale = value"),
    "property": ("found = Model()", "lambda x: x * found.doubled", "found.factor = value"),
    "method": ("found = Model()", "found.weighted", "found.factor = value"),
    "instance": ("found = Model()", "lambda x: found(x)", "found.factor = value"),
    "part of a part": ("found = Model()", "lambda x: x * found.parts[0].weight", "found.parts[0].weight = value"),
    "getattr": ("found = Model()", "lambda x: x * getattr(found, 'factor')", "found.factor = value"),
    "default of getattr": ("found = types.SimpleNamespace()", "lambda x: x * getattr(found, 'scale', 2)",
                           "found.scale = value"),
    "dynamic": ("found = Dynamic()", "lambda x: x * found.factor * float(found)", "found.values['factor'] = value"),
    "dict": ("found = {'low': 2}", "lambda x: x * found['low']", "found['low'] = value"),
    "list": ("found = [1, 2]", "lambda x: x * found[1]", "found[1] = value"),
    "dict in a list in a dict": ("found = {'nested': [{'high': 2}]}", "lambda x: x * found['nested'][0]['high']",
                                 "found['nested'][0]['high'] = value"),
    "array": ("found = np.array([1, 2])", "lambda x: x * float(found[1])", "found[1] = value"),
    "float32 array": ("found = np.array([1, 2], 'f4')", "lambda x: x * float(found[1])", "found[1] = value"),
    "default": ("def inner(x, by=2): return x * by", "lambda x: inner(x)", "inner.__defaults__ = (value,)"),
    "own default": ("def inner(x, by=2): return x * by", "inner", "inner.__defaults__ = (value,)"),
    "function": ("inner, known = helper, {}", "lambda x: inner(x)",
                 "nonlocal inner; inner = known.setdefault(value, lambda x: x * value)"),
    "module": ("found = types.ModuleType('settings_of_test'); found.scale = 2", "lambda x: x * found.scale",
               "found.scale = value"),
    "partial": ("found = {'weight': 2}", "functools.partial(lambda found, x: x * found['weight'], found)",
                "found['weight'] = value"),
    "partial of an object": ("found = Model()", "functools.partial(lambda found, x: x * found.factor, found)",
                             "found.factor = value"),
    "keyword of a partial": ("", "functools.partial(lambda x, by: x * by, by=2)", "function.keywords['by'] = value"),
    "flag": ("found = types.SimpleNamespace(factor=2)", "lambda x: x * 2 if found.factor == 2 else x * 3",
             "found.factor = value"),
    "context variable": ("", "lambda x: x * variable.get()", "variable.set(value)"),
    "thread's own": ("", "lambda x: x * local.scale", "local.scale = value"),
}  # fmt: skip
"""The setup, a function that reads what it captures, and how that changes."""


def _made(way):
    setup, function, change = WAYS[way]
    names = {**globals()}
    exec(MODULE.format(setup=setup, function=function, change=change), names)
    return names["make"]()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [int, float, np.float32], ids=lambda kind: kind.__name__)
def test_each_call_uses_the_value_of_now(way, number):
    function, change = _made(way)
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

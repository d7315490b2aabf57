"""The parameters of kernels whose names are mangled: those names are g++'s."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import KernelSyntaxError

SOURCE = """
struct float3; namespace space { namespace deep { struct P { int a; }; template<class T> struct M { T v; }; } }
"""
NAMES = {
    "_Z3mixI6float3EvPT_PKS1_S1_": ["*", "*", "float3"],
    "_Z3mixISt7complexIfEEvPT_PKS2_S2_": ["*complex64", "*complex64", "complex64"],
    "_Z3vecP6float3S_PKS_": ["*", "float3", "*"],
    "_Z4convIi6float3EvPKT_PT0_m": ["*int32", "*", "uint64"],
    "_Z4cplxPSt7complexIfES_IdEPKS0_": ["*complex64", "complex128", "*complex64"],
    "_Z4nonev": [],
    "_Z5plainPKfPfPS1_yba": ["*float32", "*float32", "*", "uint64", "bool", "int8"],
    "_Z5scaleIN5space4deep1PEEvPT_S4_PKS3_S3_i": ["*", "*", "*", "P", "int32"],
    "_Z5scaleIdEvPT_S1_PKS0_S0_i": ["*float64", "*float64", "*float64", "float64", "int32"],
    "_ZN5space4deep1kIhLin4EEEvPT_PKS2_i": ["*uint8", "*uint8", "int32"],
    "_ZN5space4deep5otherEPNS0_1PENS0_1MIfEEPKS4_S1_": ["*", "M", "*", "P"],
}
_STRUCTS = {("x", "y", "z"): "float3", ("a",): "P", ("v",): "M"}


def _kind(parameter: Any) -> str:
    dtype = parameter.dtype
    text = "" if dtype is None else _STRUCTS[dtype.names] if dtype.names else dtype.name
    return f"*{text}" if parameter.is_pointer else text


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_read_from_a_mangled_name(name: str) -> None:
    kernel = xl.raw_module(SOURCE).get_function(name, cpu=lambda *_: None)
    assert [_kind(each) for each in kernel.parameters] == NAMES[name]


def test_const_pointers_are_read_only() -> None:
    kernel = xl.raw_module("").get_function("_Z4copyPKfPf", cpu=lambda x, y: np.copyto(y, x))
    assert [each.is_const for each in kernel.parameters] == [True, False]
    x, y = np.ones(3, "f4"), np.zeros(3, "f4")
    x.flags.writeable = False
    kernel(1, 3, (x, y))
    assert y.tolist() == [1] * 3


@given(st.text(alphabet="_ZNSTIEKPLfdijmv0123456789", max_size=40))
@example("0TE_")
def test_any_other_name_needs_a_signature(rest: str) -> None:
    with contextlib.suppress(KernelSyntaxError):  # which says what is missing
        assert xl.raw_module("").get_function(f"_Z{rest}").parameters is not None

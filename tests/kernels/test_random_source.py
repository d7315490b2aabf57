"""The generated CUDA source of random numbers, run on the CPU: the same bits as the NumPy engine's."""

import numpy as np
import pytest

from tests.kernels.emulated import Emulator
from xferlib.backends.base import ArrayInfo
from xferlib.kernels import random as distributions
from xferlib.kernels import random as normal
from xferlib.kernels.cuda_engine import CudaPlan
from xferlib.kernels.random import Draw, draw_definition
from xferlib.testing import assert_same_bits

F32, F64, U32, U64, I8, I64 = map(np.dtype, ("float32", "float64", "uint32", "uint64", "int8", "int64"))
DISTRIBUTIONS = [
    (distributions.random, (F32,), ()),
    (distributions.random, (F64,), ()),
    (distributions.uniform, (F32,), (-1.5, 3.25)),
    (distributions.uniform, (F64,), (1e-3, 1e6)),
    (distributions.shifted, (U32, 32), (7, 3)),
    (distributions.shifted, (I8, 32), (2**64 - 128, 24)),
    (distributions.shifted, (U64, 64), (0, 0)),
    (distributions.shifted, (I64, 64), (2**64 - 5, 20)),
    (distributions.multiplied, (I8, 64), (2**64 - 100, 201)),
    (distributions.multiplied, (I64, 64), (3, 2**32 - 1)),
    (distributions.multiplied, (I64, 128), (2**63, 2**64 - 1)),
    (normal.normal, (F32,), (0.5, 2.0)),
    (normal.normal, (F64,), (-0.5, 1e-3)),
]
COUNTER = (0xFFFFFF00, 0x85A308D3, 0x13198A2E, 0x03707344)
KEY = 0x299F31D0A4093822
BLOCKS = 200


pytestmark = pytest.mark.usefixtures("kernels_apart")


@pytest.mark.parametrize(("make", "args", "numbers"), DISTRIBUTIONS)
def test_the_source_for_cuda_gives_the_same_bits(make, args, numbers):
    distribution = make(*args)
    per_block = distribution.per_block
    expected, got = (np.empty(BLOCKS * per_block, distribution.dtype) for _ in range(2))
    draw = Draw(make, *args, numbers=numbers)
    draw.fill(expected, sum(word << 32 * number for number, word in enumerate(COUNTER)), KEY)
    scalars = [*COUNTER, KEY % 2**32, KEY >> 32, *numbers]
    special = draw_definition(distribution).specialize((int,) * len(scalars), frozenset(range(len(scalars))))
    params = special.program.params
    views = [got[number::per_block] for number in range(per_block)]
    infos = {
        len(scalars) + number: ArrayInfo(each.ctypes.data, each.shape, each.strides, each.dtype, None, True)
        for number, each in enumerate(views)
    }
    plan = CudaPlan(Emulator(), None, special.program, (BLOCKS,), infos, is_aliased=False)
    converted = [param.dtype.type(value) for param, value in zip(params, scalars, strict=False)]
    plan.bind([infos[number].pointer for number in plan.array_order], converted)
    plan.launch(0)
    assert_same_bits(got, expected)

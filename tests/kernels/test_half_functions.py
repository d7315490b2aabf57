"""The float16 functions of CUDA kernels, by C: all operands, with the hardware's approximations off by up to a unit."""

import ctypes

import numpy as np
import pytest

from tests.kernels.bits import same_bits
from tests.kernels.test_cuda_functions import COMPILER, SINGLE, kernel_of
from tools import native_digest
from xferlib.kernels import cuda_functions, elementwise, host_compiler
from xferlib.kernels.native_functions import collect_sections

needs_compiler = pytest.mark.skipif(COMPILER is None or COMPILER.is_tcc, reason="needs a C compiler that optimises")
half_erf = elementwise("half x", "half y", "y = erf(x)", name="erf")
ALL = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)


def half_kernel(name):
    return half_erf if name == "erf" else kernel_of(name)


@needs_compiler
@pytest.mark.parametrize("off", ["0.0", "0x1p-22", "-0x1p-22"])
def test_all_operands(off):
    sections = cuda_functions.sections()
    source = f"#define XF_OFF {off}\n{native_digest._AS_C}"
    source += "".join(sections[each][1] for each in collect_sections(sections, [f"{each}_of_half" for each in SINGLE]))
    for name in SINGLE:
        source += f"void run_{name}(const float *x, float *y) {{"
        source += f" for (int k = 0; k < 65536; ++k) y[k] = xf_{name}_of_half(x[k]); }}\n"
    made = host_compiler.load_c(source, flags=("-O2", "-march=native", "-ffp-contract=off", "-fno-math-errno"))
    x, y = ALL.astype(np.float32), np.empty(ALL.shape, np.float32)
    for name in SINGLE:
        getattr(made, f"run_{name}")(*(ctypes.c_void_p(each.ctypes.data) for each in (x, y)))
        with np.errstate(all="ignore"):
            assert same_bits(y.astype(np.float16), half_kernel(name)(ALL)), name

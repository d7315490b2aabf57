"""PTX by hand: the language, what becomes of it, and random sequences of instructions against NumPy."""

# ruff: noqa: E501 - rows of a table, and PTX, are clearer in one line

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels.cuda_cpu.running import Program, needs_cc
from xferlib.kernels.cuda_cpu import emit, ptx
from xferlib.kernels.cuda_cpu.ptx import PtxError
from xferlib.kernels.cuda_cpu.translation import REDZONE, InlinedCall, TranslatedModule

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def entry(body: str, params: str = ".param .u64 out", name: str = "k") -> str:
    """A kernel that has the address of its first argument in %out, and its thread in %t."""
    return f""".visible .entry {name}({params}) {{
    .reg .u64 %out, %address; .reg .u32 %t; .reg .pred %p<9>; .reg .b16 %rs<20>; .reg .b32 %r<40>; .reg .b64 %rd<40>;
    .reg .f32 %f<40>; .reg .f64 %fd<40>;
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
{body}
    ret;
}}
"""


def kernel(body: str, params: str = ".param .u64 out", before: str = "") -> str:
    """A module of one kernel `k`."""
    return f"{HEAD}{before}\n{entry(body, params)}"


def translate(text: str, *, checked: bool = False) -> TranslatedModule:
    return emit.translate(ptx.parse(text), checked=checked)


def evaluate(body: str, ptx_type: str, dtype: type, result: str, **options: Any) -> np.ndarray:
    """The value of register `result` at the end, for each thread."""
    found: np.ndarray = evaluate_all([body], ptx_type, dtype, result, **options)[0]
    return found


def evaluate_all(
    bodies: Sequence[str], ptx_type: str, dtype: type, result: str, *, checked: bool = False, block: int = 1,
    before: str = "",
) -> np.ndarray:  # fmt: skip
    """The values of register `result` at the end of each body, for each thread; the bodies are one module."""
    store = f"mad.wide.u32 %address, %t, {np.dtype(dtype).itemsize}, %out; st.global.{ptx_type} [%address], {result};"
    entries = [entry(f"{body}\n {store}", name=f"k{number}") for number, body in enumerate(bodies)]
    program = Program("\n".join([HEAD, before, *entries]), checked=checked)
    out: np.ndarray = np.zeros((len(bodies), block), dtype)
    for number, row in enumerate(out):
        program.run(f"k{number}", row, block=block)
    return out


# ---- the language ----


class TestParse:
    def test_comments_and_spaces(self) -> None:
        module = ptx.parse(
            HEAD
            + '.file 1 "a//b.cu" // c\n/* .entry x */ .visible\n.entry k ( .param .u64 a ,\n.param .align 8 .b8 b [ 24 ] )'
            "{ .reg .b32 %r<3>;/* ; */ mov . u32 %r1 , 1 ; @! %p bra L ; L : ret ; }".replace(
                "@! %p", "@ ! %p"
            ).replace(".reg .b32 %r<3>;", ".reg .b32 %r<3>; .reg .pred %p;")
        )
        function = module.functions["k"]
        assert module.files == {1: "a//b.cu"}
        assert [(param.name, param.nbytes, param.align) for param in function.params] == [("a", 8, 8), ("b", 24, 8)]
        names = [item.name for item in function.body or () if isinstance(item, ptx.Instruction)]
        assert names == ["mov.u32", "bra", "ret"]

    def test_scopes_hide_registers_and_labels(self) -> None:
        body = """
        mov.b32 %r1, 1;
        { .reg .b32 %r1; .reg .pred q; mov.b32 %r1, 5; setp.eq.u32 q, %r1, 5; @q bra DONE; mov.b32 %r2, 7; DONE: }
        { .reg .b32 x; mov.b32 x, 10; bra DONE; DONE: add.u32 %r1, %r1, x; }
        """
        assert evaluate(body, "u32", np.uint32, "%r1") == 11

    def test_names_that_c_reserves(self) -> None:
        body = ".reg .u32 oid, olatile, u32, int, run, t, m; mov.u32 oid, 1; mov.u32 olatile, 2; mov.u32 u32, 3; mov.u32 int, 4; mov.u32 run, 5; mov.u32 t, 6; mov.u32 m, 7; add.u32 %r1, oid, olatile; add.u32 %r1, %r1, u32; add.u32 %r1, %r1, int; add.u32 %r1, %r1, run; add.u32 %r1, %r1, t; add.u32 %r1, %r1, m;"
        assert evaluate(body, "u32", np.uint32, "%r1") == 28

    def test_constant_expressions(self) -> None:
        body = "mov.u32 %r1, (3 + 4) * 2 - (1 << 3) / 3 | 0x100; add.u32 %r1, %r1, ~0 & 0xF; add.u32 %r1, %r1, 0b101 + 010;"
        assert evaluate(body, "u32", np.uint32, "%r1") == ((14 - 2) | 0x100) + 15 + 5 + 8

    def test_initialisers(self) -> None:
        text = kernel(
            """ld.global.u64 %rd1, [table+8]; ld.global.u32 %r1, [%rd1]; mov.u64 %rd2, matrix; ld.global.u16 %r2, [%rd2+10];
            ld.global.u64 %rd3, [self]; ld.const.f32 %f1, [c+4]; cvt.rzi.u32.f32 %r3, %f1; ld.global.u8 %r4, [odd+5];
            st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};""",
            before=""".global .align 4 .u32 numbers[4] = {10, 20, 30};
            .visible .global .align 8 .u64 table[2] = {numbers, generic(numbers)+8};
            .global .u16 matrix[2][3] = {{1, 2}, {4, 5, 6}};
            .global .align 8 .u64 self = self;
            .const .f32 c[] = {1.5, 0f40A00000, -2};
            .global .align 1 .b8 odd[] = {1, 2, 3, 4, 5, 6};
            .extern .shared .align 16 .b8 dynamic[];""",
        )
        out = np.zeros(4, np.uint32)
        Program(text).run("k", out)
        assert out.tolist() == [30, 6, 5, 6]

    def test_numbers_between_expressions_and_addresses(self) -> None:
        declared = """.global .align 8 .u64 mixed[10] = {7, 4294967296, mixed, 9, 2 + 3, 010, -1, 0, 18446744073709551615};
            .global .align 4 .s32 nested[2][2][3] = {{{1, 2}, {3, -4, 5}}, {6, {7, 8, 9}}};
            .global .align 4 .f32 floats[4] = {1, 2.5, 3};"""
        variables = Program(kernel("", before=declared)).translation.variables
        mixed = np.frombuffer(variables["mixed"].initial, np.uint64).tolist()
        assert mixed == [7, 1 << 32, 0, 9, 5, 8, (1 << 64) - 1, 0, (1 << 64) - 1]
        nested = np.frombuffer(variables["nested"].initial, np.int32).tolist()
        assert nested == [1, 2, 0, 3, -4, 5, 6, 7, 8, 9]
        assert np.frombuffer(variables["floats"].initial, np.float32).tolist() == [1, 2.5, 3]

    def test_addresses_byte_by_byte(self) -> None:
        text = kernel(
            "ld.global.u64 %rd1, [split]; ld.global.u32 %r1, [%rd1]; st.global.u32 [%out], %r1;",
            before=".global .u32 v[2] = {1, 99}; .global .align 8 .b8 split[8] = {0xFF(v+4), 0xFF00(v+4), 0xFF0000(v+4),"
            " 0xFF000000(v+4), 0xFF00000000(v+4), 0xFF0000000000(v+4), 0xFF000000000000(v+4), 0xFF00000000000000(v+4)};",
        )
        out = np.zeros(1, np.uint32)
        Program(text).run("k", out)
        assert out[0] == 99

    def test_places_of_inlined_functions(self) -> None:
        text = (
            kernel("""
            .loc 1 10 3
            .loc 2 5 1, function_name $L__info_string0, inlined_at 1 10 3
            ld.global.u32 %r1, [%out];
            .loc 1 0 3
            st.global.u32 [%out], %r1;""")
            + """.file 1 "/a/user.cu"
            .file 2 "/b/helper.h"
            .section .debug_str
            {
            $L__info_string0:
            .b8 102,111,111
            .b8 0
            }"""
        )
        translation = translate(text, checked=True)
        site = translation.sites[0]
        assert (site.file, site.line, site.instruction) == ("/b/helper.h", 5, "ld.global.u32 %r1, [%out]")
        assert site.inlined == (InlinedCall("foo", "/a/user.cu", 10),)
        assert translation.places == [1, 1]
        assert (site.source_line, site.words) == (10, "line 10 (helper.h:5)")

    @pytest.mark.parametrize(("others", "places"), [("", [1, 2, 1]), (".loc 2 5 1, {} 1 30 3\n", [1, 2, 0])])
    def test_a_place_whose_calls_are_left_out_is_that_of_the_only_one(self, others: str, places: list[int]) -> None:
        """The compiler writes the calls around a place once; between two of them it is not known which it was."""
        inlined = "function_name $L__info_string0, inlined_at"
        text = kernel(f"""
            .loc 1 10 3
            .loc 2 5 1, {inlined} 1 10 3
            .loc 3 7 1, {inlined} 2 5 1
            ld.global.u32 %r1, [%out];
            .loc 1 40 3
            {others.format(inlined)}
            ld.global.u32 %r1, [%out];
            .loc 3 7 1, {inlined} 2 5 1
            st.global.u32 [%out], %r1;""")
        text += '.file 1 "a.cu"\n.file 2 "b.h"\n.file 3 "c.h"\n'
        translation = translate(text, checked=True)
        assert translation.places == places
        assert translation.sites[2].words == ("line 10 (c.h:7)" if places[2] else "c.h:7")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (".version 8.0\n.target sm_80\n.address_size 32", "64 bits"),
            (HEAD + ".entry k() { mov.u32 %r1, 1; }", "'%r1'"),
            (HEAD + ".entry k() { bra NOWHERE; }", "'NOWHERE'"),
            (HEAD + ".entry k() { ret;", "no end"),
            (HEAD + "hello", "not a directive"),
            (HEAD + ".entry k() { .reg .b32 %r<2>; mov.u32 %r1, [; }", "not an operand|lacks|address"),
            (HEAD + ".global .u32 x[2] = {1, 2, 3};", "more initial values"),
            (HEAD + ".entry k(.param .u32 a) { .reg .b64 %rd<2>; ld.param.u64 %rd1, [a+4]; }", "outside of 'a'"),
            (HEAD + ".entry k() { .reg .b32 %r<2>; ld.global.u32 %r1, [missing]; }", "'missing' is not defined"),
        ],
    )
    def test_errors(self, text: str, message: str) -> None:
        with pytest.raises(PtxError, match=message):
            translate(text)

    @settings(max_examples=60, deadline=None)
    @given(st.randoms(use_true_random=False))
    def test_damaged_text_is_an_error_or_fine(self, random: Random) -> None:
        text = list(
            kernel(
                "LOOP: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 9; @%p1 bra LOOP; mov.b64 {%r2, %r3}, %rd1;"
                " { .param .b64 q; st.param.b64 [q+0], %rd1; call free, (q); }",
                before=".extern .func free(.param .b64 a); .const .align 4 .b8 c[8] = {1, 2, 3};",
            )
        )
        for _ in range(random.randint(1, 6)):
            at = random.randrange(len(text))
            text[at : at + random.randint(0, 2)] = random.choice(
                ["", ";", "{", "}", "(", "[", ",", "%", "9", ".", " ", "<", "-"]
            )
        try:
            translate("".join(text))
        except PtxError:
            pass


class TestUncovered:
    @pytest.mark.parametrize(
        "instruction",
        [
            "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [texture, {%r1}]",
            "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1]",
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4}",
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2]",
            "cp.async.ca.shared.global [%r1], [%rd1], 16",
            "mbarrier.init.shared.b64 [%r1], %r2",
            "barrier.cluster.arrive",
            "mapa.u64 %rd1, %rd2, %r1",
            "foo.bar %r1",
            "sad.b128 %r1, %r1, %r1, %r1",
            "shr.b128 %r1, %r1, %r1",
            "addc.bf16 %h1, %h1, %h1",
            "isspacep %p1, %rd1",
            "redux.sync.u32 %r1, %r1, %r1",
        ],
    )
    def test_names_instruction_and_line(self, instruction: str) -> None:
        text = kernel(f".loc 1 42 7\n{instruction};") + '.file 1 "kernel.cu"\n'
        try:
            reason = translate(text).uncovered["k"]
        except PtxError as error:  # of a name that is no instruction's
            reason = str(error)
        assert re.search(r"line 42: .*does not run on a CPU", reason)

    def test_in_a_function_that_is_never_called(self) -> None:
        text = HEAD + ".func f() { cp.async.wait_all; ret; }\n.entry k() { ret; }"
        assert translate(text).kernels.keys() == {"k"}

    def test_in_a_function_that_a_kernel_calls(self) -> None:
        text = HEAD + ".func f() { cp.async.wait_all; ret; }\n.entry k() { call f; ret; }"
        assert re.search(r"cp\.async", translate(text).uncovered["k"])

    def test_calls_of_what_is_not_there(self) -> None:
        text = (
            HEAD
            + ".extern .func cudaLaunchDeviceV2(.param .b64 a);\n.entry k() { .param .b64 a; call cudaLaunchDeviceV2, (a); }"
        )
        assert "cudaLaunchDeviceV2" in translate(text).uncovered["k"]


class TestLayout:
    TEXT = (
        HEAD
        + """
    .shared .align 16 .b8 common[100];
    .global .align 8 .u64 pointer = common;
    .const .align 4 .u32 c = 7;
    .entry one(.param .u8 a, .param .align 16 .b8 b[20], .param .f64 c) .maxntid 128, 2, 1 .minnctapersm 2
    { .shared .align 8 .f64 own[4]; .reg .u32 %r<3>; mov.u32 %r1, own; mov.u32 %r2, common; ret; }
    .entry two() .reqntid 64 { .shared .u32 own; .reg .u32 %r<3>; mov.u32 %r1, own; ret; }
    """
    )

    def test_unchecked(self) -> None:
        translation = translate(self.TEXT)
        one, two = translation.kernels["one"], translation.kernels["two"]
        assert [(p.offset, p.nbytes) for p in one.params] == [(0, 1), (16, 20), (40, 8)]
        assert one.params_nbytes == 48
        assert [(v.name, v.offset, v.nbytes) for v in one.shared] == [("common", 1024, 100), ("own", 1128, 32)]
        assert (one.shared_nbytes, one.static_nbytes, one.maxntid, two.reqntid) == (136, 136, (128, 2, 1), (64,))
        assert [(v.name, v.offset, v.nbytes) for v in two.shared] == [("own", 1024, 4)]

    def test_redzones(self) -> None:
        one = translate(self.TEXT, checked=True).kernels["one"]
        begins = [v.offset for v in one.shared]
        ends = [v.offset + v.nbytes for v in one.shared]
        assert begins[0] >= 1024 + REDZONE
        assert begins[1] >= ends[0] + REDZONE
        assert 1024 + one.shared_nbytes >= ends[1] + REDZONE
        assert one.static_nbytes == 136

    @needs_cc
    def test_block_of_variables(self) -> None:
        program = Program(self.TEXT)
        assert program.variable("c", np.uint32) == 7
        assert program.variable("pointer", np.uint64) == 1024


class TestMerge:
    ONE = kernel(
        """{ .param .b32 q; .param .b32 v; st.param.b32 [q], 5; call (v), other, (q); ld.param.b32 %r1, [v]; }
        { .param .b32 v; call (v), helper, (); ld.param.b32 %r2, [v]; } ld.global.u32 %r3, [shared_by_both]; ld.global.u32 %r4, [own];
        .loc 1 7 1
        st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};""",
        before=""".extern .func (.param .b32 r) other(.param .b32 a); .extern .global .u32 shared_by_both; .global .u32 own = 1;
        .extern .shared .align 4 .b8 dynamic[]; .func (.param .b32 r) helper() { st.param.b32 [r], 10; ret; }""",
    ) + '.file 1 "one.cu"'  # fmt: skip
    TWO = (
        HEAD
        + """.visible .global .u32 shared_by_both = 77; .global .u32 own = 2; .global .align 8 .u64 where = own;
        .extern .shared .align 16 .b8 dynamic[];
        .func (.param .b32 r) helper() { .reg .u32 %r<2>; .reg .u64 %rd<3>; ld.global.u64 %rd1, [where]; ld.global.u32 %r1, [%rd1];
            st.param.b32 [r], %r1; ret; }
        .visible .func (.param .b32 r) other(.param .b32 a) { .reg .u32 %r<5>; ld.param.u32 %r1, [a]; .param .b32 v;
            .loc 1 9 1
            call (v), helper, (); ld.param.b32 %r2, [v]; ld.global.u32 %r3, [own]; mad.lo.u32 %r1, %r1, 100, %r2;
            mad.lo.u32 %r1, %r3, 1000, %r1; st.param.b32 [r], %r1; ret; }
        .file 1 "two.cu"
        """
    )

    @needs_cc
    def test_definitions_of_another_module(self) -> None:
        out = np.zeros(4, np.uint32)
        program = Program(self.ONE, self.TWO, checked=True)
        program.run("k", out)
        assert out.tolist() == [2502, 10, 77, 1]
        assert {(site.file, site.line) for site in program.translation.sites} >= {("one.cu", 7), ("two.cu", 9)}
        assert program.translation.kernels["k"].dynamic_align == 0

    def test_defined_twice(self) -> None:
        with pytest.raises(PtxError, match="'other' is defined in two modules"):
            ptx.merge(
                [
                    ptx.parse(text)
                    for text in (
                        self.ONE,
                        self.TWO,
                        self.TWO.replace(".global .u32 shared", ".weak .global .u32 shared"),
                    )
                ]
            )

    def test_defined_nowhere(self) -> None:
        with pytest.raises(PtxError, match="'other' is declared|'shared_by_both' is declared"):
            ptx.merge([ptx.parse(self.ONE), ptx.parse(HEAD)])

    @needs_cc
    def test_a_weak_definition_yields(self) -> None:
        text = HEAD + ".weak .func (.param .b32 r) other(.param .b32 a) { st.param.b32 [r], 9; ret; }"
        for texts in ((self.ONE, text, self.TWO), (self.ONE, self.TWO, text)):
            out = np.zeros(4, np.uint32)
            Program(*texts).run("k", out)
            assert out[0] == 2502


class TestFibers:
    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ("add.u32 %r1, %r1, 1;", False),
            ("bar.sync 0;", True),
            ("shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;", True),
            ("L: ld.volatile.global.u32 %r1, [%out]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;", True),
            ("L: atom.global.cas.b32 %r1, [%out], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra L;", True),
            ("L: atom.global.exch.b32 %r1, [%out], 1; mov.b32 %r2, %r1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;", True),
            # Each of these ends when its thread runs alone:
            ("L: mov.b32 %r2, %r1; add.u32 %r3, %r2, 1; atom.global.cas.b32 %r1, [%out], %r2, %r3; setp.ne.u32 %p1, %r1, %r2; @%p1 bra L;", False),
            ("L: atom.global.add.u32 %r1, [%out], 1; setp.lt.u32 %p1, %r1, 9; @%p1 bra L;", False),
            ("L: atom.global.add.u32 %r1, [%out], %r2; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 9; @%p1 bra L;", False),
            ("L: ld.global.u32 %r1, [%out]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;", False),
        ],
    )  # fmt: skip
    def test_needs_fibers(self, body: str, expected: bool) -> None:
        assert translate(kernel(body)).kernels["k"].needs_fibers is expected

    def test_cooperative(self) -> None:
        assert translate(kernel("mov.u32 %r1, %envreg1;")).kernels["k"].is_cooperative


# ---- what single instructions do ----


@needs_cc
class TestControl:
    def test_loop_counts_down_the_budget(self) -> None:
        body = "LOOP: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 5000; @%p1 bra LOOP; st.global.u32 [%out], %r1;"
        out = np.zeros(1, np.uint32)
        assert Program(kernel(body)).run("k", out)["ticks"] in (4, 5)
        assert out[0] == 5000

    def test_branch_by_index(self) -> None:
        body = """
        targets: .branchtargets A, B, C;
        brx.idx %t, targets;
        A: mov.u32 %r1, 10; bra END;
        B: mov.u32 %r1, 20; bra END;
        C: mov.u32 %r1, 30;
        END:"""
        assert evaluate(body, "u32", np.uint32, "%r1", block=3).tolist() == [10, 20, 30]

    FUNCTIONS = """
    .func (.param .b32 result) twice(.param .b32 a) {
        .reg .u32 %r<3>; ld.param.u32 %r1, [a]; shl.b32 %r2, %r1, 1; st.param.b32 [result+0], %r2; ret; }
    .func (.param .b32 result) thrice(.param .b32 a) {
        .reg .u32 %r<3>; ld.param.u32 %r1, [a]; mul.lo.u32 %r2, %r1, 3; st.param.b32 [result+0], %r2; ret; }
    .func (.reg .u32 result) plain(.reg .u32 a, .reg .u32 b) { add.u32 result, a, b; ret; }
    .func (.param .b32 result) factorial(.param .b32 a) {
        .reg .u32 %r<5>; .reg .pred %p; ld.param.u32 %r1, [a]; setp.gt.u32 %p, %r1, 1; mov.u32 %r3, 1; @!%p bra END;
        { .param .b32 q; .param .b32 v; sub.u32 %r2, %r1, 1; st.param.b32 [q], %r2; call (v), factorial, (q); ld.param.b32 %r3, [v]; }
        mul.lo.u32 %r3, %r3, %r1;
        END: st.param.b32 [result], %r3; ret; }
    .func leave(.param .b32 a) { .reg .u32 %r<2>; .reg .pred %p; ld.param.u32 %r1, [a]; setp.eq.u32 %p, %r1, 1; @%p exit; ret; }
    .global .align 8 .u64 table[2] = {twice, thrice};
    """

    def call(self, body: str, block: int = 1) -> list[int]:
        return evaluate(body, "u32", np.uint32, "%r1", block=block, before=self.FUNCTIONS).tolist()

    def test_call(self) -> None:
        body = "{ .param .b32 q; .param .b32 v; st.param.b32 [q+0], 21; call.uni (v), twice, (q); ld.param.b32 %r1, [v+0]; }"
        assert self.call(body) == [42]

    def test_recursion(self) -> None:
        body = "{ .param .b32 q; .param .b32 v; st.param.b32 [q+0], 10; call (v), factorial, (q); ld.param.b32 %r1, [v+0]; }"
        assert self.call(body) == [3628800]

    def test_call_through_a_table(self) -> None:
        body = """mov.u64 %rd1, table; mad.wide.u32 %rd1, %t, 8, %rd1; ld.global.u64 %rd2, [%rd1];
        { .param .b32 q; .param .b32 v; st.param.b32 [q+0], 5; proto: .callprototype (.param .b32 _) _ (.param .b32 _);
          call (v), %rd2, (q), proto; ld.param.b32 %r1, [v+0]; }"""
        assert self.call(body, 2) == [10, 15]

    def test_registers_as_parameters(self) -> None:
        assert self.call("mov.u32 %r2, 30; call (%r1), plain, (%r2, 4);") == [34]

    def test_exit_in_a_function_ends_the_thread(self) -> None:
        body = "{ .param .b32 q; st.param.b32 [q+0], %t; call leave, (q); } mov.u32 %r1, 8;"
        assert self.call(body, 3) == [8, 0, 8]

    def test_registers_that_nothing_has_written_are_0(self) -> None:
        body = """setp.eq.u32 %p1, %t, 1; @%p1 bra SKIP; mov.u32 %r2, 5; add.u32 %r3, %r2, 1; SKIP: add.u32 %r1, %r2, %r3;
        @%p1 mov.u32 %r4, 100; add.u32 %r1, %r1, %r4; LOOP: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3; @%p2 bra LOOP;
        add.u32 %r1, %r1, %r5;"""
        assert evaluate(body, "u32", np.uint32, "%r1", block=2).tolist() == [14, 103]
        text = kernel("mov.u32 %r7, 5; add.u32 %r8, %r7, %r9;")
        assert re.search(r"^u32 .*vr9 = 0", translate(text).text, re.MULTILINE)
        assert not re.search(r"vr7 = 0|vr8 = 0", translate(text).text)

    def test_predicates(self) -> None:
        body = """setp.eq.u32 %p1|%p2, %t, 1; mov.u32 %r1, 0; @%p1 add.u32 %r1, %r1, 1; @!%p1 add.u32 %r1, %r1, 10;
        @%p2 add.u32 %r1, %r1, 100; and.pred %p3, %p1, %p2; selp.u32 %r2, 1000, 0, %p3; add.u32 %r1, %r1, %r2;
        setp.lt.and.u32 %p4|%p5, %t, 2, !%p1; @%p4 add.u32 %r1, %r1, 2000; @%p5 add.u32 %r1, %r1, 4000;"""
        assert evaluate(body, "u32", np.uint32, "%r1", block=3).tolist() == [2110, 1, 4110]


@needs_cc
@pytest.mark.parametrize("checked", [False, True])
class TestMemory:
    def test_vectors_and_widths(self, checked: bool) -> None:
        body = """st.global.v4.f32 [%out], {0f3F800000, 0f40000000, 0f40400000, 0f40800000};
        ld.global.v2.b64 {%rd1, %rd2}, [%out]; mov.b64 {%r1, %r2}, %rd2; ld.global.s8 %r3, [%out+3]; ld.global.s16 %rs1, [%out+2];
        st.global.v2.u32 [%out+16], {%r1, %r2}; st.global.u16 [%out+24], %rs1; st.global.u8 [%out+26], %r3; st.global.u8 [%out+27], 300;
        mov.b32 {%rs2, _}, %r2; mov.b32 %r4, {%rs2, %rs1}; st.global.b32 [%out+28], %r4;"""
        out = np.zeros(8, np.uint32)
        counts = Program(kernel(body), checked=checked).run("k", out)
        assert out[:4].view(np.float32).tolist() == [1, 2, 3, 4]
        assert out[4:6].view(np.float32).tolist() == [3, 4]
        assert out[6:].tolist() == [0x2C3F3F80, 0x3F800000]
        assert (counts["accesses"], counts["stores"]) == ((3, 6) if checked else (0, 0))

    def test_a_vector_load_over_its_own_address(self, checked: bool) -> None:
        body = "st.global.v2.u64 [%out], {5, 6}; mov.u64 %rd1, %out; ld.global.v2.u64 {%rd1, %rd2}, [%rd1]; add.u64 %rd1, %rd1, %rd2;"
        out = np.zeros(2, np.uint64)
        Program(kernel(body + "st.global.u64 [%out], %rd1;"), checked=checked).run("k", out)
        assert out[0] == 11

    def test_shared_window(self, checked: bool) -> None:
        before = ".shared .align 4 .u32 a[4]; .extern .shared .align 8 .b8 dynamic[];"
        body = """mov.u32 %r1, a; st.shared.u32 [%r1+4], 7; cvta.shared.u64 %rd1, 0; mov.u64 %rd2, a; cvta.shared.u64 %rd2, %rd2;
        ld.u32 %r2, [%rd2+4]; add.u32 %r2, %r2, 1; st.u32 [%rd2], %r2; ld.shared.u32 %r3, [a]; mov.u32 %r4, dynamic;
        st.shared.v2.u32 [%r4+8], {%r3, 5}; ld.shared.u32 %r5, [%r4+-4+12]; cvta.to.shared.u64 %rd3, %rd2; cvt.u32.u64 %r6, %rd3; sub.u32 %r6, %r6, %r1;
        isspacep.shared %p1, %rd2; isspacep.shared %p2, %out; isspacep.global %p3, %out; selp.u32 %r7, 1, 0, %p1; @!%p2 add.u32 %r7, %r7, 2; @%p3 add.u32 %r7, %r7, 4;
        st.global.v4.u32 [%out], {%r3, %r5, %r6, %r7};"""
        out = np.zeros(4, np.uint32)
        Program(kernel(body, before=before), checked=checked).run("k", out, dynamic=64)
        assert out.tolist() == [8, 8, 0, 7]

    def test_local_variables(self, checked: bool) -> None:
        body = """.local .align 8 .b8 depot[32]; .reg .u64 %SP, %SPL; mov.u64 %SPL, depot; cvta.local.u64 %SP, %SPL;
        st.local.v2.u32 [%SPL+8], {3, 4}; add.u64 %rd1, %SP, 12; ld.u32 %r1, [%rd1]; ld.local.u32 %r2, [depot+8]; add.u32 %r1, %r1, %r2;
        isspacep.local %p1, %rd1; @%p1 add.u32 %r1, %r1, 100; st.global.u32 [%out], %r1;"""
        out = np.zeros(1, np.uint32)
        program = Program(kernel(body), checked=checked)
        counts = program.run("k", out, block=2)
        assert out[0] == 107
        assert program.translation.kernels["k"].local_nbytes == 32
        assert (counts["begun"], counts["ended"]) == ((2, 2) if checked else (0, 0))

    def test_atomics(self, checked: bool) -> None:
        body = """atom.global.add.u32 %r1, [%out], 5; red.relaxed.gpu.global.max.s32 [%out+4], -3; atom.cas.b64 %rd1, [%out+8], 0, 9;
        atom.global.inc.u32 %r2, [%out+16], 7; atom.exch.b32 %r3, [%out+20], %r1; atom.global.add.f32 %f1, [%out+24], 0f3FC00000;
        red.global.or.b32 [%out+28], 6;"""
        out = np.array([1, -9 & 0xFFFFFFFF, 0, 0, 7, 5, 0, 1], np.uint32)
        assert Program(kernel(body), checked=checked).run("k", out)["atomics"] == 7
        assert out.tolist() == [6, -3 & 0xFFFFFFFF, 9, 0, 0, 1, 0x3FC00000, 7]

    def test_parameters(self, checked: bool) -> None:
        body = """mov.b64 %rd1, big; cvta.param.u64 %rd2, %rd1; ld.u32 %r1, [%rd2+12]; ld.param.v2.u32 {%r2, %r3}, [big+8];
        ld.param.s8 %r4, [small]; add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r4; st.global.u32 [%out], %r1;"""
        text = kernel(body, ".param .u64 .ptr .global .align 4 out, .param .s8 small, .param .align 8 .b8 big[16]")
        out = np.zeros(1, np.uint32)
        Program(text, checked=checked).run("k", out, np.int8(-2), np.array([1, 2, 30, 400], np.uint32).tobytes())
        assert out[0] == 428


@needs_cc
def test_kept_bits_of_nan() -> None:
    body = """mov.b32 %f1, 0x7fa12345; mov.f32 %f2, %f1; mov.b32 %r1, %f2; add.f32 %f3, %f1, 0f3F800000; mov.b32 %r2, %f3;
    neg.f32 %f4, %f1; mov.b32 %r3, %f4; min.f32 %f5, %f1, %f1; mov.b32 %r4, %f5; st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};"""
    out = np.zeros(4, np.uint32)
    Program(kernel(body)).run("k", out)
    assert [hex(word) for word in out] == ["0x7fa12345", "0x7fffffff", "0x7fffffff", "0x7fffffff"]


@needs_cc
def test_registers_of_bits_that_hold_floats() -> None:
    """NVRTC 13 declares `.b32` for floats: they become C floats, with the same results."""
    body = "ld.global.b32 %r1, [%out]; add.f32 %r2, %r1, %r1; fma.rn.f32 %r3, %r2, %r1, %r2; st.global.b32 [%out], %r3;"
    assert re.search(r"^f32 .*vr1", translate(kernel(body)).text, re.MULTILINE)
    out = np.array([3], np.float32)
    Program(kernel(body)).run("k", out)
    assert out[0] == 24


CORNERS = {
    ".reg .v4 .f32 q; mov.f32 q.x, 0f3F800000; mov.f32 q.y, 0f40000000; mov.f32 q.z, q.x; mov.f32 q.w, q.y; st.global.v4.f32 [%out], q; .reg .v4 .f32 w; ld.global.v4.f32 w, [%out]; add.f32 %f1, w.y, w.w; cvt.rni.u32.f32 %r1, %f1;": 4,
    "mov.pred %p1, 1; mov.pred %p2, %p1; not.pred %p3, %p2; xor.pred %p4, %p1, %p3; selp.u32 %r1, 5, 6, %p4;": 5,
    "setp.lt.ftz.f32 %p1, 0f00000001, 0f00000002; selp.u32 %r1, 5, 6, %p1;": 6,
    "add.cc.u64 %rd1, -1, 1; addc.u64 %rd2, 5, 0; cvt.u32.u64 %r1, %rd2;": 6,
    "add.cc.s32 %r2, -1, 1; addc.cc.s32 %r3, -1, 0; addc.u32 %r1, 7, 0;": 8,
    "mad.lo.cc.u32 %r2, 0x10000, 0x10000, 0xFFFFFFFF; madc.hi.u32 %r1, 0x10000, 0x10000, 3;": 4,
    "mad.lo.cc.u32 %r2, 3, 5, 0xFFFFFFFF; madc.hi.u32 %r1, 0x10000, 0x10000, 3;": 5,
    "cvt.pack.sat.u8.s32.b32 %r1, 300, -5, 0x1234;": 0x1234FF00,
    "cvt.pack.sat.s16.s32 %r1, 40000, -50000;": 0x7FFF8000,
    "prmt.b32.f4e %r1, 0x33221100, 0x77665544, 1;": 0x44332211,
    "prmt.b32.b4e %r1, 0x33221100, 0x77665544, 1;": 0x66770011,
    "prmt.b32.rc8 %r1, 0x33221100, 0, 2;": 0x22222222,
    "prmt.b32.ecl %r1, 0x33221100, 0, 1;": 0x33221111,
    "prmt.b32.ecr %r1, 0x33221100, 0, 2;": 0x22221100,
    "prmt.b32.rc16 %r1, 0x33221100, 0, 1;": 0x33223322,
    "fns.b32 %r1, 0xAAAAAAAA, 3, 2;": 5,
    "fns.b32 %r1, 0xAAAAAAAA, 3, -2;": 1,
    "fns.b32 %r1, 0xAAAAAAAA, 3, 0;": 3,
    "mul24.lo.u32 %r2, 0x1000001, 7; mad24.lo.s32 %r1, -2, 3, %r2;": 1,
    "dp2a.lo.s32.u32 %r1, 0xFFFF0002, 0x0403, 10;": 10 + 2 * 3 - 4,
    "testp.subnormal.f32 %p1, 0f00000001; testp.normal.f32 %p2, 0f00000001; testp.notanumber.f64 %p3, 0d7FF8000000000000; selp.u32 %r1,1,0,%p1; @%p2 add.u32 %r1,%r1,2; @%p3 add.u32 %r1,%r1,4;": 5,
    "shl.b16 %rs1, 3, 15; cvt.u32.u16 %r1, %rs1;": 0x8000,
    "mov.u16 %rs1, 0x8000; shr.s16 %rs2, %rs1, 20; cvt.s32.s16 %r1, %rs2;": 0xFFFFFFFF,
    "mul.wide.s16 %r1, -3, 5;": 0xFFFFFFF1,
    "mul.hi.u16 %rs1, 0xffff, 0xffff; cvt.u32.u16 %r1, %rs1;": 0xFFFE,
    "div.u16 %rs1, 7, 0; cvt.u32.u16 %r1,%rs1;": 0xFFFF,
    "@%p1 bra X; bra.uni Y; X: mov.u32 %r1, 9; Y: @!%p1 add.u32 %r1, %r1, 3;": 3,
    "cvt.rzi.u64.f32 %rd1, 0f7FC00000; shr.u64 %rd1, %rd1, 32; cvt.u32.u64 %r1, %rd1;": 0x80000000,
    "cvt.rzi.s32.f64 %r1, 0d7FF8000000000000;": 0x80000000,
    "cvt.rzi.u8.f32 %r1, 0f43C80000;": 255,
    "mov.u32 %r1, %ntid.x; mov.u32 %r2, %nctaid.z; mad.lo.u32 %r1, %r1, 100, %r2; mov.u32 %r3, WARP_SZ; add.u32 %r1,%r1,%r3;": 133,
    "min.f32 %f1, 0f80000000, 0f00000000; mov.b32 %r1, %f1;": 0x80000000,
    "max.xorsign.abs.f32 %f1, 0fC0000000, 0f3F800000; mov.b32 %r1, %f1;": 0xC0000000,
    "slct.u32.f32 %r1, 1, 2, 0f80000000;": 1,
    "slct.u32.f32 %r1, 1, 2, 0f7FC00000;": 2,
    "sub.sat.f16 %rs1, 0x3c00, 0x4000; cvt.u32.u16 %r1, %rs1;": 0,
    "ex2.approx.f16 %rs1, 0x4000; cvt.u32.u16 %r1, %rs1;": 0x4400,
    "tanh.approx.bf16 %rs1, 0x0000; cvt.u32.u16 %r1, %rs1;": 0,
    "cvt.rna.tf32.f32 %r1, 0f3F801000;": 0x3F802000,
    "cvt.rn.satfinite.e4m3x2.f32 %rs1, 0f43E00000, 0f3F800000; cvt.u32.u16 %r1, %rs1;": 0x7E38,
    "set.gt.f16x2.f16x2 %r1, 0x3c004000, 0x40003c00;": 0x00003C00,
    "setp.gt.f16x2 %p1|%p2, 0x3c004000, 0x40003c00; selp.u32 %r1,1,0,%p1; @%p2 add.u32 %r1,%r1,2;": 1,
    "rcp.approx.ftz.f64 %fd1, 0d4008000000000000; mov.b64 {%r2,%r1}, %fd1;": 0x3FD55555,
    "vote.sync.ballot.b32 %r1, 1, -1;": 1,
}
"""The value that instructions leave in %r1."""


@needs_cc
def test_corners() -> None:
    found = evaluate_all([*CORNERS], "u32", np.uint32, "%r1")
    assert dict(zip(CORNERS, found[:, 0].tolist(), strict=True)) == CORNERS


@needs_cc
@pytest.mark.parametrize("seed", range(3))
def test_chains_that_mix_sums_and_differences_have_one_carry(seed: int) -> None:
    """A difference is the sum with the complement: its carry is 1 where it does not borrow, for `addc` as for `subc`."""
    chance, most = Random(seed), (1 << 32) - 1
    found, carry, lines = 0, 0, ["mov.u32 %r1, 0;"]
    for turn in range(60):
        x, y, z = (chance.choice([0, 1, most, most - 1, 1 << 31, chance.getrandbits(32)]) for _ in range(3))
        name = chance.choice(
            ["add", "sub", "mad.lo"] if not turn else ["add", "sub", "mad.lo", "addc", "subc", "madc.hi"]
        )
        product, flag = (x * y >> 32 if "hi" in name else x * y & most), carry if "c" in name else "sub" in name
        first, second = (product, z) if "mad" in name else (x, y ^ most if "sub" in name else y)
        result, carry = (first + second + flag) & most, (first + second + flag) >> 32
        operands = f"{x}, {y}, {z}" if "mad" in name else f"{x}, {y}"
        lines.append(f"{name}.cc.u32 %r2, {operands}; mul.lo.u32 %r1, %r1, 31; xor.b32 %r1, %r1, %r2;")
        found = (found * 31 & most) ^ result
    assert evaluate("\n".join(lines), "u32", np.uint32, "%r1") == found


# ---- random sequences against NumPy ----

U32, U64 = np.uint32, np.uint64
KINDS = {"r": ("b32", np.uint32), "d": ("b64", np.uint64), "f": ("f32", np.uint32), "g": ("f64", np.uint64)}
REGISTERS = {"r": "%r", "d": "%rd", "f": "%f", "g": "%fd"}
LANES = 32
CANON = np.uint32(0x7FFFFFFF)

SPECIAL_32 = [0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x00FF00FF, 0x12345678, 0xFFFF8000]
SPECIAL_64 = [0, 1, 63, 64, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 0xFFFFFFFF, 0x123456789ABCDEF0]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3e38, -3e38, 1e-45, -1e-40, 1.17549435e-38, np.inf, -np.inf, np.nan,
          1e10, -1e10, 2147483648.0, 4294967296.0, 0.1, 16777217.0, 1 + 2**-23, 65504.0, 9.223372e18]  # fmt: skip


def f32(bits: np.ndarray) -> np.ndarray:
    return bits.astype(np.uint32).view(np.float32)


def bits32(values: np.ndarray) -> np.ndarray:
    values = values.astype(np.float32)
    return np.where(np.isnan(values), CANON, values.view(np.uint32))


def pack16(bits: np.ndarray) -> np.ndarray:
    """Floats as words of half, in the lower part."""
    half = f32(bits).astype(np.float16).view(np.uint16)
    return np.where(np.isnan(f32(bits)), np.uint16(0x7FFF), half).astype(np.uint32)


def f64(bits: np.ndarray) -> np.ndarray:
    return bits.astype(np.uint64).view(np.float64)


def flush(bits: np.ndarray) -> np.ndarray:
    return np.where(bits & U32(0x7F800000), bits, bits & U32(0x80000000))


def signed(values: np.ndarray) -> np.ndarray:
    return values.view(np.int32 if values.dtype == np.uint32 else np.int64)


def python(function: Callable[..., int], dtype: type = np.uint32) -> Callable[..., np.ndarray]:
    """An operation on Python's integers, for each lane."""
    mask = (1 << 8 * np.dtype(dtype).itemsize) - 1
    return lambda *arrays: np.array(
        [function(*(int(v) for v in lane)) & mask for lane in zip(*arrays, strict=True)], dtype
    )


def s32(value: int) -> int:
    return (value & 0xFFFFFFFF) - ((value & 0x80000000) << 1)


def s64(value: int) -> int:
    return (value & ((1 << 64) - 1)) - ((value & (1 << 63)) << 1)


def quotient(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return -1 if b == 0 else a - b * quotient(a, b)


def bfe(a: int, begin: int, count: int, nbits: int, is_signed: bool) -> int:
    begin, count = begin & 255, count & 255
    if count == 0:
        return 0
    sign = a >> min(begin + count - 1, nbits - 1) & 1 if is_signed else 0
    result = 0
    for i in range(nbits):
        bit = a >> (begin + i) & 1 if i < count and begin + i < nbits else sign
        result |= bit << i
    return result


def bfi(a: int, b: int, begin: int, count: int, nbits: int) -> int:
    begin, count = begin & 255, count & 255
    for i in range(count):
        if begin + i < nbits:
            b = b & ~(1 << (begin + i)) | (a >> i & 1) << (begin + i)
    return b


def bfind(a: int, nbits: int, is_signed: bool) -> int:
    if is_signed and a >> (nbits - 1):
        a = ~a & ((1 << nbits) - 1)
    return a.bit_length() - 1 if a else 0xFFFFFFFF


def prmt(a: int, b: int, c: int) -> int:
    data = (b << 32 | a).to_bytes(8, "little")
    picked = [data[c >> 4 * i & 7] if not c >> 4 * i & 8 else 255 * (data[c >> 4 * i & 7] >> 7) for i in range(4)]
    return int.from_bytes(bytes(picked), "little")


def lop3(table: int) -> Callable[..., int]:
    def apply(a: int, b: int, c: int) -> int:
        return sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32))

    return apply


def dp4a(a: int, b: int, c: int) -> int:
    for i in range(0, 32, 8):
        c += s32((a >> i & 255) << 24) // (1 << 24) * (b >> i & 255)
    return c


def shf_l(a: int, b: int, n: int) -> int:
    return ((b << 32 | a) << min(n, 32)) >> 32


def shf_r_wrap(a: int, b: int, n: int) -> int:
    return (b << 32 | a) >> (n & 31)


def to_int(mode: Callable[[np.ndarray], np.ndarray], least: int, most: int) -> Callable[[np.ndarray], np.ndarray]:
    def apply(bits: np.ndarray) -> np.ndarray:
        values = mode(f32(bits).astype(np.float64))
        whole = [0 if np.isnan(v) else most if v > most else least if v < least else int(v) for v in values]
        return np.array([v & 0xFFFFFFFF for v in whole], np.uint32)

    return apply


def rounded(function: Callable[..., Any], mode: str, *, is_sum: bool = False) -> Callable[..., np.ndarray]:
    """An operation in fractions, rounded as `mode` says, `n` to the nearest; NumPy's where there is an infinity or NaN."""

    def apply(*bits: np.ndarray) -> np.ndarray:
        lanes = zip(*(f32(b).astype(float) for b in bits), strict=True)
        return np.array([one(*lane) for lane in lanes], np.uint32)

    def widen(value: np.float32) -> Fraction:
        infinity = Fraction(2) ** (128 if mode == "n" else 999)
        return Fraction(float(value)) if np.isfinite(value) else infinity * (1 if value > 0 else -1)

    def one(*values: float) -> int:
        plain = function(*(np.float64(value) for value in values))
        if not np.isfinite(plain) or not all(np.isfinite(values)):
            return int(bits32(np.array([plain]))[0])
        exact = function(*(Fraction(value) for value in values))
        if exact == 0:  # a sum of opposites is -0 where rounding is down
            terms = (values[0] * values[1], values[2]) if len(values) == 3 else values
            opposite = (is_sum and any(terms)) or len({bool(np.signbit(term)) for term in terms}) == 2
            return 0x80000000 if np.signbit(plain) or (is_sum and opposite and mode == "m") else 0
        near = np.float32(float(exact))
        found = near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))
        if mode == "n":
            near = min(found, key=lambda each: (abs(widen(each) - exact), int(each.view(np.uint32)) & 1))
        else:
            is_up = mode == "p" or (mode == "z" and exact < 0)
            if is_up and widen(near) < exact:
                near = found[1]
            elif not is_up and widen(near) > exact:
                near = found[2]
        return int(near.view(np.uint32))

    return apply


def halves(function: Callable[..., np.ndarray], narrow: str = "f16") -> Callable[..., np.ndarray]:
    """An operation on both halves of words, computed as doubles and rounded once."""

    def take(bits: np.ndarray) -> np.ndarray:
        if narrow == "f16":
            return bits.view(np.float16).astype(np.float64)
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)

    def finish(values: np.ndarray) -> np.ndarray:
        if narrow == "f16":
            bits = values.astype(np.float16).view(np.uint16)
        else:
            bits = bfloat(values)
        return np.where(np.isnan(values), np.uint16(0x7FFF), bits).astype(np.uint16)

    def apply(*words: np.ndarray) -> np.ndarray:
        return finish(function(*(take(np.ascontiguousarray(word).view(np.uint16)) for word in words))).view(np.uint32)

    return apply


def bfloat(values: np.ndarray) -> np.ndarray:
    """Doubles rounded to bfloat16, ties to even, through a float that is rounded to odd."""
    near = values.astype(np.float32)
    bits = near.view(np.uint32).astype(np.int64)
    error = np.nan_to_num(values - near.astype(np.float64), nan=0, posinf=0, neginf=0)
    towards = np.where(error == 0, 0, np.where((error > 0) == (values > 0), 1, -1))
    bits = np.where((towards < 0) & (bits & 1 == 0), bits - 1, bits) | (towards != 0)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def minmax(bits: tuple[np.ndarray, np.ndarray], largest: bool) -> np.ndarray:
    a, b = f32(bits[0]), f32(bits[1])
    key_a, key_b = (np.where(s & U32(0x80000000), -1.0, 1.0) for s in bits)
    smaller = (a < b) | ((a == b) & (key_a < key_b))
    chosen = np.where(smaller != largest, a, b)
    return bits32(np.where(np.isnan(a), b, np.where(np.isnan(b), a, chosen)))


@dataclass(frozen=True)
class Op:
    text: str  # the instruction; {0} is the destination
    kinds: str  # of the destination and of the operands
    apply: Callable[..., np.ndarray]


OPS = [
    Op("add.u32 {0}, {1}, {2}", "rrr", lambda a, b: a + b),
    Op("sub.s32 {0}, {1}, {2}", "rrr", lambda a, b: a - b),
    Op("add.sat.s32 {0}, {1}, {2}", "rrr", python(lambda a, b: min(max(s32(a) + s32(b), -(1 << 31)), (1 << 31) - 1))),
    Op("sub.sat.s32 {0}, {1}, {2}", "rrr", python(lambda a, b: min(max(s32(a) - s32(b), -(1 << 31)), (1 << 31) - 1))),
    Op("mul.lo.s32 {0}, {1}, {2}", "rrr", lambda a, b: a * b),
    Op("mul.hi.u32 {0}, {1}, {2}", "rrr", python(lambda a, b: a * b >> 32)),
    Op("mul.hi.s32 {0}, {1}, {2}", "rrr", python(lambda a, b: s32(a) * s32(b) >> 32)),
    Op("mul.wide.u32 {0}, {1}, {2}", "drr", python(lambda a, b: a * b, np.uint64)),
    Op("mul.wide.s32 {0}, {1}, {2}", "drr", python(lambda a, b: s32(a) * s32(b), np.uint64)),
    Op("mad.lo.u32 {0}, {1}, {2}, {3}", "rrrr", lambda a, b, c: a * b + c),
    Op("mad.hi.s32 {0}, {1}, {2}, {3}", "rrrr", python(lambda a, b, c: (s32(a) * s32(b) >> 32) + c)),
    Op("mad.hi.sat.s32 {0}, {1}, {2}, {3}", "rrrr", python(lambda a, b, c: min(max((s32(a) * s32(b) >> 32) + s32(c), -(1 << 31)), (1 << 31) - 1))),
    Op("mad.wide.s32 {0}, {1}, {2}, {3}", "drrd", python(lambda a, b, c: s32(a) * s32(b) + c, np.uint64)),
    Op("mul24.lo.s32 {0}, {1}, {2}", "rrr", python(lambda a, b: (s32(a << 8) >> 8) * (s32(b << 8) >> 8))),
    Op("mul24.hi.u32 {0}, {1}, {2}", "rrr", python(lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16)),
    Op("sad.s32 {0}, {1}, {2}, {3}", "rrrr", python(lambda a, b, c: c + abs(s32(a) - s32(b)))),
    Op("div.u32 {0}, {1}, {2}", "rrr", python(quotient)),
    Op("div.s32 {0}, {1}, {2}", "rrr", python(lambda a, b: quotient(s32(a), s32(b)))),
    Op("rem.u32 {0}, {1}, {2}", "rrr", python(remainder)),
    Op("rem.s32 {0}, {1}, {2}", "rrr", python(lambda a, b: remainder(s32(a), s32(b)))),
    Op("div.s64 {0}, {1}, {2}", "ddd", python(lambda a, b: quotient(s64(a), s64(b)), np.uint64)),
    Op("rem.u64 {0}, {1}, {2}", "ddd", python(remainder, np.uint64)),
    Op("mul.hi.s64 {0}, {1}, {2}", "ddd", python(lambda a, b: s64(a) * s64(b) >> 64, np.uint64)),
    Op("mul.hi.u64 {0}, {1}, {2}", "ddd", python(lambda a, b: a * b >> 64, np.uint64)),
    Op("mad.lo.s64 {0}, {1}, {2}, {3}", "dddd", lambda a, b, c: a * b + c),
    Op("add.s64 {0}, {1}, {2}", "ddd", lambda a, b: a + b),
    Op("abs.s32 {0}, {1}", "rr", python(lambda a: abs(s32(a)))),
    Op("neg.s64 {0}, {1}", "dd", python(lambda a: -a, np.uint64)),
    Op("min.s32 {0}, {1}, {2}", "rrr", python(lambda a, b: min(s32(a), s32(b)))),
    Op("max.u32 {0}, {1}, {2}", "rrr", np.maximum),
    Op("max.s64 {0}, {1}, {2}", "ddd", python(lambda a, b: max(s64(a), s64(b)), np.uint64)),
    Op("min.u64 {0}, {1}, {2}", "ddd", np.minimum),
    Op("and.b32 {0}, {1}, {2}", "rrr", np.bitwise_and),
    Op("or.b64 {0}, {1}, {2}", "ddd", np.bitwise_or),
    Op("xor.b32 {0}, {1}, {2}", "rrr", np.bitwise_xor),
    Op("not.b64 {0}, {1}", "dd", np.invert),
    Op("cnot.b32 {0}, {1}", "rr", python(lambda a: int(a == 0))),
    Op("shl.b32 {0}, {1}, {2}", "rrr", python(lambda a, n: a << n if n < 32 else 0)),
    Op("shr.u32 {0}, {1}, {2}", "rrr", python(lambda a, n: a >> n if n < 32 else 0)),
    Op("shr.s32 {0}, {1}, {2}", "rrr", python(lambda a, n: s32(a) >> min(n, 31))),
    Op("shl.b64 {0}, {1}, {2}", "ddr", python(lambda a, n: a << n if n < 64 else 0, np.uint64)),
    Op("shr.s64 {0}, {1}, {2}", "ddr", python(lambda a, n: s64(a) >> min(n, 63), np.uint64)),
    Op("shf.l.clamp.b32 {0}, {1}, {2}, {3}", "rrrr", python(shf_l)),
    Op("shf.r.wrap.b32 {0}, {1}, {2}, {3}", "rrrr", python(shf_r_wrap)),
    Op("popc.b32 {0}, {1}", "rr", python(lambda a: a.bit_count())),
    Op("popc.b64 {0}, {1}", "rd", python(lambda a: a.bit_count())),
    Op("clz.b32 {0}, {1}", "rr", python(lambda a: 32 - a.bit_length())),
    Op("clz.b64 {0}, {1}", "rd", python(lambda a: 64 - a.bit_length())),
    Op("brev.b32 {0}, {1}", "rr", python(lambda a: int(f"{a:032b}"[::-1], 2))),
    Op("brev.b64 {0}, {1}", "dd", python(lambda a: int(f"{a:064b}"[::-1], 2), np.uint64)),
    Op("bfind.u32 {0}, {1}", "rr", python(lambda a: bfind(a, 32, False))),
    Op("bfind.s64 {0}, {1}", "rd", python(lambda a: bfind(a, 64, True))),
    Op("bfind.shiftamt.s32 {0}, {1}", "rr", python(lambda a: 0xFFFFFFFF if (n := bfind(a, 32, True)) == 0xFFFFFFFF else 31 - n)),
    Op("bfe.u32 {0}, {1}, {2}, {3}", "rrrr", python(lambda a, b, c: bfe(a, b, c, 32, False))),
    Op("bfe.s32 {0}, {1}, {2}, {3}", "rrrr", python(lambda a, b, c: bfe(a, b, c, 32, True))),
    Op("bfe.s64 {0}, {1}, {2}, {3}", "ddrr", python(lambda a, b, c: bfe(a, b, c, 64, True), np.uint64)),
    Op("bfe.s32 {0}, {1}, 5, 9", "rr", python(lambda a: bfe(a, 5, 9, 32, True))),
    Op("bfi.b32 {0}, {1}, {2}, {3}, {4}", "rrrrr", python(lambda a, b, c, d: bfi(a, b, c, d, 32))),
    Op("bfi.b64 {0}, {1}, {2}, 7, 40", "ddd", python(lambda a, b: bfi(a, b, 7, 40, 64), np.uint64)),
    Op("prmt.b32 {0}, {1}, {2}, {3}", "rrrr", python(prmt)),
    Op("lop3.b32 {0}, {1}, {2}, {3}, 0x96", "rrrr", python(lop3(0x96))),
    Op("lop3.b32 {0}, {1}, {2}, {3}, 0xFE", "rrrr", python(lop3(0xFE))),
    Op("lop3.b32 {0}, {1}, {2}, {3}, 0x1B", "rrrr", python(lop3(0x1B))),
    Op("dp4a.s32.u32 {0}, {1}, {2}, {3}", "rrrr", python(dp4a)),
    Op("bmsk.clamp.b32 {0}, {1}, {2}", "rrr", python(lambda a, b: ((1 << min(b, 32)) - 1) << a if a < 32 else 0)),
    Op("szext.wrap.s32 {0}, {1}, {2}", "rrr", python(lambda a, n: bfe(a, 0, n & 31, 32, True))),
    Op("slct.b32.s32 {0}, {1}, {2}, {3}", "rrrr", lambda a, b, c: np.asarray(np.where(c < U32(1 << 31), a, b))),
    Op("set.lt.u32.s32 {0}, {1}, {2}", "rrr", lambda a, b: np.where(signed(a) < signed(b), U32(0xFFFFFFFF), U32(0))),
    Op("set.gtu.u32.f32 {0}, {1}, {2}", "rff", lambda a, b: np.where(~(f32(a) <= f32(b)), U32(0xFFFFFFFF), U32(0))),
    Op("set.ne.u32.f32 {0}, {1}, {2}", "rff", lambda a, b: np.where((f32(a) < f32(b)) | (f32(a) > f32(b)), U32(0xFFFFFFFF), U32(0))),
    Op("cvt.u32.u64 {0}, {1}", "rd", lambda a: a.astype(np.uint32)),
    Op("cvt.s64.s32 {0}, {1}", "dr", lambda a: signed(a).astype(np.int64).view(np.uint64)),
    Op("cvt.u64.u32 {0}, {1}", "dr", lambda a: a.astype(np.uint64)),
    Op("cvt.s32.s8 {0}, {1}", "rr", lambda a: a.astype(np.uint8).view(np.int8).astype(np.int32).view(np.uint32)),
    Op("cvt.s64.s16 {0}, {1}", "dr", lambda a: a.astype(np.uint16).view(np.int16).astype(np.int64).view(np.uint64)),
    Op("cvt.sat.u8.s32 {0}, {1}", "rr", python(lambda a: min(max(s32(a), 0), 255))),
    Op("cvt.sat.s16.u32 {0}, {1}", "rr", python(lambda a: min(a, 32767))),
    Op("cvt.sat.s32.s64 {0}, {1}", "rd", python(lambda a: min(max(s64(a), -(1 << 31)), (1 << 31) - 1))),
    Op("cvt.rzi.s32.f32 {0}, {1}", "rf", to_int(np.trunc, -(1 << 31), (1 << 31) - 1)),
    Op("cvt.rni.s32.f32 {0}, {1}", "rf", to_int(np.rint, -(1 << 31), (1 << 31) - 1)),
    Op("cvt.rmi.u32.f32 {0}, {1}", "rf", to_int(np.floor, 0, (1 << 32) - 1)),
    Op("cvt.rpi.s8.f32 {0}, {1}", "rf", to_int(np.ceil, -128, 127)),
    Op("cvt.rn.f32.s32 {0}, {1}", "fr", lambda a: bits32(signed(a).astype(np.float64))),
    Op("cvt.rn.f32.u64 {0}, {1}", "fd", lambda a: bits32(a.astype(np.float32))),
    Op("cvt.rz.f32.u32 {0}, {1}", "fr", lambda a: bits32(np.where((n := a.astype(np.float32)).astype(np.float64) > a, np.nextafter(n, np.float32(0)), n))),
    Op("cvt.rn.f64.s64 {0}, {1}", "gd", lambda a: signed(a).astype(np.float64).view(np.uint64)),
    Op("cvt.rni.f32.f32 {0}, {1}", "ff", lambda a: bits32(np.rint(f32(a)))),
    Op("cvt.rmi.f32.f32 {0}, {1}", "ff", lambda a: bits32(np.floor(f32(a)))),
    Op("cvt.sat.f32.f32 {0}, {1}", "ff", lambda a: bits32(np.where(f32(a) > 0, np.minimum(f32(a), 1), np.float32(0)))),
    Op("add.f32 {0}, {1}, {2}", "fff", lambda a, b: bits32(f32(a) + f32(b))),
    Op("sub.rn.f32 {0}, {1}, {2}", "fff", lambda a, b: bits32(f32(a) - f32(b))),
    Op("mul.f32 {0}, {1}, {2}", "fff", lambda a, b: bits32(f32(a) * f32(b))),
    Op("mul.ftz.f32 {0}, {1}, {2}", "fff", lambda a, b: flush(bits32(f32(flush(a)) * f32(flush(b))))),
    Op("add.sat.f32 {0}, {1}, {2}", "fff", lambda a, b: bits32(np.where((s := f32(a) + f32(b)) > 0, np.minimum(s, 1), np.float32(0)))),
    Op("div.rn.f32 {0}, {1}, {2}", "fff", lambda a, b: bits32(f32(a) / f32(b))),
    Op("sqrt.rn.f32 {0}, {1}", "ff", lambda a: bits32(np.sqrt(f32(a)))),
    Op("rcp.rn.f32 {0}, {1}", "ff", lambda a: bits32(np.float32(1) / f32(a))),
    Op("neg.f32 {0}, {1}", "ff", lambda a: bits32(-f32(a))),
    Op("abs.f32 {0}, {1}", "ff", lambda a: bits32(np.abs(f32(a)))),
    Op("min.f32 {0}, {1}, {2}", "fff", lambda a, b: minmax((a, b), False)),
    Op("max.f32 {0}, {1}, {2}", "fff", lambda a, b: minmax((a, b), True)),
    Op("max.NaN.f32 {0}, {1}, {2}", "fff", lambda a, b: np.where(np.isnan(f32(a)) | np.isnan(f32(b)), CANON, minmax((a, b), True))),
    Op("copysign.f32 {0}, {1}, {2}", "fff", lambda a, b: a & U32(0x80000000) | b & U32(0x7FFFFFFF)),
    Op("add.f64 {0}, {1}, {2}", "ggg", lambda a, b: (f64(a) + f64(b)).view(np.uint64)),
    Op("mul.f64 {0}, {1}, {2}", "ggg", lambda a, b: (f64(a) * f64(b)).view(np.uint64)),
    Op("div.rn.f64 {0}, {1}, {2}", "ggg", lambda a, b: (f64(a) / f64(b)).view(np.uint64)),
    Op("cvt.f64.f32 {0}, {1}", "gf", lambda a: f32(a).astype(np.float64).view(np.uint64)),
    Op("cvt.rn.f32.f64 {0}, {1}", "fg", lambda a: bits32(f64(a).astype(np.float32))),
    *(Op(f"add.r{m}.f32 {{0}}, {{1}}, {{2}}", "fff", rounded(lambda a, b: a + b, m, is_sum=True)) for m in "zmp"),
    *(Op(f"mul.r{m}.f32 {{0}}, {{1}}, {{2}}", "fff", rounded(lambda a, b: a * b, m)) for m in "zmp"),
    *(Op(f"fma.r{m}.f32 {{0}}, {{1}}, {{2}}, {{3}}", "ffff", rounded(lambda a, b, c: a * b + c, m, is_sum=True)) for m in "nzmp"),
    *(Op(f"div.r{m}.f32 {{0}}, {{1}}, {{2}}", "fff", rounded(lambda a, b: a / b if b else np.divide(float(a), float(b)), m)) for m in "zmp"),
    Op("add.f16x2 {0}, {1}, {2}", "rrr", halves(lambda a, b: a + b)),
    Op("sub.f16x2 {0}, {1}, {2}", "rrr", halves(lambda a, b: a - b)),
    Op("mul.f16x2 {0}, {1}, {2}", "rrr", halves(lambda a, b: a * b)),
    Op("fma.rn.f16x2 {0}, {1}, {2}, {3}", "rrrr", halves(lambda a, b, c: a * b + c)),
    Op("fma.rn.relu.f16x2 {0}, {1}, {2}, {3}", "rrrr", halves(lambda a, b, c: np.where((s := a * b + c) < 0, 0, s) + 0.0)),
    Op("mul.bf16x2 {0}, {1}, {2}", "rrr", halves(lambda a, b: a * b, "bf16")),
    Op("add.bf16x2 {0}, {1}, {2}", "rrr", halves(lambda a, b: a + b, "bf16")),
    Op("max.f16x2 {0}, {1}, {2}", "rrr", halves(lambda a, b: np.where((a == b) & (a == 0), a + b, np.fmax(a, b)))),
    Op("cvt.rn.f16x2.f32 {0}, {1}, {2}", "rff", lambda a, b: np.stack([halves(lambda x: x)(pack16(c)) for c in (b, a)]).astype(np.uint32)[0] & U32(0xFFFF) | halves(lambda x: x)(pack16(a)) << U32(16)),
    Op("mov.b32 {{%rs1, %rs2}}, {1}; cvt.f32.f16 {0}, %rs2", "fr", lambda a: bits32((a >> U32(16)).astype(np.uint16).view(np.float16).astype(np.float32))),
    Op("mov.b32 {{%rs1, %rs2}}, {1}; cvt.rzi.s32.f16 {0}, %rs1", "rr", lambda a: to_int(np.trunc, -(1 << 31), (1 << 31) - 1)(bits32(a.astype(np.uint16).view(np.float16)))),
    Op("cvt.rn.f16.u32 %rs3, {1}; mov.b32 {0}, {{%rs3, %rs3}}", "rr", lambda a: (h := np.minimum(a, U32(1 << 20)).astype(np.float64).astype(np.float16).view(np.uint16).astype(np.uint32)) | h << U32(16)),
    Op("mov.b32 {0}, {1}", "rf", lambda a: a.copy()),
    Op("mov.b32 {0}, {1}", "fr", lambda a: a.copy()),
    Op("mov.b64 {0}, {1}", "dg", lambda a: a.copy()),
    Op("mov.b64 {0}, {{{1}, {2}}}", "drr", lambda a, b: a.astype(np.uint64) | b.astype(np.uint64) << U64(32)),
]  # fmt: skip


@functools.cache
def inputs() -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    columns: dict[str, np.ndarray] = {}
    for number in range(3):
        r = random.integers(0, 1 << 32, LANES, np.uint32)
        r[: len(SPECIAL_32)] = random.permutation(SPECIAL_32)
        d = random.integers(0, 1 << 64, LANES, np.uint64)
        d[: len(SPECIAL_64)] = random.permutation(np.array(SPECIAL_64, np.uint64))
        f = random.normal(0, 100, LANES).astype(np.float32)
        f[: len(FLOATS)] = random.permutation(np.array(FLOATS, np.float32))
        g = random.normal(0, 1e5, LANES)
        g[: len(FLOATS)] = random.permutation(np.array(FLOATS))
        columns |= {f"r{number}": r, f"d{number}": d, f"f{number}": bits32(f), f"g{number}": g.view(np.uint64)}
    return columns


def is_same(kind: str, got: np.ndarray, expected: np.ndarray) -> bool:
    if kind == "g":  # which NaN of double a GPU returns is not stated
        got, expected = (np.where(np.isnan(f64(side)), U64(0), side) for side in (got, expected))
    return bool((got == expected).all())


Step = tuple[Op, list[int], int]
"""An operation, the numbers of its operands' registers, and that of its result's."""


def apply(steps: list[Step]) -> tuple[str, dict[str, np.ndarray]]:
    """The PTX of steps, and what NumPy makes of the registers; 0 to 2 of each kind are given, 3 to 5 begin as 0."""
    state = inputs() | {
        f"{kind}{number}": np.zeros(LANES, dtype) for kind, (_, dtype) in KINDS.items() for number in range(3, 6)
    }
    lines, places = [], list(enumerate(sorted(state)))
    move = "mad.wide.u32 %rd30, %t, 8, %out; {}.global.{} "
    for place, name in places:
        lines.append(
            f"{move.format('ld', KINDS[name[0]][0])} {REGISTERS[name[0]]}{name[1]}, [%rd30+{place * LANES * 8}];"
        )
    with np.errstate(all="ignore"):
        for op, sources, target in steps:
            names = [f"{op.kinds[0]}{target}"] + [
                f"{kind}{number}" for kind, number in zip(op.kinds[1:], sources, strict=False)
            ]
            lines.append(op.text.format(*(REGISTERS[name[0]] + name[1] for name in names)) + ";")
            state[names[0]] = op.apply(*(state[name] for name in names[1:])).astype(KINDS[names[0][0]][1])
    for place, name in places:
        lines.append(
            f"{move.format('st', KINDS[name[0]][0])} [%rd30+{place * LANES * 8}], {REGISTERS[name[0]]}{name[1]};"
        )
    return "\n".join(lines), state


def run_sequences(*sequences: list[Step]) -> None:
    """Run instructions as PTX, each sequence as a kernel of one module, and in NumPy."""
    applied = [apply(steps) for steps in sequences]
    program = Program(HEAD + "\n".join(entry(body, name=f"k{number}") for number, (body, _) in enumerate(applied)))
    for number, (steps, (_, state)) in enumerate(zip(sequences, applied, strict=True)):
        names = sorted(state)
        memory = np.zeros((len(names), LANES), np.uint64)
        for name, column in inputs().items():
            memory[names.index(name)] = column
        program.run(f"k{number}", memory, block=LANES)
        for name, row in zip(names, memory, strict=True):
            got = row.astype(KINDS[name[0]][1])
            assert is_same(name[0], got, state[name]), (name, steps, np.flatnonzero(got != state[name]))


def is_comparable(op: Op) -> bool:
    """Bits of a NaN of double are not to be seen: its conversions and moves are checked where no NaN gets into them."""
    return not op.text.startswith(("mov.b64 {0}, {1}", "cvt.rn.f32.f64", "cvt.f64.f32"))


@needs_cc
def test_each_instruction() -> None:
    run_sequences(*([(op, [0, 1, 2, 0], 3), (op, [1, 2, 0, 1], 4), (op, [2, 0, 1, 2], 5)] for op in OPS))


@needs_cc
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.sampled_from(OPS), st.lists(st.integers(0, 5), min_size=4, max_size=4), st.integers(0, 5)),
        min_size=5,
        max_size=40,
    )
)
def test_random_sequences(steps: list[Step]) -> None:
    run_sequences([step for step in steps if is_comparable(step[0])])

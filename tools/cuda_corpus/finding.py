"""Device code in checkouts: files of CUDA, and texts of CUDA in Python files; each as PTX."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xferlib._runtime import process
from xferlib.errors import KernelCompileError, XferError
from xferlib.kernels.cuda_cpu import code
from xferlib.kernels.cuda_signature import CudaSource

_ENDINGS = (".cu", ".cuh", ".h", ".hpp", ".inl")
_ARCH = process.Config().kernel_arch
_MOST_HEADERS = 40
_HEADER_FOLDERS = ("Common", "cupy/_core/include", "pycuda/cuda")
"""Of a checkout, in which its device code finds headers."""


@dataclass(frozen=True, slots=True)
class Source:
    """Device code: a file, or a text in a Python file."""

    name: str
    text: str
    file: Path
    checkout: Path
    is_file: bool

    @property
    def folders(self) -> list[str]:
        """The folders of its headers."""
        own = [self.checkout / each for each in _HEADER_FOLDERS]
        return [f"-I{self.file.parent}", *(f"-I{each}" for each in own if each.is_dir())]


def find_sources(checkout: Path) -> Iterator[Source]:
    """The device code of a checkout: of the peers, that of their examples and tests."""
    for file in sorted(each for each in checkout.rglob("*") if each.suffix in (".py", *_ENDINGS) and each.is_file()):
        text = file.read_text(encoding="utf-8", errors="replace")
        name = str(file.relative_to(checkout))
        if file.suffix != ".py":
            is_of_samples = name.startswith("Samples/") or "example" in name
            if is_of_samples and "__global__" in text:
                yield Source(f"{checkout.name}/{name}", text, file, checkout, is_file=True)
        elif "__global__" in text and ("example" in name or "test" in name):
            yield from _find_texts(text, f"{checkout.name}/{name}", file, checkout)


def _find_texts(program: str, name: str, file: Path, checkout: Path) -> Iterator[Source]:
    try:
        nodes = list(ast.walk(ast.parse(program)))
    except SyntaxError:  # of Python 2
        return
    for node in nodes:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.search(r"__global__[^;]*{", node.value)
        ):
            yield Source(f"{name}:{node.lineno}", node.value, file, checkout, is_file=False)


# Compilation


def compile_source(source: Source, *, is_debug: bool = False) -> str:
    """PTX of a source: of a file by nvcc where it is installed, and else by NVRTC; each names it as NVRTC does.

    Args:
        source: What to compile.
        is_debug: Keep what the optimiser does away with.

    Raises:
        XferError: No compiler takes it; the error of NVRTC.
    """
    if source.is_file and (nvcc := shutil.which("nvcc")):
        for more in ([], ["-rdc=true"]):
            with tempfile.TemporaryDirectory() as folder:
                file, target = Path(folder, "kernel.cu"), Path(folder, "text.ptx")
                file.write_text(source.text, encoding="utf-8")
                kind = "-G" if is_debug else "-lineinfo"
                options = ["-ptx", f"-arch={_ARCH}", kind, "-std=c++17", *more, *source.folders]
                command = [nvcc, *options, "-o", str(target), str(file)]
                if subprocess.run(command, capture_output=True, check=False, timeout=300).returncode == 0:
                    return target.read_text(encoding="utf-8")
    kind = code.DEBUG if is_debug else "-lineinfo"
    texts = [source.text, f'extern "C" {{\n{source.text}\n}}']
    if "%(" in source.text:  # a text that the program completes: with numbers
        texts = [re.sub(r"%\(\w+\)[sd]", "16", each).replace("%%", "%") for each in texts]
    if source.is_file:
        texts = [cut_host_functions(source.text)]
    elif "template" not in source.text:
        texts.reverse()  # as PyCUDA has it
    failure: XferError | None = None
    for text in texts:
        for names in dict.fromkeys((list_instances(text), ())):
            try:
                return _compile(text, names, (kind, *source.folders))
            except XferError as error:
                failure = failure or error
    assert failure is not None
    raise failure


def _compile(text: str, names: tuple[str, ...], given: tuple[str, ...]) -> str:
    """PTX by NVRTC. Headers of the host that it lacks are empty: it has what device code needs of them."""
    from xferlib.backends.cuda import compiler
    from xferlib.kernels import code_cache

    with tempfile.TemporaryDirectory() as folder:
        options = (
            "-std=c++17",
            *given,
            *code_cache.list_header_options(code_cache.find_header_folders("#include")),
            f"-I{folder}",
        )
        for _ in range(_MOST_HEADERS):
            try:
                made = compiler.compile_source(text, arch=_ARCH, options=options, names=names)
                return made.cubin.rstrip(b"\0").decode()
            except KernelCompileError as error:
                missing = re.search(r'cannot open source file "([\w./+-]+)"', str(error))
                target = Path(folder, missing[1]).resolve() if missing else None
                if target is None or not target.is_relative_to(Path(folder).resolve()) or target.exists():
                    raise
                target.parent.mkdir(parents=True, exist_ok=True)
                target.touch()
    raise KernelCompileError("too many headers")


_HIDDEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE
)
_KEPT = re.compile(
    r"__global__|__device__|__constant__|\b(?:struct|class|union|enum|namespace|typedef|using)\b|extern\s*@"
)


def cut_host_functions(text: str) -> str:
    """A file without the functions of its host, which NVRTC does not take; lines keep their numbers."""
    plain = _HIDDEN.sub(lambda found: re.sub(r"[^\n]", "@" if found[0][0] == '"' else " ", found[0]), text)
    pieces, begin, depth, at = [], 0, 0, 0
    while at < len(plain):
        letter = plain[at]
        at += 1
        if letter == "{":
            head = plain[begin:at]
            if depth == 0 and re.search(r"\bnamespace\b|extern\s*@+\s*{", head):
                begin = at  # what is within stands at the top level, too
                continue
            depth += 1
        elif letter == "}" and depth:
            depth -= 1
        if depth == 0 and letter in ";}":
            piece = plain[begin:at]
            is_function = "(" in piece.partition("{")[0] and "{" in piece
            if is_function and not _KEPT.search(piece.partition("{")[0]):
                pieces.append((begin, at))
            begin = at
    letters = list(text)
    for first, end in pieces:
        for number in range(first, end):
            if plain[number] not in "\n " and letters[number] != "\n":
                letters[number] = " "
    return "".join(letters)


_TEMPLATE = re.compile(
    r"template\s*<([^<>]*)>\s*(?:static\s+|inline\s+)*__global__\s+(?:static\s+)?(?:void\s+)?"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(?:void\s+)?(\w+)\s*\("
)


def list_instances(text: str) -> tuple[str, ...]:
    """Instances of the kernels that are templates: of float, 32 and true."""
    found = []
    for parameters, name in _TEMPLATE.findall(text):
        kinds = [each.split("=")[0].split()[0] for each in parameters.split(",") if each.strip()]
        values = {"typename": "float", "class": "float", "bool": "true"}
        found.append(f"{name}<{', '.join(values.get(kind, '32') for kind in kinds)}>")
    return tuple(dict.fromkeys(found))


def find_signature(name: str, text: str) -> str | None:
    """The parameters of a kernel in C, by its mangled name or its source."""
    from xferlib.kernels.cuda_signature import signature_of

    if (found := signature_of(name)) is not None:
        return found
    try:
        return CudaSource(text).find_signature(name)
    except XferError:
        return None

"""Each backend tried in a process of its own, and those of CUDA together in one: findings from their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xferlib._cli.doctor import child
from xferlib._cli.doctor.finding import Finding, fine, note, problem, slow
from xferlib._cli.doctor.machine import InspectedMachine
from xferlib._cli.doctor.variables import CHOICES, choice, usable
from xferlib._core import registry
from xferlib._runtime.version import install_command

_ON_CUDA = ("cupy", "torch", "pycuda")


def findings(machine: InspectedMachine, chosen: Sequence[str], report: Callable[[str], None]) -> Iterator[Finding]:
    """The backends in turn, those of them that are installed; ``report`` is told which one is tried."""
    environ = usable(machine.environ)
    on_cuda = []
    given = {name: machine.environ[name] for name in CHOICES if machine.environ.get(name, "").strip()}
    if given and not any(choice(machine.environ)):
        report("trying the default device")
        text = ", ".join(f"{name}={value}" for name, value in given.items())
        yield from _default(text, child.answer("trial", environ={**environ, **given}))
    for name in chosen:
        if not registry.is_installed(name):
            yield fine(f"{name} is not installed ({registry.library(name)[1]})")
            continue
        report(f"trying {name}")
        answer = child.answer("trial", name, environ=environ)
        if any(each["device"].startswith(f"{name}:cuda") for each in answer.get("devices", [])):
            on_cuda.append(name)
        yield from _judged(machine, name, answer)
    if machine.cuda_count and not on_cuda and set(_ON_CUDA) <= set(chosen):
        yield slow(
            f"this machine has {machine.cuda_count} CUDA device(s), and no backend that runs on them",
            "Programs run on the CPU.",
            install_command("cupy"),
        )
    if len(on_cuda) > 1:
        report(f"trying {', '.join(on_cuda)} together")
        yield _shared(on_cuda, child.answer("together", *on_cuda, environ=environ))._replace(check="contexts")


def _default(given: str, answer: dict[str, Any]) -> Iterator[Finding]:
    """The default device as the variables choose it."""
    wrong = answer.get("problem") or answer.get("reason")
    if wrong is None:
        yield fine(f"{given}: the default device is {answer['device']}")
    else:
        remedy = "Mend or unset the variables." if "problem" in answer else wrong.rpartition("; ")[2]
        yield problem(
            f"with {given} the first call fails: {wrong}",
            "Calls that name no device themselves fail.",
            f"{remedy[:1].upper()}{remedy[1:]}",
        )


def _judged(machine: InspectedMachine, name: str, answer: dict[str, Any]) -> Iterator[Finding]:
    if "problem" in answer:
        yield problem(
            f"trying {name} failed: {answer['problem']}",
            f"Programs that use {name} end in the same way.",
            f"Install its library anew: {registry.library(name)[1]}",
        )
    elif "reason" in answer:
        is_expected = name in _ON_CUDA and not machine.cuda_count
        yield (note if is_expected else problem)(
            f"{name} is installed and cannot run here: {answer['reason']}",
            "Calls that name it fail." if is_expected else f"Programs that use {name} fail.",
            "" if is_expected else answer["install"],
        )
    for device in answer.get("devices", []):
        yield from _device(device)


def _device(found: dict[str, Any]) -> Iterator[Finding]:
    device = found["device"]
    for wrong in found["wrong"]:
        yield problem(
            f"{device}: {wrong}",
            "Programs on this device fail, or compute something wrong.",
            "Look at the other findings first; then report it with the output of `xferlib doctor --json`.",
        )
    for left_out in found["left_out"]:
        yield note(f"{device}: {left_out}")
    if not found["wrong"]:
        right = "transfers" if found["left_out"] else "transfers and kernels"
        yield fine(f"{device} ({found['name']}): {right} are right, bit for bit")


def _shared(names: list[str], answer: dict[str, Any]) -> Finding:
    wrong = answer.get("wrong") or ([answer["problem"]] if "problem" in answer else [])
    together = ", ".join(names)
    if not wrong:
        return fine(f"{together} share their contexts in one process")
    return problem(
        f"{together} in one process: {'; '.join(wrong)}",
        "Programs that use several of these libraries fail.",
        "Use one of them, or install builds for one CUDA version; import pycuda.autoprimaryctx, not pycuda.autoinit.",
    )

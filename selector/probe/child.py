"""What is imported in a subprocess of its own, so that a package that crashes or hangs harms nothing else.

The probe starts this file by its path and with safe-path mode on; it uses the standard library alone and imports
nothing of this project, so that a failure here is the package's. `describe_torch` also serves a process that has
imported torch already.
"""

import importlib
import json
import operator
import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

REASON_LENGTH: Final = 300
# The switches of a facts file, and the function of torch that tells each.
_SWITCHES: Final = {
    "flash_sdp_enabled": "backends.cuda.flash_sdp_enabled",
    "mem_efficient_sdp_enabled": "backends.cuda.mem_efficient_sdp_enabled",
    "math_sdp_enabled": "backends.cuda.math_sdp_enabled",
    "cudnn_sdp_enabled": "backends.cuda.cudnn_sdp_enabled",
    "flash_attention_impl": "nn.attention.current_flash_attention_impl",
    "deterministic_algorithms": "are_deterministic_algorithms_enabled",
}
# What torch was built for, and the attribute of `torch.version` that is then not None.
_TOOLKITS: Final = {"rocm": "hip", "xpu": "xpu", "cuda": "cuda"}


def one_line(text: str, limit: int = REASON_LENGTH) -> str:
    """The text on one line of printable, encodable characters, cut at `limit`."""
    plain = "".join(sign if sign.isprintable() else " " for sign in text)
    words = " ".join(plain.split())
    return words if len(words) <= limit else words[: limit - 1] + "…"


def sentence_of(error: BaseException) -> str:
    """`Type: message` on one line."""
    return one_line(f"{type(error).__name__}: {error}".removesuffix(": "))


def failure_of(symbol: str) -> str | None:
    """Import `module:attribute` (or a bare `module`); None when that works, else the error on one line."""
    module, _, attribute = symbol.partition(":")
    try:
        found: object = importlib.import_module(module)
        for name in filter(None, attribute.split(".")):
            found = getattr(found, name)
    except BaseException as error:  # noqa: BLE001 - a package may raise anything while it is imported, SystemExit too
        return sentence_of(error)
    return None


def describe_torch(torch: ModuleType) -> dict[str, object]:
    """Read torch's version, its build, its cuDNN and its switches, without initialising a device.

    A key is missing when this torch cannot say. `build` is `cuda`, `rocm`, `xpu` or `cpu`; `cudnn` is None when there
    is none.
    """
    asked = {"version": lambda: str(torch.__version__), "build": lambda: _build(torch.version)}
    switches = {name: _function(torch, place) for name, place in _SWITCHES.items()}
    return _answers(asked | {"cudnn": lambda: _cudnn(torch)}) | {"switches": _answers(switches)}


def _cudnn(torch: ModuleType) -> int | None:
    # `torch.backends.cudnn.version()` gives the same number, and initialises CUDA to check it against the GPUs.
    library = getattr(torch._C, "_cudnn", None)  # noqa: SLF001 - no public name gives it without that
    return None if library is None else int(library.getVersionInt())


def _build(version: ModuleType) -> str:
    return next((build for build, name in _TOOLKITS.items() if getattr(version, name, None) is not None), "cpu")


def _function(torch: ModuleType, place: str) -> Callable[[], object]:
    def ask() -> object:
        return operator.attrgetter(place)(torch)()

    return ask


def _answers(asked: Mapping[str, Callable[[], object]]) -> dict[str, object]:
    answers: dict[str, object] = {}
    for name, ask in asked.items():
        try:
            answer = ask()
        except Exception:  # noqa: BLE001, S112 - an older torch, or one only half imported, cannot say
            continue
        if answer is None or isinstance(answer, (bool, int, str)):
            answers[name] = answer
    return answers


def list_devices(torch: ModuleType, build: object) -> list[dict[str, object]]:
    """The GPUs as torch numbers them. Initialises the device library, so for the subprocess alone."""
    library: ModuleType = torch.xpu if build == "xpu" else torch.cuda
    found = [library.get_device_properties(index) for index in range(library.device_count())]
    return [
        {"index": index, "name": one_line(device.name)} | _arch_of(device, build) | {"memory": int(device.total_memory)}
        for index, device in enumerate(found)
    ]


def _arch_of(device: Any, build: object) -> dict[str, object]:  # noqa: ANN401 - torch's own class, which varies
    if build == "cuda":
        return {"arch": f"sm_{device.major}{device.minor}"}
    return {"arch": device.gcnArchName.partition(":")[0]} if build == "rocm" else {}


def report_torch() -> dict[str, object]:
    """Import torch and describe it and its devices; `failure` says why that ended early."""
    try:
        torch = importlib.import_module("torch")
    except BaseException as error:  # noqa: BLE001 - as for any package
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        return {"missing": missing, "failure": sentence_of(error)}
    report = describe_torch(torch)
    try:
        return report | {"devices": list_devices(torch, report.get("build"))}
    except Exception as error:  # noqa: BLE001 - a driver that does not suit shows in many ways
        return report | {"devices_failure": sentence_of(error)}


def answer(request: Mapping[str, object], tell: Callable[[object], None]) -> None:
    """Take `{path, symbols}` or `{path, torch: true}` and tell each result as soon as it stands.

    Symbols are tried in order until one imports; each gives `null` or its error.
    """
    path, symbols = request["path"], request.get("symbols", [])
    if isinstance(path, list):
        sys.path[:] = path
    if request.get("torch"):
        tell(report_torch())
    for symbol in symbols if isinstance(symbols, list) else []:
        failure = failure_of(symbol)
        tell(failure)
        if failure is None:
            return


def main(argument: str) -> None:
    """Answer the request on standard output, one JSON value a line.

    Whatever the packages print goes to standard error instead, C libraries included.
    """
    sys.stdout.flush()
    report = os.dup(1)
    os.dup2(2, 1)
    answer(json.loads(argument), lambda value: _write(report, value))


def _write(report: int, value: object) -> None:
    os.write(report, json.dumps(value).encode("ascii") + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
    os._exit(0)  # what a package does while the interpreter ends says nothing about its import

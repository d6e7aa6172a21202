"""Ask the NVIDIA driver through NVML, which initialises no CUDA."""

import functools
import importlib
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import TypeVar

from selector.probe.child import one_line, sentence_of
from selector.probe.gpus import Driver, Gpu, ProbeError

T = TypeVar("T")


def read_nvml(load: Callable[[], ModuleType] = lambda: importlib.import_module("pynvml")) -> Driver:
    """The driver and every GPU on this machine, whatever this process may see of them.

    Raises:
        ProbeError: there is no NVML here, or it reports an error.
    """
    try:
        nvml = load()
        nvml.nvmlInit()
    except Exception as error:
        raise ProbeError(sentence_of(error)) from error
    try:
        return _driver(nvml)
    except Exception as error:
        raise ProbeError(sentence_of(error)) from error
    finally:
        with suppress(Exception):
            nvml.nvmlShutdown()


def _driver(nvml: ModuleType) -> Driver:
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    return Driver(_text(nvml.nvmlSystemGetDriverVersion()), tuple(_gpu(nvml, handle) for handle in handles))


def _gpu(nvml: ModuleType, handle: object) -> Gpu:
    capability = _unless_refused(lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    return Gpu(
        name=_text(nvml.nvmlDeviceGetName(handle)),
        arch=None if capability is None else "sm_{}{}".format(*capability),
        # Refused where the GPU shares the host's memory.
        memory=_unless_refused(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        instances=_unless_refused(lambda: _instances(nvml, handle)) or (),
    )


def _instances(nvml: ModuleType, handle: object) -> tuple[str, ...]:
    def uuid(slot: int) -> str:
        return _text(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)))

    slots = range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    found = (_unless_refused(functools.partial(uuid, slot)) for slot in slots)
    return tuple(instance for instance in found if instance is not None)


def _unless_refused(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except Exception:  # noqa: BLE001 - every version of the bindings has its own set of errors for "not supported"
        return None


def _text(value: str | bytes) -> str:
    return one_line(value.decode("utf-8", "replace") if isinstance(value, bytes) else value)

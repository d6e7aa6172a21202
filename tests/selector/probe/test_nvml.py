from __future__ import annotations

from types import ModuleType, SimpleNamespace

import pytest

from selector.probe.gpus import Driver, Gpu, ProbeError
from selector.probe.nvml import read_nvml


class NvmlError(Exception):
    """Stands for the bindings' own error."""


def refuse(*_: object) -> object:
    """A function of NVML that this GPU does not support."""
    raise NvmlError("Not Supported")


def bindings(**changed: object) -> ModuleType:
    """The bindings on a machine with one GPU of one MIG instance, with functions changed by name."""
    functions: dict[str, object] = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "580.95.05",
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: f"gpu {index}",
        "nvmlDeviceGetName": lambda _handle: "NVIDIA H200",
        "nvmlDeviceGetUUID": lambda handle: {"gpu 0": "GPU-1", "instance 1": "MIG-2"}[handle],
        "nvmlDeviceGetCudaComputeCapability": lambda _handle: (9, 0),
        "nvmlDeviceGetMemoryInfo": lambda _handle: SimpleNamespace(total=1000),
        "nvmlDeviceGetMaxMigDeviceCount": lambda _handle: 2,
        "nvmlDeviceGetMigDeviceHandleByIndex": lambda _handle, slot: f"instance {slot}" if slot else refuse(),
    }
    module = ModuleType("pynvml")
    for name, function in (functions | changed).items():
        setattr(module, name, function)
    return module


def test_nvml_gives_the_driver_and_each_gpu_with_its_instances() -> None:
    """Everything that NVML can say is read."""
    driver = read_nvml(bindings)

    assert driver == Driver("580.95.05", (Gpu("NVIDIA H200", "sm_90", 1000, "GPU-1", ("MIG-2",)),))


def test_what_one_gpu_refuses_to_say_is_none_and_the_rest_is_read() -> None:
    """A GPU that shares the host's memory refuses its size; one that knows no MIG refuses that."""
    refusing = bindings(
        nvmlDeviceGetMemoryInfo=refuse, nvmlDeviceGetMaxMigDeviceCount=refuse, nvmlDeviceGetCudaComputeCapability=refuse
    )

    driver = read_nvml(lambda: refusing)

    assert driver.gpus == (Gpu("NVIDIA H200", None, None, "GPU-1"),)


def test_older_bindings_give_bytes() -> None:
    """Bytes are read as UTF-8, and what is not is replaced."""
    older = bindings(
        nvmlDeviceGetName=lambda _: b"NVIDIA \xff",
        nvmlDeviceGetUUID=lambda _: b"GPU-1",
        nvmlDeviceGetMaxMigDeviceCount=refuse,
    )

    driver = read_nvml(lambda: older)

    assert (driver.gpus[0].name, driver.gpus[0].uuid) == ("NVIDIA �", "GPU-1")


@pytest.mark.parametrize("function", ["nvmlInit", "nvmlSystemGetDriverVersion", "nvmlDeviceGetHandleByIndex"])
def test_an_error_of_the_driver_is_the_reason(function: str) -> None:
    """The reason names the bindings' error and says what it says."""
    with pytest.raises(ProbeError, match=r"^NvmlError: Not Supported$"):
        read_nvml(lambda: bindings(**{function: refuse}))


def test_nvml_is_shut_down_after_an_error_and_a_failing_shutdown_is_no_error() -> None:
    """NVML counts its users; one that fails to leave changes nothing about what was read."""
    left: list[str] = []
    failing = bindings(nvmlDeviceGetCount=refuse, nvmlShutdown=lambda: left.append("left"))

    with pytest.raises(ProbeError):
        read_nvml(lambda: failing)

    assert left == ["left"]
    assert read_nvml(lambda: bindings(nvmlShutdown=refuse)).version == "580.95.05"


def test_missing_bindings_are_a_reason() -> None:
    """Without the bindings there is a reason and no ImportError."""

    def missing() -> ModuleType:
        raise ModuleNotFoundError("No module named 'pynvml'")

    with pytest.raises(ProbeError, match=r"^ModuleNotFoundError: No module named 'pynvml'$"):
        read_nvml(missing)

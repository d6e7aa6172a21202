from __future__ import annotations

import pytest

from selector.probe.gpus import Driver, Gpu, ProbeError
from selector.probe.process import Finished
from selector.probe.smi import NoCommandError, read_smi
from tests.selector.probe.machines import Machine

MIB = 1024**2


def read(smi: Finished | OSError) -> Driver:
    """What is read when the command ends like this."""
    return read_smi(Machine(smi=smi).system())


def test_each_line_is_a_gpu_in_the_order_of_its_index() -> None:
    """Names may hold commas; the order printed does not matter."""
    printed = (
        b"1, GPU-b, NVIDIA RTX PRO 6000, Server Edition, 12.0, 97887, 580.95.05\n"
        b"0, GPU-a, NVIDIA B200, 10.0, 183359, 580.95.05\r\n\n"
    )

    driver = read(Finished(0, printed))

    assert driver == Driver(
        "580.95.05",
        (
            Gpu("NVIDIA B200", "sm_100", 183359 * MIB, "GPU-a"),
            Gpu("NVIDIA RTX PRO 6000, Server Edition", "sm_120", 97887 * MIB, "GPU-b"),
        ),
    )


def test_what_the_driver_does_not_know_is_none() -> None:
    """A GPU on shared memory prints a word in brackets for its size."""
    driver = read(Finished(0, b"0, GPU-a, NVIDIA GB10, [N/A], [Not Supported], 580.95.05\n"))

    assert driver.gpus == (Gpu("NVIDIA GB10", None, None, "GPU-a"),)


@pytest.mark.parametrize(
    ("finished", "reason"),
    [
        (Finished(None), "no answer within 10 s"),
        (Finished(0), "lists no GPU"),
        (Finished(0, b"\n \n"), "lists no GPU"),
        (Finished(0, b"hello\n"), "unreadable line: hello"),
        (Finished(0, b"\xff\x00\x1b[31m, 3, 4, 5, 6, 7\n"), "unreadable line: � [31m, 3, 4, 5, 6, 7"),
        (Finished(0, b"0, GPU-a, NVIDIA B200, 10.0, 183359\n"), "unreadable line: 0, GPU-a, NVIDIA B200, 10.0, 183359"),
        (Finished(0, b"9" * 5000), "unreadable line: " + "9" * 99 + "…"),
        (Finished(9, b"\nNVIDIA-SMI has failed\nmore\n"), "exit status 9, it said: NVIDIA-SMI has failed"),
        (Finished(-11), "exit status -11, it said: nothing"),
    ],
)
def test_an_answer_that_is_none_is_a_reason(finished: Finished, reason: str) -> None:
    """A hang, a failure and garbage each give one line that says what happened."""
    with pytest.raises(ProbeError) as caught:
        read(finished)

    assert str(caught.value) == reason
    assert not isinstance(caught.value, NoCommandError)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError(2, "No such file or directory"), "cannot be started: No such file or directory"),
        (PermissionError(13, "Permission denied"), "cannot be started: Permission denied"),
        (OSError("odd"), "cannot be started: odd"),
    ],
)
def test_a_command_that_cannot_be_started_is_told_apart(error: OSError, reason: str) -> None:
    """No command at all is what a machine without a driver looks like."""
    with pytest.raises(NoCommandError) as caught:
        read(error)

    assert str(caught.value) == reason

"""Values written as JSON."""

from __future__ import annotations

import json

import pytest

from selector.json_lines import writer


@pytest.fixture(params=["quick", "plain"])
def _encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the encoder that is written in C, and without it."""
    if request.param == "plain":
        monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    elif getattr(json.encoder, "c_make_encoder", None) is None:
        pytest.skip("this Python has no encoder written in C")


@pytest.mark.usefixtures("_encoder")
@pytest.mark.parametrize(
    "value",
    [{"a": [1, 2.5, None, True, False, 'é\n"\ud800', {"b": {}}], "": ()}, [], "x", -(10**30), 0.1, 1e300, None],
)
def test_values_are_written_as_the_standard_library_writes_them(value: object) -> None:
    """Letter for letter, and a second time too."""
    write = writer()

    assert write(value) == write(value) == json.dumps(value)


@pytest.mark.usefixtures("_encoder")
@pytest.mark.parametrize("value", [float("nan"), float("inf"), [-float("inf")]])
def test_what_is_no_number_of_json_is_refused(value: object) -> None:
    """RFC 8259 has neither NaN nor infinities."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        writer()(value)


@pytest.mark.usefixtures("_encoder")
def test_what_json_cannot_hold_is_refused() -> None:
    """As the standard library does."""
    with pytest.raises(TypeError, match="not JSON serializable"):
        writer()({"a": object()})

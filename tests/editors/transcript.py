"""What the language server says of a broken row, for docs/editors.md.

``python -m tests.editors.transcript`` writes it into the page, between the markers.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from typing import Any

from tests.editors.language_server import CURSOR, ROOT, LanguageServer, UnavailableError, running

PAGE = ROOT / "docs" / "editors.md"
_MARKED = re.compile(r"<!-- language server -->\n(.*?)<!-- end -->", re.DOTALL)
_SETTINGS = re.compile(r"```json\n(\{.*?)```", re.DOTALL)
_WIDTH = 110
_DOCUMENT = f"""\
# yaml-language-server: $schema=../schemas/rule-table.schema.json
table: platform_default
edits:
  - id: house-hopper
    before: hopper-flash-attn
    when: {{arch: {{in: hopper}}, dtype: bf16}}
    use: TORCH_SDPA
    refuse: not here
    {CURSOR}
"""


def present(server: LanguageServer) -> str:
    """Give the text as it should stand in the page."""
    offered = ", ".join(item["label"] for item in server.completion("rules/transcript.yaml", _DOCUMENT))
    plain = _DOCUMENT.replace(f"    {CURSOR}\n", "")
    lines = plain.splitlines()
    marks: dict[int, list[str]] = {}
    for item in server.diagnostics("rules/broken.yaml", plain):
        start, end = item["range"]["start"], item["range"]["end"]
        pointer = " " * start["character"] + "^" * (end["character"] - start["character"])
        marks.setdefault(start["line"], []).append(f"{pointer} {item['message']}")
    shown = [text for number, line in enumerate(lines) for text in (line, *marks.get(number, ()))]
    keys = textwrap.wrap(offered, _WIDTH)
    return "\n".join(["```text", *shown, "", "offered as the next key:", *keys, "```", ""])


def written() -> str:
    """Give the text as it stands in the page."""
    found = _MARKED.search(PAGE.read_text(encoding="utf-8"))
    return found[1] if found else ""


def settings() -> dict[str, Any]:
    """Give what the page puts below `yaml` in an editor's settings; schemas are those of this tree."""
    found = _SETTINGS.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    schemas = json.loads(found[1])["yaml.schemas"]
    return {"schemas": {(ROOT / path).as_uri(): patterns for path, patterns in schemas.items()}}


def update() -> None:
    """Write the present text into the page."""
    with running() as server:
        marked = f"<!-- language server -->\n{present(server)}<!-- end -->"
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_MARKED.sub(lambda _: marked, text), encoding="utf-8")


if __name__ == "__main__":
    try:
        update()
    except UnavailableError as error:
        sys.exit(str(error))

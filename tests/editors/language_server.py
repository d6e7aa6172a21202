"""The YAML extension of VS Code without the editor: its language server, installed by npm and asked over LSP."""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, VERSION = "yaml-language-server", "1.25.0"
CURSOR = "▮"
_HOME = ROOT / "build" / f"{PACKAGE}-{VERSION}"
_SECONDS = 20.0
_Message = dict[str, Any]


class UnavailableError(Exception):
    """The language server is not here and cannot be fetched; the text says why."""


def installed() -> list[str]:
    """Give the command that starts the server; fetches it once into a folder that git ignores."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise UnavailableError(f"{PACKAGE} needs node and npm, and {'node' if node is None else 'npm'} is not there")
    script = Path("node_modules", PACKAGE, "bin", PACKAGE)
    if not (_HOME / script).is_file():
        _fetch(npm)
    return [node, str(_HOME / script), "--stdio"]


def _fetch(npm: str) -> None:
    """Install beside the place where it belongs, and move it there whole: several tests may want it at once."""
    _HOME.parent.mkdir(exist_ok=True)
    quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0", "--fetch-timeout=20000"]
    with tempfile.TemporaryDirectory(dir=_HOME.parent) as folder:
        whole = Path(folder, "whole")
        whole.mkdir()
        command = [npm, "install", *quiet, "--prefix", str(whole), f"{PACKAGE}@{VERSION}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(f"npm could not fetch {PACKAGE} {VERSION}: {error}") from error
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()[:1]
            raise UnavailableError(f"npm could not fetch {PACKAGE} {VERSION}: {' '.join(said)}")
        with contextlib.suppress(OSError):  # another test was faster
            whole.rename(_HOME)


def cursor(text: str) -> tuple[str, _Message]:
    """Take the cursor out of a text; gives the text and the position, both counted from 0."""
    before, _, after = text.partition(CURSOR)
    return before + after, {"line": before.count("\n"), "character": len(before.rpartition("\n")[2])}


class LanguageServer:
    """One running server. Documents are given as text under a name; they need not be files."""

    def __init__(self, process: subprocess.Popen[bytes], settings: Mapping[str, object]) -> None:
        """Say hello. `settings` are those below `yaml` in an editor's settings."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._out: IO[bytes] = process.stdin
        self._settings = {"schemaStore": {"enable": False}, "kubernetesCRDStore": {"enable": False}, **settings}
        self._numbers = itertools.count(1)
        self._inbox: queue.Queue[_Message] = queue.Queue()
        threading.Thread(target=_read, args=(process.stdout, self._inbox), daemon=True).start()
        folders = [{"uri": ROOT.as_uri(), "name": ROOT.name}]
        abilities = {"workspace": {"configuration": True}, "textDocument": {"hover": {"contentFormat": ["markdown"]}}}
        hello = {"processId": None, "rootUri": ROOT.as_uri(), "workspaceFolders": folders, "capabilities": abilities}
        self._ask("initialize", hello)
        self._tell("initialized", {})

    def diagnostics(self, name: str, text: str) -> list[_Message]:
        """Open a document and give what is wrong with it, in the order of the text."""
        uri = self._open(name, text)
        while True:
            message = self._next()
            if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri:
                found: list[_Message] = message["params"]["diagnostics"]
                return sorted(found, key=lambda item: tuple(item["range"]["start"].values()))

    def completion(self, name: str, text: str) -> list[_Message]:
        """Give what could stand at the cursor."""
        found = self._at("textDocument/completion", name, text)
        items: list[_Message] = found["items"] if isinstance(found, dict) else found
        return items

    def hover(self, name: str, text: str) -> str:
        """Give what is said of the word at the cursor."""
        found = self._at("textDocument/hover", name, text)
        return str(found["contents"]["value"]) if found else ""

    def _at(self, method: str, name: str, text: str) -> Any:  # noqa: ANN401 - whatever the method answers
        plain, position = cursor(text)
        return self._ask(method, {"textDocument": {"uri": self._open(name, plain)}, "position": position})

    def _open(self, name: str, text: str) -> str:
        uri = (ROOT / name).as_uri()
        document = {"uri": uri, "languageId": "yaml", "version": next(self._numbers), "text": text}
        self._tell("textDocument/didOpen", {"textDocument": document})
        return uri

    # --- messages ---

    def _ask(self, method: str, params: _Message) -> Any:  # noqa: ANN401 - whatever the method answers
        number = next(self._numbers)
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._next()
            if message.get("id") == number and "method" not in message:
                assert "error" not in message, message
                return message["result"]

    def _tell(self, method: str, params: _Message) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: _Message) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._out.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._out.flush()

    def _next(self) -> _Message:
        """Give the next message; what the server asks is answered on the way."""
        message = self._inbox.get(timeout=_SECONDS)
        if "method" in message and "id" in message:
            self._send({"id": message["id"], "result": self._answer(message)})
        return message

    def _answer(self, message: _Message) -> list[Any] | None:
        if message["method"] != "workspace/configuration":
            return None
        return [self._settings if item.get("section") == "yaml" else {} for item in message["params"]["items"]]


def _read(stream: IO[bytes], inbox: queue.Queue[_Message]) -> None:
    """Put every message of the server into the inbox, until it ends."""
    while line := stream.readline():
        length = int(line.removeprefix(b"Content-Length:"))
        while stream.readline().strip():
            pass
        inbox.put(json.loads(stream.read(length)))


@contextlib.contextmanager
def running(settings: Mapping[str, object] | None = None) -> Iterator[LanguageServer]:
    """Start a server, and end it afterwards. Raises `UnavailableError`."""
    command = installed()
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        try:
            yield LanguageServer(process, settings or {})
        finally:
            process.kill()

"""What may stand on the command line of `serve`."""

from __future__ import annotations

import argparse


def add(command: argparse.ArgumentParser) -> None:
    """Add the flags of `serve`, beside `--rules`."""
    command.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (127.0.0.1)")
    command.add_argument("--port", type=int, default=8320, metavar="N", help="port to listen on (8320)")
    command.add_argument("--workers", type=int, default=1, metavar="N", help="processes that answer (1)")
    command.add_argument(
        "--no-watch", dest="watch", action="store_false", help="do not look for changes of the rule files"
    )
    command.add_argument("--log", metavar="FILE", help="write each decision to this log, which `replay` reads")
    command.add_argument(
        "--allowed-host", action="append", metavar="NAME", help="another name that callers may use; * allows any"
    )
    command.add_argument(
        "--max-connections", type=int, default=256, metavar="N", help="requests that are answered at a time (256)"
    )
    command.add_argument("--access-log", action="store_true", help="tell every request on standard error")
    tls = command.add_argument_group("TLS")
    tls.add_argument("--tls-cert", metavar="FILE", help="certificate chain, PEM")
    tls.add_argument("--tls-key", metavar="FILE", help="its private key, PEM")

"""An object store that passes all on to another one, until it is full: a program that tests start.

It is a process of its own, because Arrow waits for stores while it holds the lock of Python.
"""

from __future__ import annotations

import http.client
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HIDDEN = ("content-length", "connection", "transfer-encoding", "date", "server")


class Passing(BaseHTTPRequestHandler):
    """Passes requests on; once the file of the limit says so, it answers writing with an error."""

    protocol_version = "HTTP/1.1"
    address: str
    status: int
    code: str
    limit: Path  # has the number of files that are still taken; absent: any number

    def handle_any(self) -> None:
        """Answer any request."""
        body = b"".join(self.pieces())
        if self.command in ("PUT", "POST") and self.limit.exists():
            left = int(self.limit.read_text())
            self.limit.write_text(str(left - 1))
            if left <= 0:
                text = f"<Error><Code>{self.code}</Code><Message>secret 4711</Message></Error>".encode()
                self.answer(self.status, [("Content-Type", "application/xml")], text, str(len(text)))
                return
        asked = http.client.HTTPConnection(self.address, timeout=60)
        kept = {name: value for name, value in self.headers.items() if name.lower() not in HIDDEN}
        asked.request(self.command, self.path, body, kept)
        got = asked.getresponse()
        headers = [one for one in got.getheaders() if one[0].lower() not in HIDDEN]
        size = got.getheader("Content-Length") if self.command == "HEAD" else None
        text = got.read()
        asked.close()
        self.answer(got.status, headers, text, size or str(len(text)))

    def pieces(self) -> Iterator[bytes]:
        """Yield the content of the request, which may come in pieces that tell their sizes."""
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            yield self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass

    def answer(self, status: int, headers: list[tuple[str, str]], text: bytes, size: str) -> None:
        """Send an answer."""
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", size)):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *given: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    for command in ("GET", "PUT", "POST", "HEAD", "DELETE"):
        setattr(Passing, f"do_{command}", Passing.handle_any)
    Passing.address, Passing.status, Passing.code = sys.argv[2], int(sys.argv[3]), sys.argv[4]
    Passing.limit = Path(sys.argv[5])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Passing).serve_forever()

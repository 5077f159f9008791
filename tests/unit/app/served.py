"""The page as its visitors meet it: a process of its own, spoken to over a socket, byte by byte where it matters."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import sfumato


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def cookie(self) -> str:
        return (self.headers.get("set-cookie") or "").partition(";")[0]


class Server:
    """A running ``sfumato app``; everything that it stores temporarily is in ``temporary``."""

    def __init__(self, folder: Path, *arguments: str, browser: bool = False) -> None:
        self.temporary = folder / "temporary"
        self.temporary.mkdir(parents=True, exist_ok=True)
        source = str(Path(sfumato.__file__).parents[1])
        environment = os.environ | {
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")])),
        }
        alone = [] if browser else ["--no-browser"]
        command = [sys.executable, "-m", "sfumato", "app", *alone, "--port", "0", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True, cwd=folder
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/enter/([\w-]+))", self.address)
        assert found, self.address or self.process.communicate(timeout=20)[1]
        self.port, self.entrance, self.key = int(found[1]), found[2], found[3]
        self.host = f"127.0.0.1:{self.port}"
        self.origin = f"http://{self.host}"
        self.root = ""  # the random path, once somebody has entered

    def enter(self, **headers: str) -> Answer:
        """Exchange the key for the cookie, by way of the random path."""
        admitted = self.call("GET", self.entrance)
        assert admitted.status == 303
        self.root = "/" + admitted.headers["location"].split("/")[1]
        return self.call("GET", admitted.headers["location"], **headers)

    @property
    def pages(self) -> str:
        """Address of the random path."""
        if not self.root:
            self.enter()
        return self.origin + self.root

    def call(
        self, method: str, path: str, body: bytes | None = None, *, is_outside: bool = False, **headers: str
    ) -> Answer:
        """Send a request with exactly these headers (``_`` stands for ``-``), and a Host unless one is given.

        The path is below the random one, unless it is outside.
        """
        if not is_outside and not path.startswith(("/enter/", self.root or "/")):
            path = self.root + path
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            sent = {"Host": self.host} | {name.replace("_", "-"): text for name, text in headers.items()}
            if body is not None:
                sent.setdefault("Content-Length", str(len(body)))
            for name, text in sent.items():
                connection.putheader(name, text)
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def end(self, number: int = signal.SIGTERM) -> int:
        """End the process and return its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self, seconds: float = 30.0) -> int:
        code = self.process.wait(timeout=seconds)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return code

    @property
    def left(self) -> list[Path]:
        """What is on the disk."""
        return sorted(path for path in self.temporary.rglob("*"))


@dataclass
class Person:
    """A visitor without a browser: keeps the cookie, and follows redirects."""

    server: Server
    cookie: str = ""
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        answer = self.server.enter()
        assert answer.status == 303
        self.cookie = answer.cookie

    def get(self, path: str) -> Answer:
        """Show a page; while it works, wait for it."""
        end = time.monotonic() + 120
        while True:
            answer = self.server.call("GET", path, Cookie=self.cookie)
            if answer.status == 303:
                path = answer.headers["location"]
                continue
            job = re.search(r'data-job="(\w+)"', answer.text)
            if not job:
                self.seen.append(answer.text)
                return answer
            assert time.monotonic() < end, answer.text
            while not (now := json.loads(self.server.call("GET", f"/jobs/{job[1]}", Cookie=self.cookie).text))["over"]:
                time.sleep(0.05)
            path = now.get("next") or path

    def post(self, path: str, fields: dict[str, object] | bytes | None = None, *, follow: bool = True) -> Answer:
        """Send a form, or the bytes of a file, as the page itself does."""
        body = fields if isinstance(fields, bytes) else urlencode(fields or {}, doseq=True).encode()
        answer = self.server.call(
            "POST",
            path,
            body,
            Cookie=self.cookie,
            Origin=self.server.origin,
            Referer=f"{self.server.origin}{self.server.root}/columns",
        )
        return self.get(answer.headers["location"]) if follow and answer.status == 303 else answer

    def upload(self, content: bytes, name: str, **reading: str) -> Answer:
        answer = self.post(f"/open/upload?{urlencode({'name': name, **reading})}", content)
        assert answer.status == 200, answer.text
        return self.get(json.loads(answer.text)["next"])

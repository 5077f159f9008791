"""A real Chromium, driven by its DevTools protocol over a web socket: no driver and no other browser is needed."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from websockets.sync.client import connect

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--mute-audio")
LEAVE = "(document.querySelector('main') || document.body).dataset.left = 'soon'"  # another page does not have it


class Chromium:
    """One tab. Errors of the console, of scripts and of requests are collected in ``errors``."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 1000) -> None:
        self.downloads = folder / "downloads"
        self.downloads.mkdir(parents=True)
        profile = folder / "profile"
        command = [str(PROGRAM), *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        place = profile / "DevToolsActivePort"
        wait_for(lambda: place.exists() and len(place.read_text().splitlines()) >= 2)
        port = place.read_text().splitlines()[0]
        pages = json.loads(urlopen(f"http://127.0.0.1:{port}/json").read())
        target = next(page for page in pages if page["type"] == "page")
        self._open = ExitStack()
        self._socket = self._open.enter_context(connect(target["webSocketDebuggerUrl"], max_size=None, open_timeout=30))
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.send(f"{domain}.enable")
        self.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)
        self.resize(width, height)

    def close(self) -> None:
        self._open.close()
        self._process.terminate()
        self._process.wait(timeout=20)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and note what happens meanwhile."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=120))
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        given = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(given["exceptionDetails"].get("text", "exception"))
        elif message.get("method") == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.errors.append(given["entry"]["text"])
        elif message.get("method") == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.errors.append(str(given["args"]))

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page."""
        found = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("exception", {}).get("description", "a script failed"))
        return found["result"].get("value")

    def go(self, address: str) -> None:
        self.run(LEAVE)
        self.send("Page.navigate", url=address)
        self.settled()

    def settled(self, seconds: float = 60.0) -> None:
        """Wait until another page is there, complete, and nothing is being worked on."""
        wait_for(
            lambda: self.run(
                "document.readyState === 'complete' && !document.querySelector('[data-left], [data-job]')"
            ),
            seconds,
        )

    def has(self, selector: str) -> bool:
        return bool(self.run(f"document.querySelector({json.dumps(selector)}) !== null"))

    def text(self, selector: str = "main") -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def click(self, selector: str, *, leaves: bool = True, settle: bool = True) -> None:
        """Click on an element; ``leaves`` says that another page follows."""
        if leaves:
            self.run(LEAVE)
        self.run(f"document.querySelector({json.dumps(selector)}).click()")
        if leaves and settle:
            self.settled()

    def press(self, text: str, **options: Any) -> None:
        """Click on the button or link with this text."""
        starts = f"one => one.innerText.trim().startsWith({json.dumps(text)})"
        found = f"[...document.querySelectorAll('button, a, summary')].find({starts})"
        assert self.run(f"Boolean({found})"), f"no {text!r} on the page: {self.text()[:600]}"
        self.run(f"{found}.setAttribute('data-test', 'here')")
        try:
            self.click("[data-test=here]", **options)
        finally:
            self.run("document.querySelectorAll('[data-test]').forEach(e => e.removeAttribute('data-test'))")

    def fill(self, selector: str, value: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(value)}")

    def choose_file(self, selector: str, file: Path) -> None:
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    def download(self, selector: str) -> Path:
        """Click on a download, and return the file."""
        before = set(self.downloads.iterdir())
        self.click(selector, leaves=False)

        def complete() -> list[Path]:
            new = set(self.downloads.iterdir()) - before
            return [file for file in new if not file.name.endswith(".crdownload")]

        wait_for(complete)
        return complete()[0]

    def picture(self, file: Path, *, whole: bool = False) -> None:
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))


def wait_for(condition: Any, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the browser waited too long")
        time.sleep(0.05)

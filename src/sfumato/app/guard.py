"""Access control: only tabs that hold the session key.

The address that the command prints contains a key. The first visit exchanges it for a cookie that scripts cannot read
and that the browser does not send for requests of other sites. Browsers send cookies to every port of a machine, also
to servers of other users, but only below the path of the cookie: all pages are therefore below a random path. The
browser that the command opens gets another key, which works once, because all users of the machine can list the
arguments of a program. Every request is checked before anything else happens:

- its ``Host`` must be the loopback address (a foreign name that leads here is DNS rebinding),
- a request that changes something must come from a page of this server (``Origin`` and ``Sec-Fetch-Site``),
- parts of a page are not given to pages of other sites, nor to those of other ports,
- there are no web sockets, so every request for one is refused.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from sfumato.app.visitors import Visitor, Visitors

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

ENTRANCE = "/enter/"
SAFE = ("GET", "HEAD")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # without a referrer, forms would have the origin "null"
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
NO_KEY = "Open the address that `sfumato app` printed: this page needs its key."


class Guard:
    """The outermost layer of the server: checks every request, and adds the security headers to every answer."""

    def __init__(self, inner: Application, visitors: Visitors, *, key: str, port: int) -> None:
        self.inner = inner
        self.visitors = visitors
        self.key = key
        self.key_for_once = secrets.token_urlsafe(24)  # for the arguments of a browser, which all users can list
        self.tickets: deque[str] = deque(maxlen=20)  # from the entrance to the random path, for browsers on their way
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.cookie = f"sfumato-{port}"  # cookies do not know ports, so that two servers need two names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.inner(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers, path = Headers(scope["headers"]), scope["path"]
        refused = self.refusal(scope["method"], headers)
        if refused:
            await _answer(send, 403, refused)
        elif path.startswith(ENTRANCE):
            await self._admit(path.removeprefix(ENTRANCE), send)
        elif not self._is_below_root(path):
            await _answer(send, 401, NO_KEY)
        elif (inside := path.removeprefix(self.visitors.root)).startswith(ENTRANCE):
            await self._enter(inside.removeprefix(ENTRANCE), headers, send)
        elif (visitor := self.visitors.find(self._session(headers))) is None:
            await _answer(send, 401, NO_KEY)
        else:
            own = {**scope, "visitor": visitor, "path": inside, "raw_path": inside.encode()}
            await self._serve(own, receive, send)

    def _is_below_root(self, path: str) -> bool:
        root = f"{self.visitors.root}/".encode()
        return secrets.compare_digest(path.encode()[: len(root)], root)

    def refusal(self, method: str, headers: Headers) -> str:
        """Return why a request is refused, whoever asks; empty if it is not."""
        hosts = headers.all("host")
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return "This server answers to its loopback address only."
        if "upgrade" in headers:
            return "There are no web sockets here."
        site, origins = headers.one("sec-fetch-site"), headers.all("origin")
        ours = [f"http://{hosts[0]}"]
        if method not in SAFE:
            by_us = origins == ours if origins else site == "same-origin"
            if not by_us or site not in ("", "same-origin"):
                return "This request came from another page."
        elif site in ("cross-site", "same-site") and headers.one("sec-fetch-mode") != "navigate":
            return "Other pages must not load parts of this one."
        elif origins and origins != ours:
            return "This request came from another page."
        return ""

    async def _admit(self, given: str, send: Send) -> None:
        """Exchange the key for a ticket to the random path, where a browser shows the cookie that it may have."""
        is_for_once = secrets.compare_digest(given.encode(), self.key_for_once.encode())
        if not is_for_once and not secrets.compare_digest(given.encode(), self.key.encode()):
            await _answer(send, 401, NO_KEY)
            return
        if is_for_once:
            self.key_for_once = secrets.token_urlsafe(24)
        self.tickets.append(secrets.token_urlsafe(24))
        await _answer(send, 303, "", {"location": f"{self.visitors.root}{ENTRANCE}{self.tickets[-1]}"})

    async def _enter(self, given: str, headers: Headers, send: Send) -> None:
        """Exchange the ticket for a cookie; a browser that has one already keeps its session."""
        if given not in self.tickets:
            await _answer(send, 401, NO_KEY)
            return
        self.tickets.remove(given)
        known = self.visitors.find(self._session(headers))
        visitor: Visitor | None = known or self.visitors.welcome(headers.one("accept-language"))
        if visitor is None:
            await _answer(send, 503, "There are too many sessions: end the server and start it again.")
            return
        place = f"{self.visitors.root}/"
        cookie = f"{self.cookie}={visitor.session}; Path={place}; HttpOnly; SameSite=Strict"
        await _answer(send, 303, "", {"location": place, "set-cookie": cookie})

    def _session(self, headers: Headers) -> str:
        try:
            cookie = SimpleCookie(headers.one("cookie")).get(self.cookie)
        except CookieError:
            return ""
        return cookie.value if cookie else ""

    def _below_root(self, name: bytes, text: bytes) -> bytes:
        """Return a header with the random path in front of an address."""
        is_address = name.lower() == b"location" and text.startswith(b"/")
        return self.visitors.root.encode() + text if is_address else text

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer, with our headers; what it raises was answered already and is not logged."""
        started = False

        async def send_safely(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                given = Headers(message.get("headers", ()))
                added = [(name.encode(), text.encode()) for name, text in HEADERS.items() if name not in given]
                own = [(name, self._below_root(name, text)) for name, text in message.get("headers", ())]
                message = {**message, "headers": [*own, *added]}
            await send(message)

        failed = False
        self.visitors.present += 1
        try:
            await self.inner(scope, receive, send_safely)
        except Exception:  # its message may quote a cell
            failed = True
        finally:
            self.visitors.present -= 1
            self.visitors.seen = time.monotonic()
        if failed and not started:
            await _answer(send, 500, "An unexpected error occurred.")


class Headers:
    """The headers of a request, by their names in small letters."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = [(name.decode("latin-1").lower(), text.decode("latin-1")) for name, text in raw]

    def all(self, name: str) -> list[str]:
        """Return all headers of this name."""
        return [text for known, text in self._raw if known == name]

    def one(self, name: str) -> str:
        """Return the header if there is exactly one, otherwise an empty text."""
        values = self.all(name)
        return values[0] if len(values) == 1 else ""

    def __contains__(self, name: str) -> bool:
        return bool(self.all(name))


async def _answer(send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    """Answer with a short text, and end the connection: the body of a refused request is not read."""
    body = text.encode()
    shown = {
        **HEADERS,
        "content-type": "text/plain; charset=utf-8",
        "content-length": str(len(body)),
        **(headers or {}),
    }
    if status >= 400:
        shown["connection"] = "close"
    raw = [(name.encode(), re.sub(r"[\r\n]", " ", value).encode("latin-1", "replace")) for name, value in shown.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})

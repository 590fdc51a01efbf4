"""
A proxy in front of an S3 server that does what a bad day does.

It is slow, tells clients to slow down, loses answers after the server has done what was asked, or
answers listings from what was there a while ago.
"""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.integration.home.servers import S3Server

_OF_ONE_HOP = frozenset({"connection", "transfer-encoding", "keep-alive"})
_SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)


@dataclass
class BadDay:
    """
    What goes wrong.

    :param slow: Seconds before each request is passed on.
    :param throttled: Every so-many-th request is answered with 503 and not passed on; 0 for none.
    :param lost: Every so-many-th write is done, and its answer never comes; 0 for none.
    :param late: Seconds for which a listing shows what it showed at first.
    """

    slow: float = 0.0
    throttled: int = 0
    lost: int = 0
    late: float = 0.0
    counts: dict[str, int] = field(default_factory=lambda: {"asked": 0, "written": 0, "struck": 0})
    listings: dict[str, tuple[float, Any]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_due(self, what: str, every: int) -> bool:
        """Count a request, and tell whether it is one of those that are struck."""
        with self.lock:
            self.counts[what] += 1
            is_struck = every > 0 and self.counts[what] % every == 0
            self.counts["struck"] += is_struck
            return is_struck

    def listed(self, path: str, ask: Any) -> Any:
        """Return the answer to a listing: an old one while it is not older than ``late``."""
        with self.lock:
            at, answer = self.listings.get(path, (0.0, None))
            if answer is not None and time.monotonic() - at < self.late:
                self.counts["struck"] += 1
                return answer
        answer = ask()
        with self.lock:
            self.listings[path] = time.monotonic(), answer
        return answer


@contextlib.contextmanager
def on_a_bad_day(server: S3Server, day: BadDay) -> Iterator[S3Server]:
    """Run the proxy; return the server as clients reach it through it."""
    target = urlsplit(server.endpoint).netloc

    class Handler(_Passing):
        bad_day, backend = day, target

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.daemon_threads = True
    thread = threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield replace(server, endpoint=f"http://127.0.0.1:{proxy.server_port}")
    finally:
        proxy.shutdown()
        proxy.server_close()


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bad_day: BadDay
    backend: str

    def handle_any(self) -> None:
        body = self._body()
        time.sleep(self.bad_day.slow)
        if self.bad_day.is_due("asked", self.bad_day.throttled):
            self._answer(503, [("Content-Type", "application/xml")], _SLOW_DOWN)
            return
        is_list = self.command == "GET" and "list-type" in parse_qs(urlsplit(self.path).query)
        if is_list and self.bad_day.late:
            self._answer(*self.bad_day.listed(self.path, lambda: self._ask(body)))
            return
        answer = self._ask(body)
        is_write = self.command == "PUT" and answer[0] == 200
        if is_write and self.bad_day.is_due("written", self.bad_day.lost):
            self.close_connection = True
            return
        self._answer(*answer)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _body(self) -> bytes:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(self._chunks())
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        there = http.client.HTTPConnection(self.backend, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _OF_ONE_HOP}
        headers.pop("Expect", None)
        headers["Content-Length"] = str(len(body))
        there.request(self.command, self.path, body=body, headers=headers)
        answer = there.getresponse()
        data = answer.read()
        kept = [(k, v) for k, v in answer.getheaders() if k.lower() not in _OF_ONE_HOP]
        there.close()
        return answer.status, kept, data

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        names = set()
        for name, value in headers:
            names.add(name.lower())
            if name.lower() != "content-length" or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

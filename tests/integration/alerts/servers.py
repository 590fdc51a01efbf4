"""Servers that take messages down, and one that takes connections and never says a word."""

from __future__ import annotations

import contextlib
import email
import email.policy
import json
import socket
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Mailbox:
    """Keeps every mail; a handler of aiosmtpd."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.port = 0

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return "250 OK"


@contextlib.contextmanager
def mail_server() -> Iterator[Mailbox]:
    mailbox = Mailbox()
    mailbox.port = free_port()
    server = Controller(mailbox, hostname="127.0.0.1", port=mailbox.port)
    server.start()
    try:
        yield mailbox
    finally:
        server.stop()


class Webhook(ThreadingHTTPServer):
    """Keeps every request's path and JSON."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.received: list[tuple[str, Any]] = []
        self.port: int = self.server_address[1]


class Request(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, json.loads(body)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def webhook_server() -> Iterator[Webhook]:
    with Webhook() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Mute:
    """Accepts connections and never answers."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.connected = threading.Event()
        self._peers: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._socket.accept()
                self._peers.append(peer)
                self.connected.set()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for peer in (self._socket, *self._peers):
            peer.close()


@contextlib.contextmanager
def mute_server() -> Iterator[Mute]:
    server = Mute()
    try:
        yield server
    finally:
        server.close()

"""Servers that answer as the test says, well or badly."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.patience import PATIENCE

Answer = Callable[[socket.socket, str], None]
"""Answers one request, given its path."""


@dataclass
class Server:
    """What a test knows of its server."""

    port: int
    paths: list[str] = field(default_factory=list)


@contextlib.contextmanager
def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve on a free port of this host until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server, ended = Server(port=listening.getsockname()[1]), threading.Event()
        listening.settimeout(0.05)

        def serve(accepted: socket.socket) -> None:
            with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
                connection = stack.enter_context(accepted)
                connection.settimeout(PATIENCE)
                if tls is not None:
                    wrapped = tls.wrap_socket(connection, server_side=True)
                    connection = stack.enter_context(wrapped)
                request = connection.recv(4096).decode("latin-1")
                if request.startswith("GET "):
                    server.paths.append(request.split(" ")[1])
                    answer(connection, server.paths[-1])

        def accept() -> None:
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    accepted, _ = listening.accept()
                    threading.Thread(target=serve, args=(accepted,), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield server
        finally:
            ended.set()
            accepting.join()


def reply(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """Return an HTTP reply."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def driver(application: str = "local-1", queries: tuple[str, ...] = ("orders",)) -> Answer:
    """Answer as a Spark driver does."""
    attempts = [{"startTime": "2026-11-21T05:22:07.115GMT", "completed": False}]
    bodies = {
        "/api/v1/applications": [{"id": application, "name": "x", "attempts": attempts}],
        "/metrics/json/": {
            "gauges": {
                f"{application}.driver.spark.streaming.{query}.latency": {"value": 1}
                for query in queries
            }
        },
    }

    def answer(connection: socket.socket, path: str) -> None:
        connection.sendall(reply(json.dumps(bodies[path]).encode()))

    return answer


def raw(*parts: bytes) -> Answer:
    """Answer with these very bytes, whatever was asked."""

    def answer(connection: socket.socket, path: str) -> None:
        for part in parts:
            connection.sendall(part)

    return answer


def certificate(folder: Path, host: str) -> tuple[ssl.SSLContext, Path]:
    """Return a server's context, and the file of the certificate that vouches for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file, pem = folder / "certificate.pem", serialization.Encoding.PEM
    file.write_bytes(made.public_bytes(pem))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(pem, *plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, folder / "key.pem")
    return context, file

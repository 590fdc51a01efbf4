"""TLS in front of a broker that has none: a proxy that also replaces the broker's address in its answers."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

_HOST = "127.0.0.1"


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate for this host; return its file and that of the key."""
    made, key = folder / "broker.pem", folder / "broker.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=broker", "-addext", f"subjectAltName=IP:{_HOST}"]
    subprocess.run(
        [*command, "-keyout", str(key), "-out", str(made)], check=True, capture_output=True
    )
    return made, key


@contextlib.contextmanager
def tls_in_front_of(broker: str, made: Path, key: Path) -> Iterator[str]:
    """Accept TLS for a broker; gives the address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    port = int(broker.rpartition(":")[2])
    with socket.create_server((_HOST, 0)) as server:
        own = server.getsockname()[1]
        # A broker tells its address in its answers; a client goes there for records.
        told = [_HOST.encode() + struct.pack(">i", number) for number in (port, own)]

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    plain, _ = server.accept()
                    threading.Thread(target=serve, args=(plain,), daemon=True).start()

        def serve(plain: socket.socket) -> None:
            with contextlib.suppress(OSError):
                client = context.wrap_socket(plain, server_side=True)
                to = socket.create_connection((_HOST, port))
                back = threading.Thread(target=copy, args=(to, client, told), daemon=True)
                back.start()
                copy(client, to, None)

        def copy(one: socket.socket, other: socket.socket, replaced: list[bytes] | None) -> None:
            with contextlib.suppress(OSError), one, other:
                while data := one.recv(1 << 16):
                    other.sendall(data.replace(*replaced) if replaced else data)

        threading.Thread(target=accept, daemon=True).start()
        yield f"{_HOST}:{own}"

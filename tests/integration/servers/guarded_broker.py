"""
TLS and a login in front of a broker that has neither: a proxy that also replaces the broker's address in its answers.

The login is SASL as Kafka frames it: PLAIN, or SCRAM of RFC 5802. The server's side is written here, and the clients
are real ones.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HOST: Final = "127.0.0.1"
_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_FAILED, _UNSUPPORTED = 58, 33
"""Codes of errors: SASL_AUTHENTICATION_FAILED and UNSUPPORTED_SASL_MECHANISM."""
_ITERATIONS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The only user, and the mechanism by which it logs in: ``PLAIN`` or ``SCRAM-SHA-256``."""

    user: str = "kim"
    password: str = "open-sesame"
    mechanism: str = "PLAIN"


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
def guarded(
    broker: str, *, tls: tuple[Path, Path] | None = None, login: Login | None = None
) -> Iterator[str]:
    """
    Accept connections for a broker; gives the address.

    :param tls: Certificate and key; ``None`` for no encryption.
    :param login: The login that a client must know; ``None`` for none.
    """
    context = None
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
    port = int(broker.rpartition(":")[2])
    with socket.create_server((_HOST, 0)) as server:
        own = server.getsockname()[1]
        # A broker tells its address in its answers; a client goes there for records.
        theirs, ours = [_HOST.encode() + struct.pack(">i", number) for number in (port, own)]

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    plain, _ = server.accept()
                    threading.Thread(target=serve, args=(plain,), daemon=True).start()

        def serve(plain: socket.socket) -> None:
            with contextlib.suppress(OSError, EOFError), plain:
                client = plain if context is None else context.wrap_socket(plain, server_side=True)
                with client, socket.create_connection((_HOST, port)) as to:
                    if login is None or _Greeting(client, to, login).has_passed():
                        back = threading.Thread(target=copy, args=(to, client), daemon=True)
                        back.start()
                        _copy(client, to, lambda frame: frame)
                        to.shutdown(socket.SHUT_RDWR)
                        back.join()

        def copy(one: socket.socket, other: socket.socket) -> None:
            _copy(one, other, lambda frame: frame.replace(theirs, ours))

        threading.Thread(target=accept, daemon=True).start()
        yield f"{_HOST}:{own}"


def _copy(one: socket.socket, other: socket.socket, change: Callable[[bytes], bytes]) -> None:
    with contextlib.suppress(OSError, EOFError):
        while True:
            _send(other, change(_frame(one)))


def _frame(one: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(one, 4))
    return _exactly(one, size)


def _exactly(one: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        if not (data := one.recv(size - len(found))):
            raise EOFError
        found += data
    return bytes(found)


def _send(one: socket.socket, frame: bytes) -> None:
    one.sendall(struct.pack(">i", len(frame)) + frame)


class _Greeting:
    """The requests of a connection until its client has logged in."""

    def __init__(self, client: socket.socket, broker: socket.socket, login: Login) -> None:
        self._client, self._broker, self._login = client, broker, login
        self._scram: _Scram | None = None

    def has_passed(self) -> bool:
        """Answer until the client has logged in; false if it has not."""
        while True:
            request = _frame(self._client)
            key, version, number, length = struct.unpack(">hhih", request[:10])
            body = request[10 + max(length, 0) :]
            if key == _VERSIONS:
                _send(self._broker, request)
                _send(self._client, _with_login(_frame(self._broker), version))
            elif key == _HANDSHAKE:
                error = 0 if body[2:].decode() == self._login.mechanism else _UNSUPPORTED
                offered = struct.pack(">hi", error, 1) + _text(self._login.mechanism)
                _send(self._client, struct.pack(">i", number) + offered)
                if error:
                    return False
            elif key == _AUTHENTICATE:
                answer, is_over = self._answer(body[4:])
                told = struct.pack(">h", 0 if answer is not None else _FAILED)
                told += (
                    struct.pack(">h", -1) if answer is not None else _text("Authentication failed")
                )
                told += struct.pack(">i", len(answer or b"")) + (answer or b"")
                told += struct.pack(">q", 0) if version else b""
                _send(self._client, struct.pack(">i", number) + told)
                if is_over:
                    return answer is not None
            else:
                return False

    def _answer(self, token: bytes) -> tuple[bytes | None, bool]:
        """Return the answer, ``None`` for a wrong login, and whether it is the last one."""
        if self._login.mechanism == "PLAIN":
            _, user, password = token.decode().split("\0")
            is_right = (user, password) == (self._login.user, self._login.password)
            return (b"" if is_right else None), True
        if self._scram is None:
            self._scram = _Scram(self._login, token.decode())
            return self._scram.first, False
        return self._scram.last(token.decode()), True


class _Scram:
    """The server's side of one SCRAM-SHA-256 login."""

    def __init__(self, login: Login, first: str) -> None:
        self._login, self._bare = login, first.split(",", 2)[2]
        asked = dict(part.split("=", 1) for part in self._bare.split(","))
        self._user, self._salt = asked["n"], secrets.token_bytes(16)
        self._nonce = asked["r"] + secrets.token_hex(8)
        salt = base64.b64encode(self._salt).decode()
        self.first = f"r={self._nonce},s={salt},i={_ITERATIONS}".encode()

    def last(self, final: str) -> bytes | None:
        """Return the signature of the server; ``None`` for a wrong login."""
        without, proof = final.rsplit(",p=", 1)
        signed = f"{self._bare},{self.first.decode()},{without}".encode()
        salted = hashlib.pbkdf2_hmac(
            "sha256", self._login.password.encode(), self._salt, _ITERATIONS
        )
        key = _mac(salted, b"Client Key")
        signature = _mac(hashlib.sha256(key).digest(), signed)
        expected = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        if self._user != self._login.user or base64.b64decode(proof) != expected:
            return None
        return b"v=" + base64.b64encode(_mac(_mac(salted, b"Server Key"), signed))


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _with_login(answer: bytes, version: int) -> bytes:
    """Return a broker's answer on its versions, with the two requests of a login in it."""
    number, error = answer[:4], answer[4:6]
    added = struct.pack(">hhh", _HANDSHAKE, 0, 1), struct.pack(">hhh", _AUTHENTICATE, 0, 1)
    if version < 3 or error != b"\0\0":
        (count,) = struct.unpack(">i", answer[6:10])
        known, after = answer[10 : 10 + 6 * count], answer[10 + 6 * count :]
        ranges = [known[at : at + 6] for at in range(0, len(known), 6)]
        ranges = [*filter(_is_other, ranges), *added]
        return number + error + struct.pack(">i", len(ranges)) + b"".join(ranges) + after
    count, at = _varint(answer, 6)
    end = at + 7 * (count - 1)
    ranges = [answer[n : n + 6] for n in range(at, end, 7)]
    ranges = [*filter(_is_other, ranges), *added]
    told = b"".join(one + b"\0" for one in ranges)
    return number + error + _as_varint(len(ranges) + 1) + told + answer[end:]


def _is_other(versions: bytes) -> bool:
    return struct.unpack(">h", versions[:2])[0] not in (_HANDSHAKE, _AUTHENTICATE)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def _as_varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])

"""
The driver's log: secrets from other processes, and its size.

Secrets are overwritten in place.

The JVM writes its log4j lines and stack traces through a file handle from its start, and this
process prints through the JVM. A pipe with a masking process would need to outlive every driver,
and a stopped pipe would stop Spark. So the text is written unmasked, and a known secret in it is
replaced by asterisks of the same length a moment later. The masking moves no text and delays no
writer. If it fails, the file stays as written.

A broker's outage makes Spark write some 80 MB a minute. The JVM holds the log open, so the log
cannot be renamed. A full log is copied to ``<log>.1`` and truncated, as ``copytruncate`` of
logrotate does. A line written between the copy and the truncation is lost. All parts together take
at most the bound and what is written during one look and its copy.

This one mechanism bounds all output of a driver: log4j, prints of Java and native code, the Python process and its
workers share the file handles of the JVM. A log4j2 configuration would bound the first of them only, and replace the
configuration of the user. The driver's file is the log of a launch on this host, the file that the worker of a
standalone cluster writes from the driver's pipe, or a file of YARN's container. A container runtime bounds the logs of
pods.

A node manager of YARN starts the JVM with ``1>stdout 2>stderr``. After a truncation the JVM would write on at its old
place. That place belongs to the opened file, and so does the flag to append; a child that inherits the file sets it
(``APPENDER``).
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from airflow_streaming.driver.errors import ErrorBoundary
from airflow_streaming.model.names import older_part
from airflow_streaming.model.spark.failures import hidden_forms

LOOK_SECONDS: Final = 1.0
"""How long a secret may stay in the file."""
CHUNK: Final = 1 << 20
MOST: Final = 64 * CHUNK
"""Bytes looked through in one go; a log that grows faster is followed from where that ended."""
_FLAGS: Final = re.compile(r"^flags:\s*([0-7]+)", re.MULTILINE)
"""Of a handle, in octal digits; see proc_pid_fdinfo(5)."""
APPENDER: Final = """\
import fcntl, os, stat
for number in (1, 2):
    if stat.S_ISREG(os.fstat(number).st_mode):
        fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | os.O_APPEND)
"""
"""A program for a child of the process that overwrites: from then on that process appends."""
_PARENT: Final = re.compile(r"^PPid:\s*([0-9]+)$", re.MULTILINE)
_RELAYED: Final = {1: "stdout", 2: "stderr"}
"""Names of the files in a driver's folder to which the worker of a standalone cluster writes the driver's output."""
_PRIVATE: Final = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class OutputFile:
    """
    A file to which other processes append.

    :param descriptor: Open for reading and writing, not for appending; this object closes it.
    :param path: The file's name if every process appends to it, so that it may be truncated.
    """

    def __init__(self, descriptor: int, path: Path | None = None) -> None:
        self._descriptor, self._path = descriptor, path
        self._seen = 0
        self._known: Collection[bytes] = ()

    def mask(self, secrets: Collection[bytes]) -> int:
        """
        Overwrite every secret in the text written since the last call; return their number.

        A secret that is new to this object is searched from the beginning.
        """
        secrets = [secret for secret in secrets if secret]
        if not secrets:
            return 0
        if secrets != self._known:
            self._seen, self._known = 0, secrets
        size = self.size
        if size < self._seen:
            self._seen = 0  # it was cut, as when logs are rotated in place
        overlap = max(map(len, secrets)) - 1
        end, found = min(size, self._seen + MOST), 0
        while self._seen < end:
            # A secret written in two parts begins in text that was searched before.
            begin = max(0, self._seen - overlap)
            data = os.pread(self._descriptor, CHUNK + self._seen - begin, begin)
            if begin + len(data) <= self._seen:
                break  # it was cut meanwhile
            found += self._overwrite(data, begin, secrets)
            self._seen = begin + len(data)
        return found

    def _overwrite(self, data: bytes, begin: int, secrets: Iterable[bytes]) -> int:
        found = 0
        for secret in secrets:
            at = data.find(secret)
            while at >= 0:
                os.pwrite(self._descriptor, b"*" * len(secret), begin + at)
                found += 1
                at = data.find(secret, at + len(secret))
        return found

    def bound(self, most: int, secrets: Collection[bytes]) -> bool:
        """
        Make a log of ``most`` bytes or more its own older part, and begin it anew; say whether it was.

        A log that cannot be copied is cut at twice the size.

        :raises OSError: it cannot be copied or cut.
        """
        size = self.size
        if self._path is None or size < most or not self._has_its_name(self._path):
            return False
        try:
            self._copy(self._path, most, secrets)
        except OSError:
            if size < 2 * most:
                raise
        os.ftruncate(self._descriptor, 0)
        self._seen = 0
        return True

    def _has_its_name(self, path: Path) -> bool:
        with contextlib.suppress(OSError):
            return os.path.samestat(path.lstat(), os.fstat(self._descriptor))
        return False

    def _copy(self, path: Path, most: int, secrets: Collection[bytes]) -> None:
        """Copy the last bytes, and at most as many again that a process writes meanwhile."""
        older = path.with_name(older_part(path.name))
        unfinished = older.with_suffix(".part")
        begin = at = max(0, self.size - most)
        self._mask_around(begin, secrets)
        older.unlink(missing_ok=True)  # it leaves its room to the next one
        try:
            with contextlib.closing(OutputFile(os.open(unfinished, _PRIVATE, 0o600))) as copy:
                while left := min(CHUNK, begin + 2 * most - at):
                    sent = os.sendfile(copy._descriptor, self._descriptor, at, left)
                    if not sent:
                        break
                    at += sent
                while copy._seen < copy.size and any(secrets):
                    copy.mask(secrets)
                os.fchmod(copy._descriptor, stat.S_IMODE(os.fstat(self._descriptor).st_mode))
            unfinished.replace(older)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise

    def _mask_around(self, place: int, secrets: Collection[bytes]) -> None:
        """Mask the secrets that would be cut at a place."""
        room = max(map(len, secrets), default=0)
        begin = max(0, place - room)
        self._overwrite(os.pread(self._descriptor, 2 * room, begin), begin, filter(None, secrets))

    @property
    def size(self) -> int:
        """Bytes that the file has now."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)


def open_outputs(pids: Iterable[int]) -> list[OutputFile]:
    """
    Open the output files of processes of this user, each file once.

    Terminals, devices and pipes are left out, because text written there cannot be changed. A pipe counts as the file
    to which the parent of its process writes it.
    """
    found: dict[tuple[int, int], OutputFile] = {}
    for pid, number in ((pid, number) for pid in pids for number in (1, 2)):
        with contextlib.suppress(OSError):
            path = _handle(pid, number)
            seen = os.stat(path)  # noqa: PTH116 - the file behind the handle, whatever its name
            key = (seen.st_dev, seen.st_ino)
            if not stat.S_ISREG(seen.st_mode) or seen.st_uid != os.geteuid() or key in found:
                continue
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
            found[key] = OutputFile(descriptor, _appended(path))
    return list(found.values())


def overwrites(pid: int) -> bool:
    """Tell whether a process writes its output to a file without appending; such a file cannot be bounded."""
    for number in (1, 2):
        handle = Path(f"/proc/{pid}/fd/{number}")
        with contextlib.suppress(OSError):
            if handle.is_file() and _appended(str(handle)) is None:
                return True
    return False


def _handle(pid: int, number: int) -> str:
    """
    Return the handle of a process's output, or the one by which the parent writes it to a file.

    :raises OSError: The process has ended, or the parent does not write its pipe to a file.
    """
    own = Path(f"/proc/{pid}/fd/{number}")
    if not own.is_fifo():
        return str(own)
    file = Path(f"/proc/{pid}/cwd", _RELAYED[number]).resolve(strict=True)
    parent = _PARENT.search(Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    for handle in Path(f"/proc/{parent[1] if parent else pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if _appended(str(handle)) == file:
                return str(handle)
    raise FileNotFoundError(file)


def _appended(handle: str) -> Path | None:
    """Return the file behind a handle, where the handle appends; another would write on where it was."""
    number = Path(handle).name
    facts = (Path(handle).parents[1] / "fdinfo" / number).read_text(encoding="ascii")
    flags = _FLAGS.search(facts)
    is_appended = flags is not None and int(flags[1], 8) & os.O_APPEND
    return Path(handle).readlink() if is_appended else None


class OutputFiles:
    """
    The driver's log while the driver runs: known secrets are masked and its size is bounded.

    :param pids: Processes whose output counts: the JVM and this process.
    :param most: Maximum bytes of a log and its older part together; ``None`` for no bound.
    """

    def __init__(self, pids: Iterable[int], most: int | None = None) -> None:
        self._files, self._most = open_outputs(pids), most
        self._lock, self._faults = threading.Lock(), ErrorBoundary()

    def begin(self) -> None:
        """Start looking, on a thread of its own that ends with the process."""
        if self._files:
            threading.Thread(target=self._run, name="airflow-streaming-output", daemon=True).start()

    def look(self) -> None:
        """Mask the text written since the last look and bound the size."""
        with self._lock:
            for file in self._files:
                with self._faults.contained("Masking the driver's log"):
                    file.mask(hidden_forms())
                if self._most is not None:
                    with self._faults.contained("Bounding the driver's log"):
                        file.bound(self._most // 2, hidden_forms())

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self.look()
            pause.wait(LOOK_SECONDS)

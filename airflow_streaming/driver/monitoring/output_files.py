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
logrotate does. A line written between the copy and the truncation is lost.
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
            self._copy(self._path, secrets)
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

    def _copy(self, path: Path, secrets: Collection[bytes]) -> None:
        older = path.with_name(older_part(path.name))
        unfinished = older.with_suffix(".part")
        try:
            with contextlib.closing(OutputFile(os.open(unfinished, _PRIVATE, 0o600))) as copy:
                while os.sendfile(copy._descriptor, self._descriptor, copy.size, CHUNK):
                    pass
                while copy._seen < copy.size and any(secrets):
                    copy.mask(secrets)
            unfinished.replace(older)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise

    @property
    def size(self) -> int:
        """Bytes that the file has now."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)


def open_outputs(pids: Iterable[int]) -> list[OutputFile]:
    """
    Open the output files of processes of this user, each file once.

    Pipes, terminals and devices are left out: text written there cannot be changed.
    """
    found: dict[tuple[int, int], OutputFile] = {}
    for path in (f"/proc/{pid}/fd/{number}" for pid in pids for number in (1, 2)):
        with contextlib.suppress(OSError):
            seen = os.stat(path)  # noqa: PTH116 - the file behind the handle, whatever its name
            key = (seen.st_dev, seen.st_ino)
            if not stat.S_ISREG(seen.st_mode) or seen.st_uid != os.geteuid() or key in found:
                continue
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
            found[key] = OutputFile(descriptor, _appended(path))
    return list(found.values())


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

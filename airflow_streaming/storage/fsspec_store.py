"""
Records on any file system that fsspec knows, and how a home's URI becomes a store.

Every store says "this file exists already" and "I cannot be reached" in its own way. This module is
the one place that knows those ways. fsspec itself is never imported here: the file system comes
from outside, so that importing a dag costs nothing.
"""

from __future__ import annotations

import contextlib
import errno
import random
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from airflow_streaming.exceptions import (
    AlreadyExists,
    HomeUnavailable,
    RecordError,
    SpecError,
    StreamingError,
    closed,
)
from airflow_streaming.model.storage import LocalStore, Store, check_relative
from airflow_streaming.model.uris import check_uri, is_local, scheme_of, to_fsspec
from airflow_streaming.model.wire import MAX_RECORD_BYTES

CONFLICT_TRIES: Final = 5
"""S3 answers 409 when two conditional writes meet, and asks for a repetition; one usually does."""
_RENAMING: Final = frozenset({"hdfs", "arrow_hdfs", "webhdfs"})
"""fsspec has no exclusive open on HDFS, but HDFS never renames onto an existing file."""

_EXTRAS = {"s3": "s3", "gs": "gcs", "abfs": "abfs", "abfss": "abfs", "hdfs": "hdfs"}
LOOK_SECONDS: Final = 2.0
"""Time to connect, and time between two answers, of a client that only looks."""
LOOK_TRIES: Final = 2
"""S3 asks clients now and then to try again; more tries would hold up the page."""
_MOST_TOLD: Final = 300
"""Characters of a client's error in a sentence of ours."""


class FsspecStore:
    """
    A folder of an fsspec file system as a store.

    :param fs: The file system, made without a listing cache.
    :param root: The folder as the file system spells it, e.g. ``bucket/streams``.
    :param uri: The folder as the user wrote it.
    """

    def __init__(self, fs: Any, root: str, uri: str) -> None:
        self.uri = uri
        self._fs = fs
        self._root = root.rstrip("/")
        protocol = fs.protocol
        names = {protocol} if isinstance(protocol, str) else set(protocol)
        self._renames = bool(names & _RENAMING)

    def read(self, path: str, limit: int = MAX_RECORD_BYTES) -> bytes | None:
        with self._reporting(path) as full:
            try:
                data = read_start(self._fs, full, limit + 1)
            except FileNotFoundError as err:
                if _code(err) == "NoSuchBucket":
                    raise
                return None
        if len(data) > limit:
            raise RecordError(f"{self._shown(path)} is larger than {limit} bytes.")
        return data

    def create(self, path: str, data: bytes) -> None:
        with self._reporting(path) as full:
            if self._renames:
                self._create_by_rename(path, full, data)
                return
            for attempt in range(CONFLICT_TRIES):
                try:
                    self._fs.pipe_file(full, data, mode="create")
                except Exception as err:
                    if _says_exists(err):
                        if self._is_ours(full, data):
                            return
                        raise AlreadyExists(self._shown(path)) from err
                    if _status(err) != 409 or attempt == CONFLICT_TRIES - 1:
                        raise
                    time.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311 - only jitter
                else:
                    return

    def replace(self, path: str, data: bytes) -> None:
        with self._reporting(path) as full:
            if not self._renames:
                self._fs.pipe_file(full, data)
                return
            with self._temporary(full, data) as temporary:
                with contextlib.suppress(FileNotFoundError):
                    self._fs.rm_file(full)
                self._fs.mv(temporary, full)

    def names(self, folder: str) -> list[str]:
        with self._reporting(folder) as full:
            self._fs.invalidate_cache(full)
            try:
                found = self._fs.ls(full, detail=False)
            except FileNotFoundError as err:
                if _code(err) == "NoSuchBucket":
                    raise
                return []
        names = (str(path).rstrip("/").rsplit("/", 1)[-1] for path in found if not _is(path, full))
        return sorted(name for name in names if name and not name.startswith("."))

    def delete(self, path: str) -> None:
        with self._reporting(path) as full, contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(full)

    def _is_ours(self, full: str, data: bytes) -> bool:
        """
        Tell whether an existing file equals the file to create.

        Clients repeat a request whose answer got lost, or that the store told to slow down, and
        then find their own file. Files of rivals differ in author, time or token.
        """
        try:
            return bool(data) and read_start(self._fs, full, len(data) + 1) == data
        except Exception:  # noqa: BLE001 - clients share no base class; then it is not known
            return False

    def _create_by_rename(self, path: str, full: str, data: bytes) -> None:
        with self._temporary(full, data) as temporary:
            # A refused rename may be silent (WebHDFS answers "false"), so the proof is that the
            # temporary file has gone.
            with contextlib.suppress(OSError):
                self._fs.mv(temporary, full)
            if not self._fs.exists(temporary):
                return
            if self._fs.exists(full):
                raise AlreadyExists(self._shown(path))
            raise OSError(errno.EIO, "the file system refused to rename a new file to its name")

    @contextlib.contextmanager
    def _temporary(self, full: str, data: bytes) -> Iterator[str]:
        folder, _, name = full.rpartition("/")
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
        self._fs.makedirs(folder, exist_ok=True)
        self._fs.pipe_file(temporary, data)
        try:
            yield temporary
        finally:
            with contextlib.suppress(OSError):
                self._fs.rm_file(temporary)

    def _shown(self, path: str) -> str:
        return f"{self.uri.rstrip('/')}/{path}" if path else self.uri

    @contextlib.contextmanager
    def _reporting(self, path: str) -> Iterator[str]:
        full = f"{self._root}/{check_relative(path)}" if path else self._root
        try:
            yield full
        except StreamingError:
            raise
        except Exception as err:
            # Storage clients share no base class: botocore's, Azure's and Google's errors are not
            # OSErrors. All of them mean that the home cannot be used now.
            raise HomeUnavailable(
                f"{self._shown(path)} cannot be used: {_words(err)}. Check that the store can be "
                "reached from this host and that the credentials may read and write there."
            ) from err


def read_start(fs: Any, path: str, size: int) -> bytes:
    """
    Return the first bytes of a file on an fsspec file system; an empty one is empty on S3 too.

    :param size: Bytes to read at most.
    """
    try:
        return bytes(fs.cat_file(path, end=size))
    except Exception as err:
        # No range of an empty object can be satisfied.
        if _status(err) != 416:
            raise
        return b""


def _is(path: object, folder: str) -> bool:
    # A folder marker, or on some stores the requested file, listed like a folder.
    return str(path).strip("/") == folder.strip("/")


def _says_exists(err: BaseException) -> bool:
    if isinstance(err, FileExistsError):
        return True
    # s3fs turns "precondition failed" into errno 22, which also stands for other things.
    return getattr(err, "errno", None) == errno.EEXIST or _status(err) == 412


def _answers(err: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = err
    while seen is not None:
        yield seen
        seen = seen.__cause__


def _status(err: BaseException) -> int | None:
    """Return the HTTP status behind an error, as botocore, Azure, Google or aiohttp keep it."""
    for answer in _answers(err):
        response = getattr(answer, "response", None)
        if isinstance(response, dict):
            return _number(response.get("ResponseMetadata", {}).get("HTTPStatusCode"))
        for name in ("status_code", "status", "code"):
            status = _number(getattr(answer, name, None))
            if status is not None:
                return status
    return None


def _code(err: BaseException) -> str | None:
    for answer in _answers(err):
        response = getattr(answer, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code"))
    return None


def _number(value: object) -> int | None:
    try:
        return int(value) if isinstance(value, int | str) else None
    except ValueError:
        return None


def _words(err: BaseException) -> str:
    return f"{str(err).rstrip('.') or 'no reason given'} ({type(err).__name__})"


def open_store(
    uri: str,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
    *,
    looks_only: bool = False,
) -> Store:
    """
    Return the store for a home.

    :param storage_options: Passed to fsspec for a home that is not a local folder.
    :param filesystem: An fsspec file system to use instead of a new one.
    :param looks_only: Give up on a store that does not answer after a few seconds.
    :raises SpecError: the URI cannot be a home, or its file system is not installed.
    :raises HomeUnavailable: the file system cannot be set up, e.g. without credentials.
    """
    checked = check_uri(uri, "home")
    if is_local(checked):
        return LocalStore(checked)
    opened, root = open_filesystem(checked, "home", storage_options, filesystem)
    if looks_only and filesystem is None:
        give_up_soon(opened)
    return FsspecStore(opened, root, checked)


def open_filesystem(
    uri: str,
    what: str,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> tuple[Any, str]:
    """
    Return the file system of a checked URI, and the folder as that file system spells it.

    :param what: The folder's role in messages, e.g. ``home``.
    :param filesystem: The file system, when there is one already.
    :raises SpecError: its file system is not installed.
    """
    if filesystem is not None:
        return filesystem, filesystem._strip_protocol(to_fsspec(uri))
    from fsspec.core import url_to_fs

    # A cached instance may belong to code that lists with a cache; a stale listing would hide
    # the newest epoch.
    settings = {**(storage_options or {}), "use_listings_cache": False, "skip_instance_cache": True}
    try:
        opened, root = url_to_fs(to_fsspec(uri), **settings)
    except (ImportError, ValueError) as err:
        scheme = scheme_of(to_fsspec(uri))
        extra = f"pip install 'airflow-streaming[{_EXTRAS[scheme]}]'" if scheme in _EXTRAS else ""
        raise SpecError(
            f"The {what} {uri!r} cannot be opened: {closed(err)} "
            f"{extra or 'Install the fsspec file system for it'}, or give another URI."
        ) from err
    except Exception as err:
        # Storage clients share no base class for "no credentials" or "no such host".
        raise HomeUnavailable(
            f"The {what} {uri} cannot be opened: {_first_words(err)} ({type(err).__name__}). Check "
            "the connection and the credentials of its store."
        ) from err
    return opened, root


def give_up_soon(opened: Any) -> None:
    """
    Bound how long a client waits for its store.

    Only S3's is known here; by default it takes minutes for a store that is away. The operator's
    own setting wins. The client was made for this look alone and is shared with no other part.
    """
    protocol = opened.protocol
    if "s3" not in ((protocol,) if isinstance(protocol, str) else protocol):
        return
    bounds = {
        "connect_timeout": LOOK_SECONDS,
        "read_timeout": LOOK_SECONDS,
        # The client's own tries; s3fs repeats a failed request LOOK_TRIES times on top.
        "retries": {"total_max_attempts": 1},
    }
    opened.config_kwargs = {**bounds, **opened.config_kwargs}
    opened.retries = LOOK_TRIES


def _first_words(err: Exception) -> str:
    # A client may list every place where it looked for its library.
    line = next(iter(str(err).splitlines()), "")
    return line if len(line) <= _MOST_TOLD else f"{line[: _MOST_TOLD - 3]}..."

"""
The driver's package: the user's script, and the part of this package that a driver needs.

``spark-submit`` ships the zip beside the script. Its content depends only on our sources, so its
name can be a digest: built once, shared by all streams of a user, never out of date.
"""

from __future__ import annotations

import hashlib
import io
import os
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import airflow_streaming
from airflow_streaming.exceptions import ApplicationNotFound, LaunchError, closed
from airflow_streaming.launch.environment import private_folder, write_private
from airflow_streaming.model.pipeline.program import is_pipeline
from airflow_streaming.model.uris import is_local, local_path, scheme_of, to_fsspec
from airflow_streaming.model.wire import MAX_RECORD_BYTES

_LIMIT: Final = MAX_RECORD_BYTES

_MODULES: Final = ("__init__.py", "exceptions.py")
_ROOMS: Final = ("model", "driver")
_ENTRY: Final = "driver/main.py"
_OLDEST_ZIP_DATE: Final = (1980, 1, 1, 0, 0, 0)


def locate_application(application: str, folders: Iterable[Path]) -> str:
    """
    Return the script's absolute path, or its URI.

    :param folders: Where a relative path may start: the dag file's folder, the dags folder.
    :raises ApplicationNotFound: names every place that was searched.
    """
    if not is_local(application):
        return application
    path = Path(local_path(application))
    candidates = [path] if path.is_absolute() else [folder / path for folder in folders]
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate.resolve())
    raise ApplicationNotFound(
        f"Application {application!r} was not found. Looked at: "
        f"{', '.join(map(str, candidates)) or 'no folder'}. Give an absolute path, or one relative "
        "to the dag file."
    )


def read_application(location: str) -> bytes:
    """
    Return the script's source, or the files of a pipeline as one text.

    :raises ApplicationNotFound: it cannot be read, is too large, or is not Python.
    """
    if is_pipeline(location):
        # Only for pipelines: it needs a parser of YAML.
        from airflow_streaming.launch.pipeline_files import read_pipeline

        return read_pipeline(location)
    data = _read(location)
    if len(data) > _LIMIT:
        raise ApplicationNotFound(
            f"Application {location!r} is larger than {_LIMIT} bytes. Give the script, and put "
            "libraries into py_files."
        )
    try:
        compile(data, location, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as err:
        raise ApplicationNotFound(f"Application {location!r} is not valid Python: {err}") from err
    return data


def _read(location: str) -> bytes:
    try:
        if is_local(location):
            with Path(local_path(location)).open("rb") as file:
                return file.read(_LIMIT + 1)
        import fsspec  # heavy, and needed for remote scripts only

        with fsspec.open(to_fsspec(location), "rb") as remote:
            data: bytes = remote.read(_LIMIT + 1)
            return data
    except (OSError, ImportError, ValueError) as err:
        raise ApplicationNotFound(
            f"Application {location!r} cannot be read: {closed(err)} Check the path and, for "
            f"{scheme_of(location) or 'a local file'}, the rights of the Airflow worker."
        ) from err


def file_digests(files: Sequence[str]) -> tuple[str, ...]:
    """Return the SHA-256 of each file; empty unless it is a local file of this host."""
    return tuple(map(_digest_of, files))


def _digest_of(location: str) -> str:
    if not is_local(location):
        return ""
    path = Path(local_path(location))
    try:
        stat = path.stat()
    except OSError:
        return ""
    if not path.is_absolute() or not path.is_file():
        return ""
    return _digest_at(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=256)
def _digest_at(path: Path, modified: int, size: int) -> str:
    """Return the digest of a file; asked again only when it was written since."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPackage:
    """
    The files to submit to Spark.

    :param archive: The zip, for ``--py-files``.
    :param main: The script to submit, alone with the zip in its folder: Python puts the folder of
        the script first on its path, and the modules of ``driver`` must not be found there.
    """

    archive: Path
    main: Path


def build_driver_package(
    cache: Path, source: Path = Path(airflow_streaming.__file__).parent
) -> DriverPackage:
    """
    Return the driver's package, built if the cache does not hold it.

    :param cache: A folder of this user alone: code in it will be executed.
    :param source: Folder of the installed ``airflow_streaming``.
    :raises LaunchError: the cache belongs to another process or cannot be written.
    """
    content = _zip(source)
    main = (source / _ENTRY).read_bytes()
    digest = hashlib.sha256(content + main).hexdigest()[:16]
    folder = _own(private_folder(cache / f"driver-{digest}"))
    archive = folder / "airflow_streaming.zip"
    entry = folder / "main.py"
    for path, data in ((archive, content), (entry, main)):
        _keep(path, data)
    return DriverPackage(archive=archive, main=entry)


def _zip(source: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path in _files(source):
            name = f"airflow_streaming/{path.relative_to(source).as_posix()}"
            info = zipfile.ZipInfo(name, _OLDEST_ZIP_DATE)
            info.create_system = 3  # Unix, on whichever system it is built
            info.external_attr = 0o644 << 16
            archive.writestr(info, path.read_bytes())
    return buffer.getvalue()


def _files(source: Path) -> Iterator[Path]:
    for name in _MODULES:
        yield source / name
    for room in _ROOMS:
        yield from sorted((source / room).rglob("*.py"))


def _own(folder: Path) -> Path:
    owner = folder.stat().st_uid
    if owner != os.geteuid():
        raise LaunchError(
            f"The folder {folder} belongs to user {owner}, not to this one; code in it will not be "
            "run. Give every operating-system user a folder of its own."
        )
    return folder


def _keep(path: Path, data: bytes) -> None:
    if path.is_file() and path.read_bytes() == data:
        return
    # A running spark-submit may be reading the old file: it is replaced, never written over.
    temporary = write_private(path.with_name(f".{path.name}.{uuid.uuid4().hex}"), data)
    try:
        temporary.replace(path)
    except OSError as err:
        temporary.unlink(missing_ok=True)
        raise LaunchError(
            f"The driver's package {path} cannot be written: {err.strerror or err}. Check that its "
            "folder belongs to this user and that the disk has room."
        ) from err

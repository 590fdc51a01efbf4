"""Read a stream's script from where the dag says it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from airflow_streaming.core.uris import is_local, local_path, scheme_of, to_fsspec
from airflow_streaming.core.wire import MAX_RECORD_BYTES
from airflow_streaming.exceptions import ApplicationNotFound


def locate_application(application: str, folders: Iterable[Path]) -> str:
    """
    Return the script's absolute path, or its URI.

    :param folders: Where a relative path may start: the dag file's folder, the dags folder.
    :raises ApplicationNotFound: naming every place that was looked at.
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
    Return the script's source.

    :raises ApplicationNotFound: it cannot be read, is too large, or is not Python.
    """
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


_LIMIT: Final = MAX_RECORD_BYTES


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
            f"Application {location!r} cannot be read: {err}. Check the path and, for "
            f"{scheme_of(location) or 'a local file'}, the rights of the Airflow worker."
        ) from err

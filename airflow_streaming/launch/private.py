"""Folders and files that only their owner may read: driver logs, properties, keytabs."""

from __future__ import annotations

import os
from pathlib import Path

from airflow_streaming.exceptions import AlreadyExists, LaunchError


def private_folder(path: Path) -> Path:
    """
    Create a folder and its missing parents, each with mode 0700.

    :raises LaunchError: it cannot be created, or something else has its name.
    """
    try:
        # Path.mkdir applies the mode to the last folder only; its parents would be readable.
        for folder in reversed([path, *path.parents]):
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as err:
        raise LaunchError(
            f"The folder {path} cannot be created: {err.strerror or err}. "
            "Check that its parent exists and that this user may write there."
        ) from err
    return path


def open_private_log(path: Path) -> int:
    """
    Open a file for appending, with mode 0600, and return its descriptor.

    :raises LaunchError: it cannot be opened, or is a symbolic link.
    """
    private_folder(path.parent)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as err:
        raise LaunchError(
            f"The driver log {path} cannot be written: {err.strerror or err}. "
            "Check that it is a plain file and that this user may write there."
        ) from err
    os.fchmod(descriptor, 0o600)
    return descriptor


def write_private(path: Path, content: str | bytes) -> Path:
    """
    Create a file with mode 0600; it may hold secrets.

    :raises AlreadyExists: the name is taken, by whatever; it is left as it is.
    :raises LaunchError: it cannot be written.
    """
    private_folder(path.parent)
    data = content.encode() if isinstance(content, str) else content
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(path, flags, 0o600), "wb") as file:  # noqa: PTH123  # a descriptor
            file.write(data)
    except FileExistsError as err:
        raise AlreadyExists(str(path)) from err
    except OSError as err:
        raise LaunchError(
            f"The private file {path} cannot be written: {err.strerror or err}. "
            "Check that its folder belongs to this user and that the disk has room."
        ) from err
    return path

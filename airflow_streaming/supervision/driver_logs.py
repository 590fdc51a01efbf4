"""
The end of a driver's log: from its place, or the part kept when the driver failed.

It is kept with the epoch before its pod is deleted or its host is lost. It is masked first, because
every reader of the home may read it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Final

from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import DriverLog, Launcher
from airflow_streaming.model.names import numbered
from airflow_streaming.model.records.epoch import Epoch, KeptLog, Launch
from airflow_streaming.model.spark.failures import mask_secrets
from airflow_streaming.model.spark.secrets import REDACTED
from airflow_streaming.model.texts import printable
from airflow_streaming.model.uris import digest_of

MOST: Final = 256 * 1024
"""Bytes that are kept of a failed driver's output."""
_OVERLAP: Final = 4096
"""Bytes by which a log without a size is found again in a later look at it."""
log: Final = logging.getLogger(__name__)


def masked(tail: bytes, secrets: Collection[str] = (), *, most: int = MOST) -> str:
    """
    Return the end of a log, masked for storage and display.

    :param tail: At most ``most`` bytes. At this length the first line may be cut, and a secret in
        it not recognized, so it is dropped.
    :param secrets: Values to mask everywhere.
    """
    if len(tail) >= most:
        tail = tail[-most:].partition(b"\n")[2]
    text = tail.decode(errors="replace").replace("\0", "")
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return mask_secrets(text)


def keep_log(
    home: StreamHome,
    launcher: Launcher,
    epoch: Epoch,
    launch: Launch | None,
    *,
    now: datetime,
    secrets: Collection[str] = (),
) -> None:
    """
    Keep the end of a driver's log, once; an unavailable log is not an error.

    :param secrets: Secret values of the stream's configuration and environment.
    """
    try:
        if launch is None or home.driver_log(epoch.number) is not None:
            return
        found = launcher.logs(epoch, launch, None, MOST)
        if not found.tail:
            log.info("The log of epoch %d is not kept: %s", epoch.number, found.trouble or "-")
            return
        home.keep_driver_log(
            KeptLog(
                epoch=epoch.number,
                place=found.place,
                text=_fitting(masked(found.tail, secrets)),
                kept_at=now,
                size=found.size,
            )
        )
    except StreamingError as err:
        log.warning("The log of epoch %d could not be kept: %s", epoch.number, err)


def _fitting(text: str) -> str:
    # In a record a control character takes six bytes, and a record has room for 1 MiB.
    plain = printable(text)
    while len(plain.encode()) > 2 * MOST:
        plain = plain[len(plain) // 4 :].partition("\n")[2]
    return plain


def named_log(home: StreamHome, epoch: Epoch, launch: Launch) -> Path | None:
    """
    Return the file in a launch record, if it has the name of this driver's log.

    A record may be forged, so no other file is opened for it.
    """
    started, named = epoch.as_launched, PurePosixPath(launch.log)
    own = (digest_of(home.store.uri), started.stream, f"{numbered(started.number)}.log")
    is_own = named.parts[-3:] == own
    is_plain = named.is_absolute() and ".." not in named.parts
    return Path(named) if is_own and is_plain and str(named) == launch.log else None


def end_of_log(launcher: Launcher, home: StreamHome, epoch: Epoch, launch: Launch) -> DriverLog:
    """Return the end of a driver's output for a user of this host, who may read the file anyway."""
    return launcher.logs(epoch, launch, named_log(home, epoch, launch), MOST)


def added(before: DriverLog | None, now: DriverLog) -> bytes:
    """
    Return the lines written between two reads of a driver's log, as far as visible.

    :param before: The first read, if any.
    """
    tail = now.tail or b""
    if before is None or not before.tail:
        return tail
    if before.size is not None and now.size is not None:
        more = now.size - before.size
        if more >= 0:
            return tail[max(0, len(tail) - more) :]
        # The log was rotated, and its older part is read first.
    end = before.tail[-_OVERLAP:]
    at = tail.rfind(end)
    return tail if at < 0 else tail[at + len(end) :]


def shown_log(log: DriverLog, kept: KeptLog | None) -> str:
    """
    Return a driver's log as text: the present one, or the kept part.

    :raises LookupError: Both are missing, and the log should exist.
    """
    if log.tail is not None:
        return f"{log.place}{_size(log.size)}\n\n{masked(log.tail)}"
    if kept is not None:
        at = kept.kept_at.isoformat(timespec="seconds")
        return f"{kept.place}{_size(kept.size)}, kept at {at}\n\n{mask_secrets(kept.text)}"
    if log.trouble:
        raise LookupError(f"{log.place} cannot be read: {log.trouble}")
    return f"The log cannot be read from here. It is at: {log.place}\n"


def _size(size: int | None) -> str:
    return "" if size is None else f" ({size} bytes)"

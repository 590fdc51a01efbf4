"""Release: a Spark version as far as compatibility goes by it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from airflow_streaming.exceptions import SpecError

# Vendors and snapshots add to it: 3.5.1-amzn-0, 4.1.0.dev1, 4.4.0-SNAPSHOT.
_TEXT: Final = re.compile(
    r"([0-9]{1,3})\.([0-9]{1,3})(?:\.([0-9]{1,3}))?(?:[.+-][0-9A-Za-z.+_-]*)?", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """
    A release of Spark.

    :param minor: Major and minor number: what a checkpoint's formats go by.
    :param patch: ``None`` where it was not told.
    :param text: As it was given.
    """

    minor: tuple[int, int]
    patch: int | None
    text: str

    @property
    def name(self) -> str:
        """Its major and minor number as text, e.g. ``4.1``."""
        return ".".join(map(str, self.minor))

    def is_before(self, version: str) -> bool:
        """Tell whether it is older than a release; one without a patch is its newest patch."""
        other = release_of(version)
        if self.minor != other.minor or self.patch is None:
            return self.minor < other.minor
        return self.patch < (other.patch or 0)


def release_of(text: str) -> Release:
    """
    Read a version.

    :param text: E.g. ``3.5.9``, ``4.1`` or ``3.5.1-amzn-0``.
    :raises SpecError: it is no version of Spark.
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise SpecError(
            f"{text!r:.60} is no version of Spark. Give one like '3.5.9', or like '4.1'."
        )
    major, minor, patch = match.groups()
    return Release(
        minor=(int(major), int(minor)), patch=None if patch is None else int(patch), text=text
    )

"""Release: a Spark version as far as compatibility goes by it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from airflow_streaming.exceptions import SpecError

_NUMBER: Final = r"(0|[1-9][0-9]{0,2})"
# Vendors, previews and snapshots add to it: 3.5.1-amzn-0, 3.5.4.1.23, 4.1.0.dev1, 4.4.0-SNAPSHOT.
_TEXT: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}(?:\.{_NUMBER}((?:[A-Za-z]\w*)?(?:[.+-]\w+)*))?", re.ASCII
)
_LONGEST: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """
    A release of Spark.

    :param minor: Major and minor number: what a checkpoint's formats go by.
    :param patch: ``None`` where it was not told.
    :param text: As it was given.
    :param build: What a vendor, a preview or a snapshot adds, e.g. ``-amzn-0``; empty for a release
        of Apache Spark.
    """

    minor: tuple[int, int]
    patch: int | None
    text: str
    build: str = ""

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
    :raises SpecError: it is no version of Spark, or no text.
    """
    # YAML and callers without types make 3.5 a number, and 3.10 the number 3.1.
    given = text.strip() if isinstance(text, str) else ""
    match = _TEXT.fullmatch(given) if len(given) <= _LONGEST else None
    if match is None:
        raise SpecError(
            f"{repr(text)[:_LONGEST]} is no version of Spark. Give one as text, like '3.5.9', or "
            "like '4.1'."
        )
    major, minor, patch, build = match.groups()
    return Release(
        minor=(int(major), int(minor)),
        patch=None if patch is None else int(patch),
        text=given,
        build=build or "",
    )

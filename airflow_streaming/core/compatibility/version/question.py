"""Question: what the version gate is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionQuestion:
    """
    A stream is to go from one Spark to another.

    :param from_version: The Spark that ran it last, e.g. ``3.5.9`` or ``3.5``.
    :param to_version: The Spark that is to run it.
    :param conf: Configuration that the new deployment gives; what it leaves out is Spark's default.
    """

    from_version: str
    to_version: str
    conf: Mapping[str, str] = field(default_factory=dict)

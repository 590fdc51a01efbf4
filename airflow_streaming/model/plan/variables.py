"""The state variables of a ``transformWithState``."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_streaming.model.plan.schema import Column, column_texts


@dataclass(frozen=True, slots=True, kw_only=True)
class StateVariable:
    """
    A state variable.

    :param kind: ``value``, ``list`` or ``map``.
    :param key: Of a map, the columns of its keys.
    :param value: Columns of its values; empty if unknown.
    :param ttl_ms: Time to live; 0 if none, or if unknown.
    """

    kind: str
    name: str
    key: tuple[Column, ...] = ()
    value: tuple[Column, ...] = ()
    has_ttl: bool = False
    ttl_ms: int = 0

    @property
    def text(self) -> str:
        """Return it for readers, without its name."""
        key = f"{column_texts(self.key)} -> " if self.key else ""
        schema = f"{key}{column_texts(self.value)}" if self.value else "schema not told"
        life = f" of {self.ttl_ms} ms" if self.ttl_ms else ""
        ttl = f" with a time to live{life}" if self.has_ttl else ""
        return f"{self.kind} ({schema}){ttl}"

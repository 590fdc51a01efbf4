"""
Pointers for consumers beside the home's own: adapters for ``blue_green(pointers=...)``.

Only ``SqlPointer`` imports Airflow, at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_streaming.changes.pointers.file import PointerFile
from airflow_streaming.changes.pointers.pointer import Pointer
from airflow_streaming.changes.pointers.port import CallablePointer
from airflow_streaming.changes.pointers.spark import SparkTable, SparkView

if TYPE_CHECKING:
    from airflow_streaming.hooks.sql_pointer import SqlPointer

__all__ = [
    "CallablePointer",
    "Pointer",
    "PointerFile",
    "SparkTable",
    "SparkView",
    "SqlPointer",
]


def __getattr__(name: str) -> Any:
    if name == "SqlPointer":
        from airflow_streaming.hooks.sql_pointer import SqlPointer

        return SqlPointer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

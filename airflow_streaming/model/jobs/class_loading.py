"""Loading the classes that drivers need, for an archive of them: the order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_streaming.model.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLoadingOrder(Record):
    """
    What Spark is to do.

    :param folder: A scratch folder for input, checkpoints and output.
    :param seconds: How long it may take.
    """

    KIND: ClassVar[str] = "class_loading_order"

    folder: str
    seconds: float

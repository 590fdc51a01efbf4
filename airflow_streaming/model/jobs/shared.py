"""
Values of a shared Spark: its order, the calls of its jobs, and how each job ended.

The caller creates one file a call, named by its number, and the host answers with another one. Both
appear whole, so that a reader never meets half of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_streaming.model.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOrder(Record):
    """
    The order to the host of a shared Spark: run the jobs of a folder, one after the other.

    :param calls: Folder of the calls and their ends.
    :param held: File that the ordering process keeps locked for as long as it lives.
    :param scratch: Folder that is removed when that process is gone.
    """

    KIND: ClassVar[str] = "shared_spark_order"

    calls: str
    held: str
    scratch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCall(Record):
    """
    A job for a shared Spark.

    :param entry: Python file that runs it; it gets the order's file.
    :param log: File for the output of the job's Python.
    :param variable: Set to 1 in its environment.
    :param reaches_workers: Set the variable in Python workers as well.
    """

    KIND: ClassVar[str] = "shared_spark_call"

    entry: str
    order: str
    log: str
    variable: str
    reaches_workers: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd(Record):
    """
    The end of one job.

    :param code: Exit code of its Python; negative for a signal.
    :param leftovers: Names in the working folder and the warehouse that were not there before it.
    """

    KIND: ClassVar[str] = "shared_spark_end"

    code: int
    leftovers: tuple[str, ...] = ()

    @property
    def is_reusable(self) -> bool:
        """Tell whether the Spark is as good as a new one for the next job."""
        return not self.leftovers


def call_name(number: int) -> str:
    return f"call-{number:06d}.json"


def ready_name(number: int) -> str:
    """Return the name of the file that is there as soon as the Spark is ready for a job."""
    return f"ready-{number:06d}"


def end_name(number: int) -> str:
    return f"end-{number:06d}.json"

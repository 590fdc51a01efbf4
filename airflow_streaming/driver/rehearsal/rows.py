"""
Rows of a rehearsal: counted, shown in part, and thrown away.

The rows of a batch are computed once, whatever is asked of them afterwards: a second action would
run every stateful operator a second time. What is shown is text, cut and with secrets masked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from airflow_streaming.core.conf import REDACTED, SECRET_KEY
from airflow_streaming.core.failures.text import mask_secrets
from airflow_streaming.core.plan.plan import Column
from airflow_streaming.driver.faults import logger

_MOST_COLUMNS: Final = 40
_MOST_TEXT: Final = 100
_MOST_TYPE: Final = 500


def columns_of(rows: Any) -> tuple[Column, ...]:
    """Return the columns of a data frame."""
    return tuple(
        Column(name=f.name, type=f.dataType.simpleString()[:_MOST_TYPE], nullable=bool(f.nullable))
        for f in rows.schema.fields
    )


def count_and_sample(rows: Any, most: int) -> tuple[int, list[dict[str, str]]]:
    """
    Compute the rows of a batch and return how many there are, and the first of them as text.

    :param most: Rows to show; a sample that cannot be taken is left out.
    """
    kept = rows.persist()
    try:
        count = int(kept.count())
        return count, _sample(kept, most) if count and most > 0 else []
    finally:
        kept.unpersist()


def _sample(kept: Any, most: int) -> list[dict[str, str]]:
    try:
        # By name of column alone, two columns of one name would be one.
        names = list(kept.columns)
        return [shown(zip(names, row, strict=True)) for row in kept.take(most)]
    except Exception as err:  # noqa: BLE001 - some types of Spark have no value in Python
        logger.warning("No sample could be taken: %s", err)
        return []


def shown(row: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Return the values of a row as a person may see them, the first columns of it."""
    found: dict[str, str] = {}
    for name, value in list(row)[:_MOST_COLUMNS]:
        found[name] = REDACTED if SECRET_KEY.search(name) else _text(value)
    return found


def _text(value: Any) -> str:
    if value is None:
        return ""
    whole = str(value.asDict(True)) if hasattr(value, "asDict") else str(value)
    # Cut twice: masking a text of megabytes would take its time.
    masked = mask_secrets(whole[: 20 * _MOST_TEXT])
    return masked if len(masked) <= _MOST_TEXT else f"{masked[: _MOST_TEXT - 1]}…"

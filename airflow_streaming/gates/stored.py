"""
Facts about the code in the state schema files of a checkpoint.

They keep the names of columns, which Spark's own check does not compare, and with event-time
columns the delay of their watermark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_streaming.checkpoints.read.schemas import ColumnFamily, Field, StateSchema
from airflow_streaming.model.plan.schema import Column, type_name
from airflow_streaming.model.spark.plan import WatermarkPlan

DEFAULT_STORE: Final = "default"
_DELAY: Final = "spark.watermarkDelayMs"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSchema:
    """
    Key and value of one state store, or of one column family in it.

    :param operator: Number of the operator, as in ``state/<number>``.
    :param store: Name of the store; of a column family that is not the only one,
        ``<store>/<family>``.
    :param path: The file, relative to the checkpoint.
    :param watermarks: Event-time columns among them, with the delay they had.
    """

    operator: int
    store: str
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    path: str
    watermarks: tuple[WatermarkPlan, ...] = ()


def store_schemas(
    schema: StateSchema, *, operator: int, path: str, store: str = DEFAULT_STORE
) -> list[StoreSchema]:
    """
    Return the columns of one schema file, one entry for each column family.

    :param path: The file, relative to the checkpoint.
    """
    alone = len(schema.families) == 1 and schema.version < 3
    return [
        StoreSchema(
            operator=operator,
            store=store if alone else f"{store}/{family.name}",
            key=_columns(family.key),
            value=_columns(family.value),
            path=path,
            watermarks=_watermarks(family),
        )
        for family in schema.families
    ]


def _columns(fields: tuple[Field, ...]) -> tuple[Column, ...]:
    return tuple(
        Column(name=field.name, type=type_name(field.type), nullable=field.nullable)
        for field in fields
    )


def _watermarks(family: ColumnFamily) -> tuple[WatermarkPlan, ...]:
    found = []
    for field in (*family.key, *family.value):
        delay = field.metadata.get(_DELAY)
        if isinstance(delay, int) and not isinstance(delay, bool):
            found.append(WatermarkPlan(column=field.name, delay_ms=delay))
    return tuple(found)

"""Run in Spark's process, which has the client of PostgreSQL or Iceberg's jar."""

from __future__ import annotations

from typing import Any


def table(spark: Any, url: str, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    import psycopg
    from psycopg.rows import dict_row

    with psycopg.connect(url, row_factory=dict_row) as connection:
        return [dict(row) for row in connection.execute(f"SELECT * FROM {name}")]  # noqa: S608


def iceberg_table(spark: Any, warehouse: str, name: str) -> Any:
    """Return the rows of an Iceberg table."""
    spark.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.lake.type", "hadoop")
    spark.conf.set("spark.sql.catalog.lake.warehouse", warehouse)
    return spark.table(name)

"""Run in Spark's process, whose Python has the client of PostgreSQL."""

from __future__ import annotations

from typing import Any


def table(spark: Any, url: str, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    import psycopg
    from psycopg.rows import dict_row

    with psycopg.connect(url, row_factory=dict_row) as connection:
        return [dict(row) for row in connection.execute(f"SELECT * FROM {name}")]  # noqa: S608

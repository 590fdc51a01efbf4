"""Which query a flow's checkpoint belongs to, and which of its versions counts."""

from __future__ import annotations

import pytest

from airflow_streaming.model.pipeline.flows import newest_versions, query_of

AT = "_checkpoints/spark_catalog/default"


@pytest.mark.parametrize(
    ("folder", "query"),
    [
        (f"{AT}/silver/silver/0", "spark_catalog.default.silver"),
        (f"{AT}/silver/late_rows/12", "spark_catalog.default.late_rows"),
        ("_checkpoints/silver/silver/0", "silver"),
        ("revenue", "revenue"),
        ("_checkpoints", "_checkpoints"),
        (f"{AT}/silver/silver/new", f"{AT}/silver/silver/new"),
        ("other/spark_catalog/default/silver/0", "other/spark_catalog/default/silver/0"),
        ("_checkpoints/silver/0", "_checkpoints/silver/0"),
    ],
)
def test_a_folder_names_the_query(folder: str, query: str) -> None:
    assert query_of(folder) == query


def test_the_highest_version_of_a_flow_counts() -> None:
    folders = [f"{AT}/silver/silver/{n}" for n in (9, 10, 2)]

    assert newest_versions([*folders, f"{AT}/gold/gold/0", "elsewhere/gold/1", f"{AT}/x/y/z"]) == {
        f"{AT}/gold/gold": f"{AT}/gold/gold/0",
        f"{AT}/silver/silver": f"{AT}/silver/silver/10",
    }

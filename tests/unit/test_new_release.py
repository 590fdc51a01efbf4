"""What the program for a new release of Spark reports of two of them."""

from __future__ import annotations

from dataclasses import replace

from airflow_streaming.model.spark.releases import FormatKind
from tests.system.new_release import ReleaseFacts, differences

OLD = ReleaseFacts(
    spark="4.3.0",
    keys=frozenset({"spark.sql.ansi.enabled", "spark.sql.gone"}),
    defaults={"spark.sql.ansi.enabled": "true"},
    pins={"spark.sql.shuffle.partitions": "1", "spark.sql.gone": "x"},
    formats=frozenset({(FormatKind.COMMIT_LOG, 1)}),
    plans={"except": "runs", "sort": "AnalysisException"},
)


def test_the_same_release_has_no_difference() -> None:
    assert list(differences(OLD, OLD)) == []


def test_each_difference_names_the_table_that_it_belongs_to() -> None:
    new = ReleaseFacts(
        spark="4.4.0",
        keys=frozenset({"spark.sql.ansi.enabled", "spark.sql.brandNew.key"}),
        defaults={"spark.sql.ansi.enabled": "false"},
        pins={"spark.sql.shuffle.partitions": "1", "spark.sql.brandNew.pin": "2"},
        formats=frozenset({(FormatKind.COMMIT_LOG, 1), (FormatKind.COMMIT_LOG, 9)}),
        plans={"except": "UNSUPPORTED", "sort": "AnalysisException"},
    )

    assert list(differences(OLD, new)) == [
        ("gates/settings.toml", "spark.sql.brandNew.key is new and has no class"),
        ("gates/settings.toml", "spark.sql.gone is gone"),
        ("gates/spark_defaults.toml", "spark.sql.ansi.enabled: true -> false"),
        ("model/spark/releases.py", "a plan pins spark.sql.brandNew.pin = 2, which no row has"),
        ("model/spark/releases.py", "a plan no longer pins spark.sql.gone"),
        ("model/spark/releases.py", "commit log 9 is written, which no row has"),
        ("gates/change", "plan 'except': runs -> UNSUPPORTED"),
    ]


def test_what_a_row_has_already_is_not_called_unknown() -> None:
    new = replace(OLD, formats=OLD.formats | {(FormatKind.COMMIT_LOG, 2)})

    assert list(differences(OLD, new)) == [("model/spark/releases.py", "commit log 2 is written")]

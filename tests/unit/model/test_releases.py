"""Spark releases: every answer that depends on a release comes from one table."""

from __future__ import annotations

import pytest

from airflow_streaming.model.spark.releases import (
    EVENT_LOG_HOLE,
    FORMATS,
    NEWEST,
    OLDEST,
    PINS,
    RELEASES,
    first_with,
    is_fixed,
    recorded_settings,
    release_at,
)
from tests.unit.edited import REPOSITORY, run_edited

ROW = """    SparkRelease(
        version=(4, 4),
        java=(21,),
        formats=(Format(kind=FormatKind.COMMIT_LOG, number=4, words="a commit log of version 4"),),
        pins=(
            Pin(key="spark.sql.new.default", old_value="false"),
            Pin(key="spark.sql.new.state", old_value="plain", blocks_older="state of the new kind"),
        ),
        recorded=("spark.sql.new.recorded",),
        opt_in={"spark.sql.new.format": "2"},
    ),
)
\"\"\"All releases"""
ANCHOR = ')\n"""All releases'
MODULE = "airflow_streaming.model.spark.releases"
PROGRAM = """
import tempfile
from pathlib import Path
from airflow_streaming.checkpoints.read.formats import spark_at_least, too_new
from airflow_streaming.cli.advice import _known
from airflow_streaming.exceptions import RuntimeNotFound
from airflow_streaming.gates.version.judge import can_come_back, judge_version
from airflow_streaming.gates.version.matrix import VersionQuestion
from airflow_streaming.launch.java import Java, check_java
from airflow_streaming.launch.runtime import resolve_runtime
from airflow_streaming.driver.plan.reading import read_conf
from tests.unit.gates.version.cases import a_checkpoint, a_matrix, an_operator, pinned_by
from tests.fakes import make_spark_home
from types import SimpleNamespace
from dataclasses import replace

def refused(call):
    try:
        call()
    except RuntimeNotFound as err:
        return str(err)

def rules(report):
    return sorted({one.rule for one in report.findings})

def runtime(version):
    with tempfile.TemporaryDirectory() as folder:
        java = Path(folder, "java")
        (java / "bin").mkdir(parents=True)
        (java / "bin" / "java").write_text("")
        (java / "bin" / "java").chmod(0o755)
        (java / "release").write_text('JAVA_VERSION="21.0.1"')
        home = make_spark_home(Path(folder, "spark"), version)
        table = {"it": {"path": str(home), "java_home": str(java), "python": sys.executable}}
        return resolve_runtime("it", table).spark_version

conf = SimpleNamespace(get=lambda key, default=None: "x")
session = SimpleNamespace(version="4.4.0", _jsparkSession=SimpleNamespace(conf=lambda: conf))
checkpoint = a_checkpoint(an_operator(), conf=pinned_by("4.3"), spark_at_least="4.3")
new = replace(
    checkpoint,
    commit_log_version=4,
    spark_at_least="4.4",
    conf={**checkpoint.conf, "spark.sql.new.state": "rich", "spark.sql.new.default": "true"},
)
up = VersionQuestion(from_version="4.3", to_version="4.4", conf={"spark.sql.new.format": "2"})
down = VersionQuestion(from_version="4.4", to_version="4.3")
print(json.dumps({
    "runs": runtime("4.4.0"),
    "refused": refused(lambda: runtime("4.5.0")),
    "java": refused(lambda: check_java("it", Java(home=None, version="17.0.1", source="PATH"), (4, 4))),
    "profile_of_4_4": _known("4.4"),
    "profile_of_4_5": _known("4.5"),
    "written_by_setting": spark_at_least({"spark.sql.new.default": "true"}),
    "written_by_log": spark_at_least(None, commit_log=4),
    "unreadable": too_new(new, "4.3.0"),
    "readable": too_new(new, "4.4.0"),
    "recorded": sorted(key for key in read_conf(session) if key.startswith("spark.sql.new")),
    "up": rules(judge_version(up, checkpoint, None, a_matrix())),
    "back": rules(can_come_back(up, checkpoint, None, a_matrix())),
    "down": rules(judge_version(down, new, None, a_matrix())),
}))
"""


def test_a_new_release_is_one_row() -> None:
    """Only the table was touched; runtimes, profiles, plans and gates all know the release."""
    told = run_edited({MODULE: {ANCHOR: ROW}}, PROGRAM)

    assert "Spark 3.5 to 4.4" in told.pop("refused")
    assert "Java 21 or newer" in told.pop("java")
    assert told == {
        "runs": "4.4.0",
        "profile_of_4_4": "4.4",
        "profile_of_4_5": "4.4",
        "written_by_setting": "4.4",
        "written_by_log": "4.4",
        "unreadable": [
            "a commit log of version 4 (Spark 4.4 or newer)",
            "state of the new kind (Spark 4.4 or newer)",
        ],
        "readable": [],
        "recorded": [
            "spark.sql.new.default",
            "spark.sql.new.recorded",
            "spark.sql.new.state",
        ],
        "up": ["version.no_way_back", "version.not_measured", "version.pins_kept"],
        "back": ["version.back.format", "version.back.not_measured"],
        "down": ["version.format", "version.not_measured", "version.pins_lost"],
    }


def test_the_rows_are_in_order_and_name_each_fact_once() -> None:
    versions = [release.version for release in RELEASES]
    pins = [pin.key for release in RELEASES for pin in release.pins]
    others = [key for release in RELEASES for key in (*release.recorded, *release.settings)]

    assert versions == sorted(set(versions))
    assert len({*pins, *others}) == len(pins) + len(others)
    assert len(FORMATS) == sum(len(release.formats) for release in RELEASES)
    assert all(first_with(key) is release for key, (_, release) in PINS.items())


def test_the_supported_releases_are_those_of_the_documentation() -> None:
    page = (REPOSITORY / "docs" / "runtimes.md").read_text()

    assert f"({OLDEST.name} to {NEWEST.name})" in page


@pytest.mark.parametrize(
    ("version", "row"),
    [((1, 6), "2.1"), ((3, 4), "3.2"), ((3, 5), "3.5"), ((4, 1), "4.1"), ((9, 0), "4.3")],
)
def test_a_version_goes_by_the_newest_row_before_it(version: tuple[int, int], row: str) -> None:
    assert release_at(version).name == row


@pytest.mark.parametrize(
    ("version", "patch", "is_free"),
    [
        ((3, 4), 9, False),
        ((3, 5), 6, False),
        ((3, 5), 7, True),
        ((3, 5), None, True),
        ((4, 0), 0, False),
        ((4, 0), 1, True),
        ((4, 1), 0, True),
    ],
)
def test_a_vulnerability_is_fixed_from_a_patch_release_on(
    version: tuple[int, int], patch: int | None, *, is_free: bool
) -> None:
    assert is_fixed(EVENT_LOG_HOLE, version, patch) is is_free


@pytest.mark.parametrize(
    ("version", "java", "runs"),
    [
        ((3, 5), 8, True),
        ((3, 5), 11, True),
        ((3, 5), 17, True),
        ((3, 5), 21, False),
        ((4, 0), 11, False),
        ((4, 0), 17, True),
        ((4, 3), 25, True),
    ],
)
def test_each_release_names_its_javas(version: tuple[int, int], java: int, *, runs: bool) -> None:
    assert release_at(version).runs_on_java(java) is runs


def test_a_plan_records_the_settings_that_its_release_knows() -> None:
    old, new = set(recorded_settings((3, 5))), set(recorded_settings((4, 3)))

    assert len(old) == 13
    assert len(new) == 22
    assert old < new

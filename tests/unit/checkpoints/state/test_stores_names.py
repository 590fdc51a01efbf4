"""Names of state files."""

from __future__ import annotations

import pytest

from airflow_streaming.checkpoints.state.stores import StateFile, StateForm, parse_name


@pytest.mark.parametrize(
    ("name", "version", "unique_id", "form"),
    [
        ("1.delta", 1, None, StateForm.DELTA),
        ("107.snapshot", 107, None, StateForm.SNAPSHOT),
        ("7.zip", 7, None, StateForm.ZIP),
        ("7.changelog", 7, None, StateForm.CHANGELOG),
        ("7_1f0c2d3e-aa.changelog", 7, "1f0c2d3e-aa", StateForm.CHANGELOG),
        ("12_1f0c2d3e-aa.zip", 12, "1f0c2d3e-aa", StateForm.ZIP),
    ],
)
def test_a_name_tells_version_id_and_form(
    name: str, version: int, unique_id: str | None, form: StateForm
) -> None:
    assert parse_name(name) == StateFile(version, unique_id, form, name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".1.delta.crc",
        "1.delta.crc",
        ".1.delta.7a.TID12.tmp",
        "1",
        "1.sst",
        "delta",
        "x.delta",
        "-1.delta",
        "1_.zip",
        "1_a_b.zip",
        "1_a/b.zip",
        "1.delta\n",
        "\u0661.delta",
        "9" * 19 + ".delta",
        "000012-1f0c.sst",
        "schema",
    ],
)
def test_other_files_have_no_version(name: str) -> None:
    assert parse_name(name) is None

"""The files of a declarative pipeline as one text, and the arguments of its updates."""

from __future__ import annotations

import json

import pytest

from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.model.pipeline.program import (
    PipelineProgram,
    UpdateRhythm,
    is_pipeline,
    rhythm_of,
    storage_uri,
)

FILES = {"pipeline.yml": "name: a\n", "flows/b.py": "x = 'ä'\n", "flows/a.sql": "SELECT 1"}


@pytest.mark.parametrize(
    ("application", "expected"),
    [("pipeline.yml", True), ("/a/P.YAML", True), ("job.py", False), ("yml", False), ("", False)],
)
def test_a_pipeline_is_known_by_the_ending_of_its_file(application: str, expected: bool) -> None:
    assert is_pipeline(application) is expected


def test_the_files_come_back_and_the_order_of_a_listing_changes_nothing() -> None:
    program = PipelineProgram(spec="pipeline.yml", files=FILES)
    other = PipelineProgram(spec="pipeline.yml", files=dict(reversed(FILES.items())))

    assert program.to_bytes() == other.to_bytes()
    assert PipelineProgram.from_bytes(program.to_bytes()) == program


@pytest.mark.parametrize(
    ("checkpoint", "storage"),
    [
        ("/data/ck", "file:///data/ck"),
        ("file:///data/ck", "file:///data/ck"),
        ("s3://bucket/ck", "s3a://bucket/ck"),
    ],
)
def test_spark_gets_the_storage_with_a_scheme(checkpoint: str, storage: str) -> None:
    assert storage_uri(checkpoint) == storage


@pytest.mark.parametrize(
    "path", ["../a.py", "/a.py", "a/../b.py", "a//b.py", "a\\b.py", "./a.py", "a\0.py", ""]
)
def test_a_path_that_leaves_the_folder_is_refused(path: str) -> None:
    data = PipelineProgram(spec="pipeline.yml", files={**FILES, path: ""}).to_bytes()

    with pytest.raises(RecordError, match="leaves the folder"):
        PipelineProgram.from_bytes(data)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"airflow_streaming_pipeline": 2, "spec": "pipeline.yml", "files": FILES},
        {"airflow_streaming_pipeline": 1, "spec": "other.yml", "files": FILES},
        {"airflow_streaming_pipeline": 1, "spec": ["pipeline.yml"], "files": FILES},
        {"airflow_streaming_pipeline": 1, "spec": "pipeline.yml", "files": ["pipeline.yml"]},
        {"airflow_streaming_pipeline": 1, "spec": "pipeline.yml", "files": {"pipeline.yml": 1}},
    ],
)
def test_another_text_is_no_pipeline(value: object) -> None:
    with pytest.raises(RecordError):
        PipelineProgram.from_bytes(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), UpdateRhythm()),
        (("--once",), UpdateRhythm(once=True)),
        (("--every", "30"), UpdateRhythm(every=30.0)),
        (("--every", "0.5s"), UpdateRhythm(every=0.5)),
    ],
)
def test_the_arguments_say_when_updates_run(
    arguments: tuple[str, ...], expected: UpdateRhythm
) -> None:
    assert rhythm_of(arguments) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ("--every",),
        ("--every", "soon"),
        ("--every", "-1"),
        ("--every", "1e3"),
        ("--once", "--every"),
        ("silver",),
    ],
)
def test_another_argument_is_refused_with_the_known_ones(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SpecError, match="Give '--every' with a number of seconds, or '--once'"):
        rhythm_of(arguments)


@pytest.mark.parametrize(("took", "rest"), [(4.0, 26.0), (30.0, 0.0), (31.0, 0.0)])
def test_an_update_begins_so_long_after_the_begin_of_the_last_one(took: float, rest: float) -> None:
    assert UpdateRhythm(every=30.0).rest_after(took) == rest

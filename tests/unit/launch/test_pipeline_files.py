"""The files of a pipeline are found as Spark finds them; a mistake is named before a driver starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.exceptions import ApplicationNotFound, SpecError
from airflow_streaming.launch.package import read_application
from airflow_streaming.launch.pipeline_files import check_runs_pipelines, check_storage
from airflow_streaming.model.pipeline.program import PipelineProgram

HEAD = "name: orders\nstorage: '{checkpoint}'\n"
WHOLE = HEAD + "libraries:\n- glob: {include: 'flows/**'}\n- glob: {include: one.sql}\n"


def make(folder: Path, text: str = WHOLE, **files: str) -> str:
    """Write a pipeline; two underscores in a name are a slash, the last one is a dot."""
    (folder / "pipeline.yml").write_text(text)
    for name, content in files.items():
        stem, _, suffix = name.rpartition("_")
        path = folder / f"{stem.replace('__', '/')}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return str(folder / "pipeline.yml")


def test_all_files_of_the_globs_are_kept_and_no_others(tmp_path: Path) -> None:
    spec = make(
        tmp_path,
        flows__bronze_py="a = 1",
        flows__deep__gold_sql="SELECT",
        one_sql="",
        two_sql="",
        beside_py="",
    )
    (tmp_path / "flows" / "__pycache__").mkdir()
    (tmp_path / "flows" / "__pycache__" / "bronze.pyc").touch()

    program = PipelineProgram.from_bytes(read_application(spec))

    assert program.spec == "pipeline.yml"
    assert set(program.files) == {
        "pipeline.yml",
        "flows/bronze.py",
        "flows/deep/gold.sql",
        "one.sql",
    }
    assert program.files["flows/bronze.py"] == "a = 1"


@pytest.mark.parametrize(
    ("text", "files", "words"),
    [
        pytest.param("a: [", {}, "not valid YAML", id="not YAML"),
        pytest.param("- a", {}, "not a mapping", id="a list"),
        pytest.param("storage: x", {}, "no text as name", id="no name"),
        pytest.param("name: a\nstorage: 1", {}, "no text as storage", id="storage is a number"),
        pytest.param(HEAD, {}, "name no file: they are empty", id="no libraries"),
        pytest.param(WHOLE, {}, "name no file: flows/", id="no files"),
        pytest.param(
            HEAD + "libraries: [{glob: {include: ../a.py}}]", {}, "names no files", id="above"
        ),
        pytest.param(
            HEAD + "libraries: [{glob: {include: 'a/*.py'}}]", {}, "names no files", id="a pattern"
        ),
        pytest.param(HEAD + "libraries: [{glob: a.py}]", {}, "names no files", id="a text as glob"),
        pytest.param(WHOLE, {"flows__a_txt": ""}, "neither Python nor SQL", id="a text file"),
        pytest.param(WHOLE, {"flows__a_py": "def"}, "not valid Python", id="a syntax error"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, files: dict[str, str], words: str) -> None:
    spec = make(tmp_path, text, **files)

    with pytest.raises(ApplicationNotFound, match=words):
        read_application(spec)


def test_a_pipeline_elsewhere_cannot_be_searched() -> None:
    with pytest.raises(ApplicationNotFound, match="Give a local path"):
        read_application("s3://bucket/pipeline.yml")


@pytest.mark.parametrize(
    ("storage", "checkpoint", "is_refused"),
    [
        ("'{checkpoint}'", None, False),
        ("s3a://b/storage", "s3://b/storage", False),
        ("file:///data/storage", "/data/storage", False),
        ("/data/storage", None, True),
        ("/data/storage", "/data/other", True),
    ],
)
def test_checkpoints_at_another_place_are_never_left_behind(
    tmp_path: Path, storage: str, checkpoint: str | None, is_refused: bool
) -> None:
    text = WHOLE.replace("'{checkpoint}'", storage)
    source = read_application(make(tmp_path, text, one_sql=""))
    if not is_refused:
        check_storage(source, checkpoint)
        return
    with pytest.raises(ApplicationNotFound, match=r"StreamSpec\(checkpoint='/data/storage'\)"):
        check_storage(source, checkpoint)


@pytest.mark.parametrize("version", ["3.5.9", "4.0.2"])
def test_an_older_spark_is_refused(version: str) -> None:
    with pytest.raises(SpecError, match=r"4\.1 or newer"):
        check_runs_pipelines(version)


@pytest.mark.parametrize("version", ["4.1.0", "4.3.0-SNAPSHOT", "5.0", "unknown"])
def test_a_newer_spark_runs_them(version: str) -> None:
    check_runs_pipelines(version)

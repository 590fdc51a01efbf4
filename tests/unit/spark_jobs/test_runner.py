"""The code of a program, whose names of variables a job gets."""

from __future__ import annotations

from pathlib import Path

from airflow_streaming.spark_jobs.runner import Program, code_of


def test_the_code_of_a_program_is_its_script_and_the_modules_beside_and_shipped(
    tmp_path: Path,
) -> None:
    for name in ("app/main.py", "app/rules.py", "app/more/__init__.py", "app/data.csv", "lib.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(name)
    program = Program(
        application=str(tmp_path / "app/main.py"),
        source=b"the script",
        py_files=(str(tmp_path / "lib.py"), "s3://bucket/far.py", str(tmp_path / "gone.py")),
    )

    found = sorted(code_of(program))

    names = ["app/main.py", "app/more/__init__.py", "app/rules.py", "lib.py"]
    assert found == sorted([b"the script", *(name.encode() for name in names)])


def test_a_script_elsewhere_has_no_modules_beside_it() -> None:
    assert [*code_of(Program(application="s3://bucket/main.py", source=b"the script"))] == [
        b"the script"
    ]
    assert [*code_of(None)] == []

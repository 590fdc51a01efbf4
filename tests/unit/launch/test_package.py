from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from airflow_streaming.exceptions import LaunchError
from airflow_streaming.launch.package import build_driver_package, file_digests


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Make a package of the same shape as ours."""
    folder = tmp_path / "site-packages" / "airflow_streaming"
    for name in (
        "__init__.py",
        "exceptions.py",
        "model/__init__.py",
        "model/names.py",
        "model/__pycache__/names.pyc",
        "driver/__init__.py",
        "driver/main.py",
        "home/__init__.py",
        "launch/__init__.py",
        "hooks/__init__.py",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    return folder


def test_the_zip_holds_what_the_driver_needs_and_nothing_else(source: Path, tmp_path: Path) -> None:
    package = build_driver_package(tmp_path / "cache", source)

    with zipfile.ZipFile(package.archive) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [
            "airflow_streaming/__init__.py",
            "airflow_streaming/exceptions.py",
            "airflow_streaming/model/__init__.py",
            "airflow_streaming/model/names.py",
            "airflow_streaming/driver/__init__.py",
            "airflow_streaming/driver/main.py",
        ]
        assert archive.read("airflow_streaming/model/names.py") == b"# model/names.py\n"
    assert package.main.read_text() == "# driver/main.py\n"


def test_the_package_is_private_and_alone_in_its_folder(source: Path, tmp_path: Path) -> None:
    package = build_driver_package(tmp_path / "cache", source)

    assert sorted(package.main.parent.iterdir()) == [package.archive, package.main]
    for path in package.main.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(package.main.parent.stat().st_mode) == 0o700


def test_equal_sources_make_equal_bytes(source: Path, tmp_path: Path) -> None:
    first = build_driver_package(tmp_path / "a", source)
    os.utime(source / "model" / "names.py", (0, 0))
    second = build_driver_package(tmp_path / "b", source)

    assert first.archive.read_bytes() == second.archive.read_bytes()
    assert first.archive.parent.name == second.archive.parent.name


def test_a_package_is_built_once(source: Path, tmp_path: Path) -> None:
    first = build_driver_package(tmp_path, source)
    inode = first.archive.stat().st_ino

    assert build_driver_package(tmp_path, source) == first
    assert first.archive.stat().st_ino == inode


@pytest.mark.parametrize("changed", ["model/names.py", "driver/main.py"])
def test_changed_sources_get_a_folder_of_their_own(
    source: Path, tmp_path: Path, changed: str
) -> None:
    first = build_driver_package(tmp_path, source)
    (source / changed).write_text("# new\n")

    second = build_driver_package(tmp_path, source)

    assert second.main.parent != first.main.parent
    assert first.archive.exists()


def test_a_damaged_package_is_built_again(source: Path, tmp_path: Path) -> None:
    package = build_driver_package(tmp_path, source)
    good = package.archive.read_bytes()
    package.archive.write_bytes(good[:100])

    assert build_driver_package(tmp_path, source).archive.read_bytes() == good
    assert sorted(p.name for p in package.main.parent.iterdir()) == [
        "airflow_streaming.zip",
        "main.py",
    ]


def test_a_package_that_cannot_get_its_name_is_told_and_leaves_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(LaunchError, match=r"airflow_streaming\.zip cannot be written: No space"):
        build_driver_package(tmp_path / "cache", source)

    assert [path for path in tmp_path.rglob("*") if ".zip." in path.name] == []


def test_a_cache_of_another_user_is_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = os.geteuid()
    build_driver_package(tmp_path, source)
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    with pytest.raises(
        LaunchError, match=rf"belongs to user {owner}, not to this one; code in it will not be run"
    ):
        build_driver_package(tmp_path, source)


def test_a_plain_python_can_import_the_records_from_the_zip(tmp_path: Path) -> None:
    package = build_driver_package(tmp_path)

    answer = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            "import airflow_streaming.model.status as found; print(found)",
        ],
        env={"PYTHONPATH": str(package.archive)},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert answer.returncode == 0, answer.stderr
    assert str(package.archive) in answer.stdout


def test_a_digest_is_of_the_content_and_only_of_files_of_this_host(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("x = 1")
    second.write_text("x = 1")

    same = file_digests([str(first), f"file://{second}"])
    second.write_text("x = 1000")
    other = file_digests([str(second), "s3://jobs/lib.zip", str(tmp_path / "none"), "lib.py"])

    assert len(set(same)) == 1
    assert other[0] not in same
    assert other[1:] == ("", "", "")

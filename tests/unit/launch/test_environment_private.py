from __future__ import annotations

import os
import resource
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_streaming.exceptions import AlreadyExists, LaunchError
from airflow_streaming.launch.environment import (
    open_private_log,
    private_folder,
    secret_files,
    sweep_secrets,
    write_private,
)
from airflow_streaming.launch.local import LocalLauncher
from tests.unit.home.make import make_launch
from tests.unit.launch.conftest import MakeEpoch


@pytest.fixture(autouse=True)
def generous_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = write_private(tmp_path / "a" / "b" / "spark.properties", "spark.password=ü\n")

    assert path.read_text(encoding="utf-8") == "spark.password=ü\n"
    assert [mode(p) for p in (path, path.parent, path.parent.parent)] == [0o600, 0o700, 0o700]


@pytest.mark.parametrize("kind", ["file", "link", "dangling_link"])
def test_a_private_file_is_never_written_over_anything(tmp_path: Path, kind: str) -> None:
    path, victim = tmp_path / "spark.properties", tmp_path / "victim"
    if kind != "dangling_link":
        victim.write_text("old")
    if kind == "file":
        victim.rename(path)
    else:
        path.symlink_to(victim)

    with pytest.raises(AlreadyExists, match=r"spark\.properties exists already"):
        write_private(path, "new")

    assert "new" not in (path.read_text() if path.exists() else "")
    assert victim.exists() == (kind == "link")


def test_a_log_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    path.write_text("old\n")

    descriptor = open_private_log(path)
    os.write(descriptor, b"new\n")
    os.close(descriptor)

    assert path.read_text() == "old\nnew\n"
    assert mode(path) == 0o600


def test_a_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)

    private_folder(tmp_path / "shared" / "mine")

    assert (mode(tmp_path / "shared"), mode(tmp_path / "shared" / "mine")) == (0o755, 0o700)


def test_a_folder_that_cannot_be_created_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(
        LaunchError, match=r"The folder .*/file/x cannot be created: .*\. Check that its parent"
    ):
        private_folder(tmp_path / "file" / "x")


def test_half_a_secret_does_not_stay_when_the_disk_is_full(tmp_path: Path) -> None:
    # Larger than any file may become in this process.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(LaunchError, match="cannot be written"):
            write_private(tmp_path / "a.conf", "s" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)

    assert list(tmp_path.iterdir()) == []


def test_a_launcher_cleans_up_where_logs_lie(tmp_path: Path, make_epoch: MakeEpoch) -> None:
    epoch = make_epoch(number=7)
    files = secret_files(tmp_path / "orders", epoch)
    others = secret_files(tmp_path / "orders", make_epoch(number=7))
    for file in (*files, *others):
        write_private(file, "secret")

    LocalLauncher(folder=tmp_path).clean_up(epoch)

    assert not any(file.exists() for file in files)
    assert all(file.exists() for file in others)


def test_nothing_is_deleted_in_a_folder_that_a_launch_record_names(
    tmp_path: Path, make_epoch: MakeEpoch
) -> None:
    epoch = make_epoch(number=7)
    files = secret_files(tmp_path / "of another user", epoch)
    for file in files:
        write_private(file, "not ours")
    launch = make_launch(epoch=7, token=epoch.token, log=str(files[0].with_name("000007.log")))

    for launcher in (LocalLauncher(folder=tmp_path / "drivers"), LocalLauncher()):
        launcher.clean_up(epoch, launch)

    assert all(file.exists() for file in files)


def test_only_files_with_secrets_are_swept(tmp_path: Path) -> None:
    gone = ["000001-0a1b2c3d.conf", "000002-0a1b2c3d.keytab", "000002-0a1b2c3d.kubeconfig"]
    kept = ["000001.log", "000003-0a1b2c3d.conf", "000001-0a1b2c3d.conf.old", "1-0a1b2c3d.conf"]
    for name in (*gone, *kept):
        (tmp_path / name).write_text("x")
    (tmp_path / "000001-00000000.conf").symlink_to(tmp_path / "000001.log")
    (tmp_path / "000001-11111111.conf").mkdir()

    sweep_secrets(tmp_path, up_to=2)

    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*kept, "000001-00000000.conf", "000001-11111111.conf"}

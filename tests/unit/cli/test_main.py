from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_streaming.cli import look
from airflow_streaming.cli.main import main
from airflow_streaming.core.observation import ProcessState
from airflow_streaming.home.home import StreamHome
from tests.unit.cli.host import Run
from tests.unit.home.make import (
    make_epoch,
    make_launch,
)


class TestUse:
    @pytest.mark.parametrize(
        "arguments",
        [
            pytest.param([], id="no command"),
            pytest.param(["dance"], id="unknown command"),
            pytest.param(["status"], id="no stream"),
            pytest.param(["stop", "orders", "--wait", "-1"], id="a negative wait"),
            pytest.param(["stop", "orders", "--wait", "soon"], id="no number"),
            pytest.param(["declare-dead", "orders", "--epoch", "1"], id="no reason"),
            pytest.param(["declare-dead", "orders", "--reason", "x"], id="no epoch"),
        ],
    )
    def test_wrong_use_exits_with_2(self, run: Run, arguments: list[str]) -> None:
        with pytest.raises(SystemExit) as raised:
            run(*arguments)

        assert raised.value.code == 2

    def test_a_home_is_needed(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv("AIRFLOW_STREAMING_HOME", raising=False)

        with pytest.raises(SystemExit):
            main(["list"])

        assert "Give --home, or set AIRFLOW_STREAMING_HOME." in capsys.readouterr().err

    def test_the_home_may_come_from_the_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("AIRFLOW_STREAMING_HOME", str(tmp_path))

        assert main(["list"]) == 0
        assert str(tmp_path) in capsys.readouterr().out

    def test_the_home_may_stand_behind_the_command(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("AIRFLOW_STREAMING_HOME", "/another")

        assert main(["list", "--home", str(tmp_path)]) == 0
        assert str(tmp_path) in capsys.readouterr().out

    @pytest.mark.parametrize("command", ["status", "start", "stop", "close-circuit"])
    def test_an_unknown_stream_is_named_with_the_known_ones(
        self, run: Run, stream: StreamHome, command: str
    ) -> None:
        code, _, err = run(command, "oders")

        assert code == 1
        assert "There is no stream 'oders' in " in err
        assert err.endswith("Its streams are: orders.\n")

    def test_a_bad_stream_name_is_wrong_use(self, run: Run) -> None:
        code, _, err = run("status", "../orders")

        assert code == 2
        assert err.startswith("airflow-streaming: Stream name '../orders' cannot be used")

    def test_a_bad_home_is_wrong_use(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["--home", "not/absolute", "list"]) == 2
        assert "is relative" in capsys.readouterr().err

    def test_a_home_that_cannot_be_read_is_a_problem(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").write_text("not a folder")

        assert main(["--home", str(tmp_path / "file" / "home"), "stop", "orders"]) == 1
        assert "There is no stream 'orders'" in capsys.readouterr().err

    def test_a_home_that_was_misspelt_is_not_made(self, tmp_path: Path) -> None:
        assert main(["--home", str(tmp_path / "hoem"), "stop", "orders"]) == 1
        assert not (tmp_path / "hoem").exists()


def test_without_a_launcher_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow_streaming.launch.local", None)

    process = look.local_probe()(make_epoch(), make_launch())

    assert process.state is ProcessState.UNSEEN
    assert "processes cannot be looked at from here" in process.detail


def test_the_command_starts_without_airflow_spark_or_fsspec(tmp_path: Path) -> None:
    code = (
        "import sys; from airflow_streaming.cli.main import main; code = main(sys.argv[1:]); "
        "print(code, sorted({'airflow', 'pyspark', 'fsspec'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, "--home", str(tmp_path), "list"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == "0 []"

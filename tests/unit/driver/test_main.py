from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_streaming.driver import main


def test_an_old_python_gets_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = SimpleNamespace(version_info=(3, 9, 1), stderr=sys.stderr, argv=[])
    monkeypatch.setattr(main, "sys", old)
    assert main.main() == 2
    told = capsys.readouterr().err
    assert told.startswith("airflow_streaming needs Python 3.11 or newer")
    assert "this is Python 3.9." in told


def test_the_drivers_own_modules_do_not_shadow_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    here, before = str(Path(main.__file__).parent), sys.path[:]
    monkeypatch.setattr(sys, "path", [here, *before])
    main._make_importable()
    assert sys.path == before


def test_a_working_folder_of_a_cluster_stays_importable_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = sys.path[:]
    monkeypatch.setattr(main, "__file__", str(tmp_path / "main.py"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *before])
    main._make_importable()
    assert sys.path == [*before, str(tmp_path)]

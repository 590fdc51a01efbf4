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
    here = str(Path(main.__file__).parent)
    monkeypatch.setattr(sys, "path", [here, *sys.path])
    main._make_importable()
    assert here not in sys.path

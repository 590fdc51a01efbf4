"""The sites of several versions stand beside each other, and the newest release is the one that opens."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.documents import REPOSITORY


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = REPOSITORY / "scripts" / "site_versions.py"
    spec = importlib.util.spec_from_file_location("site_versions", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("folders", "order", "latest"),
    [
        (["0.2.0"], ["0.2.0"], "0.2.0"),
        (["0.9.0", "0.10.0", "assets"], ["0.10.0", "0.9.0"], "0.10.0"),
        (["0.2.0", "0.3.0rc1"], ["0.3.0rc1", "0.2.0"], "0.2.0"),
        (["0.2.0rc1", "0.2.0rc2"], ["0.2.0rc2", "0.2.0rc1"], "0.2.0rc2"),
        ([], [], None),
    ],
)
def test_menu_has_the_newest_first_and_one_latest(script, folders, order, latest) -> None:
    rows = script.listed(folders)

    assert [row["version"] for row in rows] == order
    assert [row["version"] for row in rows if "latest" in row["aliases"]] == (
        [latest] if latest else []
    )


def test_a_second_version_joins_the_first(script, tmp_path: Path) -> None:
    for version in ("0.2.0", "0.3.0"):
        built = tmp_path / "site" / version
        built.mkdir(parents=True)
        script.on_post_build(config=SimpleNamespace(site_dir=str(built)))

    rows = json.loads((tmp_path / "site/versions.json").read_text())
    assert [row["version"] for row in rows] == ["0.3.0", "0.2.0"]
    assert "0.3.0/index.html" in (tmp_path / "site/index.html").read_text()


def test_a_site_without_a_version_is_left_alone(script, tmp_path: Path) -> None:
    built = tmp_path / "site"
    built.mkdir()

    script.on_post_build(config=SimpleNamespace(site_dir=str(built)))

    assert list(tmp_path.rglob("*.json")) == []

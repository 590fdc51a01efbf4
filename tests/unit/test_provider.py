"""What Airflow is told about this provider is true."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from importlib.metadata import distribution, entry_points, requires
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from packaging.requirements import Requirement

import airflow_streaming
from airflow_streaming.advice.installation.installation_checks import OLDEST_AIRFLOW
from airflow_streaming.get_provider_info import get_provider_info
from airflow_streaming.version_compat import OLDEST, airflow_version, check_airflow

INFO = get_provider_info()


def test_it_fits_airflows_schema() -> None:
    schema = json.loads((files("airflow") / "provider_info.schema.json").read_text())

    jsonschema.validate(INFO, schema)


def test_its_package_name_is_the_name_of_the_distribution() -> None:
    # Anything else breaks the discovery of every provider, not only of this one.
    assert INFO["package-name"] == distribution("airflow-streaming").metadata["Name"]


def test_its_version_is_the_version_of_the_distribution() -> None:
    assert airflow_streaming.__version__ == distribution("airflow-streaming").version


@pytest.mark.parametrize("room", ["operators", "sensors", "hooks", "triggers"])
def test_it_lists_every_module_that_exists(room: str) -> None:
    package = importlib.import_module(f"airflow_streaming.{room}")
    modules = [m.name for m in pkgutil.iter_modules(package.__path__) if not m.ispkg]
    found = {f"{package.__name__}.{name}" for name in modules}

    assert {name for entry in INFO[room] for name in entry["python-modules"]} == found


def classes() -> list[str]:
    told: list[Any] = [entry["hook-class-name"] for entry in INFO["connection-types"]]
    return [*told, *INFO["extra-links"]]


@pytest.mark.parametrize("path", classes())
def test_every_class_it_names_exists(path: str) -> None:
    module, name = path.rsplit(".", 1)

    assert isinstance(getattr(importlib.import_module(module), name), type)


def test_its_connection_type_is_the_one_its_hook_knows() -> None:
    (told,) = INFO["connection-types"]
    module, name = told["hook-class-name"].rsplit(".", 1)
    hook = getattr(importlib.import_module(module), name)

    assert (hook.conn_type, hook.hook_name) == (told["connection-type"], told["hook-name"])


@pytest.mark.parametrize("group", ["apache_airflow_provider", "airflow.plugins"])
def test_airflow_finds_it(group: str) -> None:
    found = [e for e in entry_points(group=group) if e.value.startswith("airflow_streaming.")]

    assert len(found) == 1
    assert callable(found[0].load())


def test_it_accepts_this_airflow() -> None:
    check_airflow()
    assert airflow_version() >= OLDEST == OLDEST_AIRFLOW


@pytest.mark.parametrize("room", ["operators.stream", "sensors.stream", "plugins.streaming"])
@pytest.mark.parametrize("version", ["2.11.2", "3.0.6", "3.1.8", "3.2.2"])
def test_an_older_airflow_is_refused_with_a_sentence_at_the_import(
    tmp_path: Path, room: str, version: str
) -> None:
    old = tmp_path / "airflow"
    old.mkdir()
    (old / "__init__.py").write_text(f"__version__ = {version!r}\n")
    path = f"{tmp_path}:{Path(airflow_streaming.__file__).parents[1]}"

    done = subprocess.run(
        [sys.executable, "-c", f"import airflow_streaming.{room}"],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert f"airflow-streaming needs Airflow 3.3 or later, found {version}." in done.stderr


def test_the_package_index_refuses_an_older_airflow() -> None:
    (needs,) = [
        one for one in requires("airflow-streaming") or () if one.startswith("apache-airflow>")
    ]
    found = Requirement(needs).specifier
    assert not any(map(found.contains, ("2.11.2", "3.0.6", "3.1.8", "3.2.2")))
    assert found.contains("3.3.0")


@pytest.mark.parametrize("name", airflow_streaming.__all__)
def test_what_the_package_exports_is_there(name: str) -> None:
    assert getattr(airflow_streaming, name) is not None


def test_the_package_itself_loads_none_of_what_it_exports() -> None:
    code = (
        "import sys, airflow_streaming; "
        "print([name for name in sys.modules if name.startswith('airflow_streaming.')])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_an_unknown_name_of_the_package_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Stream'"):
        airflow_streaming.Stream  # noqa: B018

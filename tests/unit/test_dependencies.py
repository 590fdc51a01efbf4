"""What is installed for development is named once by version, and once more by hash."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import airflow_streaming
from tests.unit.parsed import nodes, parsed

ROOT = Path(__file__).parents[2]
BUILD_TOOLS = {"hatchling", "pip", "setuptools", "tomlkit", "trove-classifiers", "uv"}


def versions(name: str) -> dict[str, str]:
    found = re.findall(r"^([a-z0-9._-]+)==([^\s;\\]+)", (ROOT / name).read_text(), re.MULTILINE)
    return dict(found)


def test_hashes_are_of_the_versions_that_were_tried_together() -> None:
    named, hashed = versions("constraints.txt"), versions("constraints-hashes.txt")

    assert {name: hashed.get(name) for name in named} == named
    assert set(hashed) - set(named) <= BUILD_TOOLS


def test_every_version_has_a_hash() -> None:
    text = (ROOT / "constraints-hashes.txt").read_text()
    blocks = re.split(r"^(?=[a-z0-9._-]+==)", text, flags=re.MULTILINE)[1:]

    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []


def test_an_environment_gets_a_newer_pip_than_its_python_has(tmp_path) -> None:
    calls = tmp_path / "calls"
    python = tmp_path / "python"
    python.write_text(
        "#!/usr/bin/env bash\n"
        f'echo "$*" >> {calls}\n'
        '[ "$1 $2" != "-m venv" ] || { mkdir -p "$3/bin"; ln -s "$0" "$3/bin/python"; }\n'
    )
    python.chmod(0o755)
    run = [ROOT / "scripts/install.sh", "new", "anything"]
    environment = {**os.environ, "PYTHON": str(python)}

    for _ in range(2):
        subprocess.run(run, cwd=tmp_path, env=environment, check=True)

    upgrades = [line for line in calls.read_text().splitlines() if "--upgrade" in line]
    assert len(upgrades) == 1
    assert upgrades[0].endswith(f"--requirement {ROOT}/scripts/seed.txt")
    seeds = versions("scripts/seed.txt")
    assert seeds.keys() == {"pip", "setuptools"}
    assert {name: versions("constraints-hashes.txt")[name] for name in seeds} == seeds


def test_the_build_tools_are_pinned() -> None:
    hashed = versions("constraints-hashes.txt")

    assert f'"hatchling=={hashed["hatchling"]}"' in (ROOT / "pyproject.toml").read_text()
    assert f"uv=={hashed['uv']} " in (ROOT / "scripts/install.sh").read_text()


@pytest.mark.parametrize(
    ("answer", "status"), [("Avail\n2999999", 1), ("Avail\n", 0), ("Avail\n3000000", 0)]
)
def test_a_disk_too_small_for_an_environment_ends_the_installation_before_it_begins(
    tmp_path, answer, status
):
    tools = tmp_path / "bin"
    tools.mkdir()
    makes_environments = (
        '[ "$1" = -c ] || { mkdir -p "$3/bin"; ln -s "$(type -P true)" "$3/bin/python"; }'
    )
    for name, does in {"df": f"printf '{answer}\\n'", "python": makes_environments}.items():
        (tools / name).write_text(f"#!/usr/bin/env bash\n{does}\n")
        (tools / name).chmod(0o755)
    done = subprocess.run(
        [ROOT / "scripts/install.sh", "new", "anything"],
        check=False,
        cwd=tmp_path,
        env={
            "PATH": f"{tools}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "PYTHON": str(tools / "python"),
        },
    )

    assert done.returncode == status
    assert (tmp_path / "new").exists() == (status == 0)


NAMES = {"yaml": "pyyaml", "spnego": "pyspnego", "airflow": "apache-airflow"}
"""The distributions of imports that have another name."""
BY_AIRFLOW = {"fastapi", "pydantic", "sqlalchemy", "starlette"}
"""What only the API server imports, which cannot run without them."""
BY_RUNTIMES = {"pyspark", "prometheus-client", "py4j"}
"""What drivers import, from their own environment."""
BY_EXTRAS = {"lz4", "openlineage"}
"""Packages that the distribution of an extra brings, or whose extra has another name."""


def imported() -> Iterator[str]:
    """Yield the distribution of every import, wherever in a module it stands."""
    for file in (ROOT / "airflow_streaming").rglob("*.py"):
        for node in nodes(parsed(file.read_text())):
            if isinstance(node, ast.Import):
                modules = [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                modules = [node.module]
            else:
                continue
            yield from map(distribution_of, modules)


def distribution_of(module: str) -> str:
    first, *more = module.split(".")
    if (first, *more[:1]) == ("airflow", "providers"):
        package = {"apache": "apache-spark", "cncf": "cncf-kubernetes", "common": "common-compat"}
        return f"apache-airflow-providers-{package.get(more[1], more[1])}"
    return NAMES.get(first, first.replace("_", "-"))


def test_every_package_that_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [value for key, value in project["optional-dependencies"].items() if key != "dev"]
    declared = {
        re.split(r"[<>=\[]", requirement)[0]
        for requirements in (project["dependencies"], *extras)
        for requirement in requirements
    }
    own = {*sys.stdlib_module_names, "airflow-streaming"} | {
        name.replace("_", "-") for name in sys.stdlib_module_names
    }

    assert set(imported()) - own - BY_AIRFLOW - BY_RUNTIMES - BY_EXTRAS <= declared


def test_every_package_that_is_needed_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=\[]", requirement)[0] for requirement in project["dependencies"]}

    assert needed - set(imported()) == set()


def test_the_conda_recipe_needs_what_the_wheel_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = yaml.safe_load((ROOT / "packaging/conda/recipe.yaml").read_text())

    assert recipe["requirements"]["run"] == [
        f"python {project['requires-python']}",
        *project["dependencies"],
    ]
    assert recipe["context"]["version"] == airflow_streaming.__version__
    scripts = [f"{name} = {target}" for name, target in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts

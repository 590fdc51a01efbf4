"""What a pipeline's driver writes before its first update."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from airflow_streaming.driver.exit_status import ScriptState, ShutdownState
from airflow_streaming.driver.launch_context import LaunchContext
from airflow_streaming.driver.pipeline.updates import PipelineUpdates, load_cli, write_pipeline
from airflow_streaming.exceptions import DriverRefusal
from airflow_streaming.model.pipeline.program import PipelineProgram
from tests.unit.driver.fakes import make_deployment, make_epoch

yaml = pytest.importorskip("yaml")
SPEC = """
name: orders
storage: "{checkpoint}"
configuration: {orders.events: "{output}/events", other: "{left}"}
libraries: [{glob: {include: "flows/**"}}]
"""


def test_the_storage_is_the_deployments_and_placeholders_are_filled(tmp_path: Path) -> None:
    files = {"pipeline.yml": SPEC, "flows/a.py": "x = '{output}'"}
    program = PipelineProgram(spec="pipeline.yml", files=files)

    path = write_pipeline(
        program, tmp_path, lambda text: text.replace("{output}", "/out"), "/storage"
    )

    assert path == tmp_path / "pipeline.yml"
    assert yaml.safe_load(path.read_text()) == {
        "name": "orders",
        "storage": "/storage",
        "configuration": {"orders.events": "/out/events", "other": "{left}"},
        "libraries": [{"glob": {"include": "flows/**"}}],
    }
    assert (tmp_path / "flows" / "a.py").read_text() == "x = '{output}'"


def test_a_driver_that_is_to_wait_at_the_barrier_runs_no_update() -> None:
    """Another driver is still the stream's then."""
    ending, started = ShutdownState(), list[str]()
    deployment = make_deployment(b"", application="/dags/pipeline.yml")
    updates = PipelineUpdates(
        LaunchContext(home="/home", epoch=make_epoch(), deployment=deployment, source=b""),
        ending=ending,
        check_may_write=lambda: started.append("fence"),
        wait_to_start=lambda: started.append("pause"),
        watch_flows=lambda: pytest.fail("No update may begin."),
        waits=True,
    )

    assert updates.run().state is ScriptState.FAILED
    assert "cannot wait before its first update" in str(ending.refusal)
    assert started == []


@pytest.mark.parametrize(
    ("files", "words"),
    [
        pytest.param({}, "Spark 3.5.9 has no declarative pipelines", id="an old Spark"),
        pytest.param(
            {"cli.py": "import no_grpc_here"}, "Install into its Python: grpcio", id="no package"
        ),
        pytest.param(
            {"cli.py": "raise ImportError('pandas >= 2.2 must be installed')"},
            r"pandas >= 2.2 must be installed. Install into its Python",
            id="an old package",
        ),
    ],
)
def test_a_runtime_without_pipelines_is_refused_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], words: str
) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("__version__ = '3.5.9'\n")
    for name, text in files.items():
        (tmp_path / "pyspark" / "pipelines").mkdir()
        (tmp_path / "pyspark" / "pipelines" / "__init__.py").touch()
        (tmp_path / "pyspark" / "pipelines" / name).write_text(text)
    for name in [one for one in sys.modules if one.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(DriverRefusal, match=words):
        load_cli()
    for name in [one for one in sys.modules if one.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)

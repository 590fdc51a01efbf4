"""Where a gate looks: at a stream of ours by its spec, or at somebody else's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators._gate.common import check_fail_on
from airflow_streaming.operators._spec import SpecTask

if TYPE_CHECKING:
    from airflow_streaming.checkpoint.drill_program import Program
    from airflow_streaming.launch.runtime import Runtime


class GateTask(SpecTask):
    """
    A gate, before a stream of ours or before a checkpoint that another application writes.

    :param stream: The stream, as its keep-alive dag has it or shall have it.
        (templated, field by field)
    :param checkpoint: Instead of a stream, the URI of a checkpoint, or of the folder above those of
        one application's queries. (templated)
    :param checkpoint_conn_id: Connection with credentials for it. (templated)
    :param fail_on: The best decision from which the task fails: ``not_allowed``, ``unknown`` or
        ``allowed_with_consequence``; ``None`` never fails it. (templated)
    """

    template_fields: Sequence[str] = (
        *SpecTask.template_fields,
        "checkpoint",
        "checkpoint_conn_id",
        "fail_on",
    )
    ui_color = "#f6e7a9"

    def __init__(
        self,
        *,
        stream: StreamSpec | None = None,
        checkpoint: str | None = None,
        checkpoint_conn_id: str | None = None,
        fail_on: str | None = "not_allowed",
        **kwargs: Any,
    ) -> None:
        super().__init__(stream=stream, **kwargs)  # type: ignore[arg-type]  # or a checkpoint
        self.checkpoint = checkpoint
        self.checkpoint_conn_id = checkpoint_conn_id
        self.fail_on = fail_on
        if (stream is None) is (checkpoint is None):
            raise SpecError(
                f"Task {self.task_id!r}: give stream for a stream of ours, or checkpoint for one "
                "that another application writes."
            )
        if fail_on is None or "{{" not in fail_on:
            check_fail_on(fail_on)

    @property
    def subject(self) -> str:
        """Return what is asked about, for sentences."""
        return (
            f"checkpoint {self.checkpoint}" if self.checkpoint else f"stream {self.stream.name!r}"
        )

    def storage_options(self) -> Mapping[str, Any] | None:
        """Return how the checkpoints are reached; ``None`` for the environment's credentials."""
        from airflow_streaming.hooks._access import access_options  # not at dag parse

        if self.checkpoint:
            return access_options(self.checkpoint, self.checkpoint_conn_id)
        return access_options(self.stream.home, self.home_conn_id)

    def checkpoints(self) -> dict[str, str]:
        """
        Return the URI of every checkpoint by its folder, whose name is empty for a single one.

        :raises CheckpointError: there is none.
        """
        from airflow_streaming.checkpoint.sources import sources_of  # not at dag parse
        from airflow_streaming.hooks.checkpoint import CheckpointHook

        folders = CheckpointHook(str(self.checkpoint), self.checkpoint_conn_id).get_conn()
        return {source.folder: source.folders.uri for source in sources_of(folders)}

    def runtime_of(self, name: str) -> Runtime:
        """Return a Spark installation by its name in ``[streaming] runtimes``."""
        from airflow_streaming.launch.runtime import resolve_runtime  # not at dag parse
        from airflow_streaming.settings import read_settings

        return resolve_runtime(name, read_settings().runtimes)

    def script(
        self, application: str, arguments: Sequence[str], conf: Mapping[str, Any] | None
    ) -> Program:
        """Read a script that belongs to no stream of ours; a relative path starts at the dag."""
        from airflow_streaming.checkpoint.drill_program import Program  # not at dag parse
        from airflow_streaming.launch.application import locate_application, read_application

        location = locate_application(application, self.dag_folders())
        return Program(
            application=location,
            source=read_application(location),
            arguments=tuple(map(str, arguments)),
            conf=dict(conf or {}),
        )

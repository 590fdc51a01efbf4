"""What the tasks that are given a whole stream have in common: its spec, rendered, and its hook."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.hooks._final import spec_errors_are_final
from airflow_streaming.operators._acting import who

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

    from airflow_streaming.hooks.stream import SparkStreamHook


class SpecTask(BaseOperator):
    """
    A task on one stream, given as its dag describes it.

    :param stream: The stream. (templated, field by field)
    :param conn_id: Spark connection of the apache-spark provider. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    """

    template_fields: Sequence[str] = ("stream", "conn_id", "home_conn_id")

    def __init__(
        self,
        *,
        stream: StreamSpec,
        conn_id: str = "spark_default",
        home_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.conn_id = conn_id
        self.home_conn_id = home_conn_id

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: jinja2.Environment | None = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        if not isinstance(content, StreamSpec):
            return super().render_template(content, context, jinja_env, seen_oids)
        rendered = {
            name: super(SpecTask, self).render_template(
                getattr(content, name), context, jinja_env, seen_oids
            )
            for name in content.template_fields
        }
        return dataclasses.replace(content, **rendered)

    def open_hook(self, context: Context, spec: StreamSpec | None = None) -> SparkStreamHook:
        """
        Return the hook of the stream.

        :param spec: The stream with what a form has changed; the task's own when not given.
        :raises AirflowFailException: the spec cannot run.
        """
        from airflow_streaming.hooks.stream import SparkStreamHook  # not at dag parse

        with spec_errors_are_final():
            return SparkStreamHook(
                spec or self.stream,
                conn_id=self.conn_id,
                home_conn_id=self.home_conn_id,
                by=who(context),
                folders=self.dag_folders(),
            )

    def dag_folders(self) -> tuple[Path, ...]:
        """Return where a relative application path may start."""
        return (Path(self.dag.folder),) if self.has_dag() else ()

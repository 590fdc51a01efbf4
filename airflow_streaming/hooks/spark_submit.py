"""
Connection → command: how a Spark connection of Airflow becomes a ``spark-submit`` command.

The Spark provider's own hook parses the connection and writes the options, so that connections made
for ``SparkSubmitOperator`` mean the same here. Three things differ: a missing or broken connection
is an error instead of a silent ``yarn``; the binary always comes from the runtime, because runtimes
are defined once for the whole deployment; and neither the command nor the log ever holds a value of
the stream's configuration.

Importing this module imports the Spark provider; import it inside functions.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.common.compat.sdk import AirflowNotFoundException, Connection

from airflow_streaming.exceptions import SpecError
from airflow_streaming.hooks.clusters import deploy_mode_of
from airflow_streaming.launch.environment import write_private
from airflow_streaming.launch.runtime import Runtime

_MASTER: Final = re.compile(r"local(-cluster)?(\[[^\s\[\]]+\])?|yarn|spark://[^\s/]+|k8s://[^\s]+")
_TEXT_FIELDS: Final = ("queue", "deploy-mode", "namespace", "principal")
_PASSWORD: Final = re.compile(r"[^/]*://[^/@:]*:[^/@]+@")


class StreamSubmitHook(SparkSubmitHook):
    """
    A Spark connection, for a driver that runs on this host or is submitted from it.

    :param conn_id: The Spark connection.
    :param runtime: The Spark installation whose ``spark-submit`` is used.
    :param properties_file: The stream's private properties file; a keytab from the connection is
        written beside it.
    :param deploy_mode: Where the driver runs.
    :param options: Further arguments of ``SparkSubmitHook``.
    :raises SpecError: the connection is missing, broken, or asks for what cannot be run.
    """

    def __init__(
        self,
        *,
        conn_id: str,
        runtime: Runtime,
        properties_file: Path,
        deploy_mode: str = "client",
        **options: Any,
    ) -> None:
        self._keytab_path = properties_file.with_suffix(".keytab")
        self._allowed_mode = deploy_mode
        try:
            super().__init__(
                conn_id=conn_id,
                spark_binary=str(runtime.spark_submit),
                properties_file=str(properties_file),
                # Explicit, so that no spark-defaults.conf can set cluster.
                deploy_mode=deploy_mode,
                **options,
            )
        except NameError as err:
            # The parent looks for the Kubernetes client as soon as the master has k8s in it.
            raise SpecError(
                f"Spark connection {conn_id!r} needs Airflow's Kubernetes provider. Install "
                "apache-airflow-providers-cncf-kubernetes."
            ) from err
        except ValueError as err:
            if isinstance(err, SpecError):
                raise
            raise SpecError(f"Spark connection {conn_id!r} cannot be used: {err}") from err

    def command(self, main: Path, arguments: Sequence[str]) -> tuple[str, ...]:
        """Return the whole command; unlike the parent's it is not logged."""
        options = self._build_spark_common_args()
        return (*self._get_spark_binary_path(), *options, str(main), *arguments)

    def _resolve_connection(self) -> dict[str, Any]:
        connection = self._load_connection()
        _check_extra(self._conn_id, connection, self._allowed_mode)
        # The parent asks again, and takes yarn when that fails; this instance answers for itself.
        self.get_connection = lambda conn_id: connection  # type: ignore[method-assign]  # see above
        resolved = super()._resolve_connection()
        if not _MASTER.fullmatch(resolved["master"]):
            raise SpecError(
                f"Spark connection {self._conn_id!r} gives the master {resolved['master']!r}. Use "
                "local[N], yarn, spark://HOST:PORT or k8s://URL as its host."
            )
        return resolved

    def _load_connection(self) -> Connection:
        try:
            return self.get_connection(self._conn_id)
        except AirflowNotFoundException as err:
            raise SpecError(
                f"Spark connection {self._conn_id!r} does not exist. Create it with: airflow "
                f"connections add {self._conn_id} --conn-type spark --conn-host 'local[*]' "
                "(or yarn, spark://HOST:PORT, k8s://URL), or name another one as conn_id."
            ) from err

    def _create_keytab_path_from_base64_keytab(
        self, base64_keytab: str, principal: str | None
    ) -> str:
        # The parent writes it to the shared temporary folder, readable for everybody.
        return str(write_private(self._keytab_path, base64.b64decode(base64_keytab)))


def build_submit_command(
    *,
    conn_id: str,
    runtime: Runtime,
    stream: str,
    properties_file: Path,
    main: Path,
    lists: Mapping[str, Iterable[str]],
    arguments: Sequence[str] = (),
    deploy_mode: str = "client",
) -> tuple[str, ...]:
    """
    Return the command that starts a stream's driver, on this host or in cluster mode.

    :param conn_id: The Spark connection.
    :param stream: The stream's name; the application's name in Spark.
    :param properties_file: The private file with the stream's configuration.
    :param main: The script to submit: the driver's wrapper.
    :param lists: The files that go with it, by their names in ``SHIPPED``.
    :param arguments: Arguments of the wrapper.
    :raises SpecError: the connection or a file name cannot be used.
    """
    hook = StreamSubmitHook(
        conn_id=conn_id,
        runtime=runtime,
        properties_file=properties_file,
        deploy_mode=deploy_mode,
        name=stream,
        **{what: _listed(what, entries) for what, entries in lists.items()},
    )
    return hook.command(main, arguments)


def _check_extra(conn_id: str, connection: Connection, allowed: str) -> None:
    extra = connection.extra_dejson
    for field in _TEXT_FIELDS:
        value = extra.get(field)
        if value is not None and not (isinstance(value, str) and value.isprintable()):
            raise SpecError(
                f"Spark connection {conn_id!r} has an extra {field!r} that is not a string."
            )
    mode = deploy_mode_of(conn_id, extra)
    if allowed == "client" and mode != "client":
        raise SpecError(
            f"Spark connection {conn_id!r} asks for deploy mode {mode!r}, and the launcher is 'local', "
            "which runs the driver on the worker's host. Set deploy-mode to client, or leave the "
            "stream's launcher out."
        )
    try:
        base64.b64decode("".join((extra.get("keytab") or "").split()), validate=True)
    except (AttributeError, ValueError):
        # Not chained: the cause could quote the keytab.
        raise SpecError(
            f"Spark connection {conn_id!r} has a keytab that is not base64. Put the output of "
            "'base64 FILE' there."
        ) from None


def _listed(what: str, entries: Iterable[str]) -> str | None:
    listed = list(entries)
    for entry in listed:
        if not entry or "," in entry or not entry.isprintable():
            raise SpecError(
                f"{what} has the entry {entry!r}; Spark separates entries with commas. Give every "
                "one as an item of its own, without commas or control characters."
            )
        if _PASSWORD.match(entry):
            raise SpecError(
                f"An entry of {what} carries a password, which every user on the host could read. Give a "
                "plain URI and put credentials into conf or the environment."
            )
    return ",".join(listed) or None

"""Pointers in a Spark catalog: a view, or the location of an external table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow_streaming.changes.pointers.pointer import Pointer
from airflow_streaming.changes.pointers.port import OF_A_LANE, back_to, filled, mark_of
from airflow_streaming.exceptions import (
    LaunchError,
    PointerFailed,
    PointerRefused,
    RuntimeNotFound,
    SpecError,
)
from airflow_streaming.model.arguments.fields import (
    Positive,
    check_values,
    named_fields,
    refuse_blank,
)
from airflow_streaming.model.arguments.placeholders import (
    LITERALLY,
    OF_STATEMENTS,
    check_placeholders,
    placeholders_in,
)
from airflow_streaming.model.jobs.pointing import CatalogAnswer, CatalogOrder, Entry, Mark
from airflow_streaming.model.products.live_output import LiveOutput
from airflow_streaming.model.uris import to_hadoop

PREFIX: Final = "airflow-streaming-pointer-"
"""Prefix of its scratch folders, by which leftovers of killed tasks are found and removed."""
POINTER_VARIABLE: Final = "AIRFLOW_STREAMING_POINTER"
"""Set to 1 in a Spark that moves a pointer."""
_PART: Final = "[A-Za-z_][A-Za-z0-9_]*"
# The name of a catalog is a key of the configuration and may have dashes; Hive's names may not.
_NAME: Final = re.compile(rf"{_PART}(\.{_PART})?|[A-Za-z_][A-Za-z0-9_-]*\.{_PART}\.{_PART}")
_CATALOG: Final = "spark.sql.catalogImplementation"


@dataclass(frozen=True, slots=True, kw_only=True)
class _InCatalog:
    runtime: str
    conf: Mapping[str, Any] = field(default_factory=dict, repr=False)
    runtimes: Mapping[str, Any] = field(default_factory=dict)
    timeout: Positive = timedelta(minutes=2)

    @property
    def is_atomic(self) -> bool:
        """Tell that a look-up of the name finds the old output or the new one."""
        return True

    def _show(self, entry: Entry, name: str, wanted: Mark, bodies: Mapping[str, str]) -> None:
        from airflow_streaming.spark_jobs.scratch import scratch_folder

        what = f"The {entry} {name}"
        with scratch_folder(None, PREFIX) as own:
            order = CatalogOrder(
                entry=entry,
                name=".".join(f"`{part}`" for part in name.split(".")),
                wanted=wanted,
                bodies=bodies,
                answer=str(own.folder / "answer.json"),
                seconds=self.timeout.total_seconds(),
            )
            answer = self._ask(order, own.folder, what)
        if answer.refused:
            raise PointerRefused(answer.refused)
        if answer.failed:
            raise PointerFailed(f"{what} could not be moved: {answer.failed}")

    def _ask(self, order: CatalogOrder, scratch: Path, what: str) -> CatalogAnswer:
        # Not at dag parse.
        from airflow_streaming.launch.runtime import resolve_runtime
        from airflow_streaming.spark_jobs.runner import Job, NoAnswer, Task, ask

        is_path = self.runtime not in self.runtimes and Path(self.runtime).is_absolute()
        known = {self.runtime: self.runtime} if is_path else self.runtimes
        # Without a metastore a view would be gone with the session that made it.
        conf = {_CATALOG: "hive", **self.conf}
        task = Task(job=Job.POINT, order=order, variable=POINTER_VARIABLE, cores=1)
        try:
            runtime = resolve_runtime(self.runtime, known)
            return ask(*(task, order, CatalogAnswer), runtime=runtime, conf=conf, scratch=scratch)
        except NoAnswer as err:
            raise PointerFailed(f"{what} was not moved, as far as is known. {err}") from err
        except (LaunchError, RuntimeNotFound) as err:
            raise PointerFailed(f"{what} could not be moved: {err}") from err


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class SparkView(_InCatalog):
    """
    Leads consumers by a view: ``SELECT * FROM lake.orders`` reads the live lane's output.

    The move is atomic for every query that looks the view up: its definition is exchanged by one
    change in the metastore (``ALTER VIEW``), and the view is never missing. A query that was
    analyzed before reads on in the old output to its end; streaming queries keep it until they are
    started again. The view then has the columns of the new output.

    The view is ours by its properties (``airflow_streaming.stream`` and so on). A manually created
    view is overwritten only if a user sets the first of them: ``ALTER VIEW lake.orders SET
    TBLPROPERTIES ('airflow_streaming.stream' = 'orders')``. Metastores have no conditional change:
    when one task moves and one undoes in the same second, one may miss the other. A task that finds
    another state after its own change follows it and logs it.

    It takes a Spark of its own, some ten seconds, which must reach the same metastore and files as
    the consumers' Spark.

    :param view: ``name``, ``schema.name`` or ``catalog.schema.name``.
    :param runtime: Name of the Spark installation, or its absolute path.
    :param conf: Of Spark: where the metastore is, credentials of the store.
    :param select: The view's query; ``{output}`` is the live lane's output, and ``{stream}``,
        ``{lane}``, ``{color}`` and ``{deployment}`` are its values.
    :param runtimes: As in ``[streaming] runtimes``; a task fills them in.
    :param name: By default the view's.
    """

    view: str
    select: str = "SELECT * FROM parquet.`{output}`"
    name: str = ""

    def __post_init__(self) -> None:
        check_values(self)
        refuse_blank(type(self).__name__, runtime=self.runtime)
        check_entry(self.view, Entry.VIEW)
        check_placeholders(
            f"select of the view {self.view}", (self.select,), OF_STATEMENTS, literally=LITERALLY
        )
        if not placeholders_in(self.select, OF_A_LANE):
            raise SpecError(
                f"The view {self.view} would show the same whichever lane is live: give a "
                f"query with one of {', '.join(f'{{{name}}}' for name in OF_A_LANE)} in it."
            )
        if not self.name:
            object.__setattr__(self, "name", self.view)

    def move(self, to: LiveOutput, before: LiveOutput) -> None:
        """Have the view show what becomes live; see ``Pointer``."""
        self._show(Entry.VIEW, self.view, mark_of(to), self._queries(to, before))

    def undo(self, to: LiveOutput, before: LiveOutput) -> None:
        self._show(Entry.VIEW, self.view, back_to(before, to), self._queries(to, before))

    def _queries(self, *lives: LiveOutput) -> dict[str, str]:
        return {
            live.output: filled(self.select, live, output=to_hadoop(live.output)) for live in lives
        }


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTable(_InCatalog):
    """
    Leads consumers by the location of an external table without partitions.

    The move is atomic for every query that looks the table up, as the location is exchanged by one
    change in the metastore. A session that has read the table before may have its list of files
    cached and continues with the old ones until ``REFRESH TABLE``. The table keeps its columns. If
    either matters, use a view.

    The table must be there, with the property ``airflow_streaming.stream`` set to the stream, which
    makes it ours to move. The note on two tasks at ``SparkView`` applies here too.

    :param table: ``name``, ``schema.name`` or ``catalog.schema.name``.
    :param runtime: Name of the Spark installation, or its absolute path.
    :param conf: Of Spark: where the metastore is, credentials of the store.
    :param runtimes: As in ``[streaming] runtimes``; a task fills them in.
    :param name: By default the table's.
    """

    table: str
    name: str = ""

    def __post_init__(self) -> None:
        check_values(self)
        refuse_blank(type(self).__name__, runtime=self.runtime)
        check_entry(self.table, Entry.TABLE)
        if not self.name:
            object.__setattr__(self, "name", self.table)

    def move(self, to: LiveOutput, before: LiveOutput) -> None:
        """Give the table the output of what becomes live; see ``Pointer``."""
        self._show(Entry.TABLE, self.table, mark_of(to), _locations(to, before))

    def undo(self, to: LiveOutput, before: LiveOutput) -> None:
        self._show(Entry.TABLE, self.table, back_to(before, to), _locations(to, before))


def with_runtimes(pointers: Iterable[Pointer], runtimes: Mapping[str, Any]) -> dict[str, Pointer]:
    """Return pointers by name; Spark's get the runtimes of the Airflow deployment."""
    return {
        pointer.name: replace(pointer, runtimes=runtimes)
        if isinstance(pointer, SparkView | SparkTable) and not pointer.runtimes
        else pointer
        for pointer in pointers
    }


def _locations(*lives: LiveOutput) -> dict[str, str]:
    return {live.output: to_hadoop(live.output) for live in lives}


def check_entry(name: str, entry: Entry) -> None:
    """
    Check the name of a view or a table.

    :raises SpecError: The name is invalid.
    """
    if not _NAME.fullmatch(name):
        raise SpecError(
            f"{name!r} is not the name of a {entry}. Write name, schema.name or "
            "catalog.schema.name, in letters, digits and '_'; the catalog may have '-' too."
        )

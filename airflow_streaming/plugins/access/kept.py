"""
Which stream a task keeps, by what users cannot write: its rendered fields and its serialized dag.

Rendered fields are recorded by the task itself when it starts, through Airflow's execution API; the
serialized dag comes from the dag processor. XCom can be written by users and is not read.
"""

from __future__ import annotations

import hashlib
import posixpath
import threading
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from airflow.models.dag import DagModel
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import func, select

from airflow_streaming.exceptions import NotTheOwner, StreamRemoved
from airflow_streaming.home.home import removed_text
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.model.records.owner import Actor
from airflow_streaming.model.storage import Store

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from airflow_streaming.home.home import StreamHome

_REST: Final = 20
"""The list of streams rests this many times as long as its query took."""
_LONGEST_REST: Final = 60.0
"""Seconds until a new stream appears in any case."""
_recent: Final[deque[Store]] = deque(maxlen=16)
"""Stores that pages have used last; opening one of an object store anew takes half a second."""
SENSORS: Final = (
    "StreamHealthSensor",
    "StreamProgressSensor",
    "StreamWatermarkSensor",
    "StreamBacklogSensor",
    "StreamCaughtUpSensor",
    "SafeToExpireSensor",
)
"""Operators that may name a checkpoint."""
_MOST = 2048
"""Maximum characters of a home or a name; longer values were cut off or are invalid."""

KEEPS: Final = ("SparkStreamOperator",)
"""Operators that keep a stream."""

_known_written: Final[dict[tuple[str, str, str], str | None]] = {}
"""Values in dag versions, by version, task and field; a version never changes."""
_MOST_KNOWN: Final = 200_000
"""Four fields of each task that keeps a stream, of a few versions of 10,000 dags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """
    The stream of a keep-alive task, as far as Airflow knows it without a read of its home.

    :param written: The home in the dag file, unless it is a template there.
    :param dag: The dag of the task, for the stream's owner.
    :param conn_id: Spark connection, rendered; empty if not known. ``conn_written`` is the dag
        file's value.
    :param backup_store: Its backup store, rendered; ``backup_written`` is the dag file's value.
    :param is_external: This provider did not launch the stream; ``home`` is its checkpoint then,
        and ``home_conn_id`` the connection for that.
    :param endpoint: Web page of an external stream's driver.
    :param is_gone: No file has the DAG any more.
    """

    home: str
    home_conn_id: str | None
    stream: str
    written: str | None
    dag: Actor
    conn_id: str = ""
    conn_written: str | None = None
    backup_store: str | None = None
    backup_written: str | None = None
    run_id: str = ""
    task_id: str = ""
    map_index: int = -1
    is_external: bool = False
    endpoint: str | None = None
    is_gone: bool = False

    @property
    def place(self) -> str:
        """The unit of access: a home, with the connection that reaches it; two teams may have one of a name."""
        if self.home_conn_id is None:
            return self.home
        team = f" of team {self.dag.team}" if self.dag.team else ""
        return f"{self.home} ({self.home_conn_id}{team})"


def kept_by(dag_id: str, run_id: str, task_id: str, map_index: int) -> Kept | None:
    """Return the stream of a task; ``None`` before its start, or if it keeps no stream."""
    with create_session() as session:
        instance = session.scalar(
            select(TaskInstance).where(
                TaskInstance.dag_id == dag_id,
                TaskInstance.run_id == run_id,
                TaskInstance.task_id == task_id,
                TaskInstance.map_index == map_index,
            )
        )
        if instance is None:
            return None
        rendered = RenderedTaskInstanceFields.get_templated_fields(instance, session=session) or {}
        return _kept(instance, rendered, session.get(DagModel, instance.dag_id), session)


def _kept(
    instance: TaskInstance, rendered: dict[str, Any], dag: DagModel | None, session: Session
) -> Kept | None:
    home, stream = _text(rendered.get("stream_home")), _text(rendered.get("stream_name"))
    if home is None or stream is None:
        return None
    return Kept(
        home=home,
        home_conn_id=_text(rendered.get("home_conn_id")),
        stream=stream,
        written=_written(instance, "stream_home", session),
        dag=_actor(instance.dag_id, dag, session),
        is_gone=_is_gone(dag),
        conn_id=_text(rendered.get("conn_id")) or "",
        conn_written=_written(instance, "conn_id", session),
        backup_store=_text(rendered.get("backup_store")),
        backup_written=_written(instance, "backup_store", session),
        run_id=instance.run_id,
        task_id=instance.task_id,
        map_index=instance.map_index,
    )


def _external(
    instance: TaskInstance, rendered: dict[str, Any], dag: DagModel | None, session: Session
) -> Kept | None:
    checkpoint = _text(rendered.get("checkpoint"))
    if checkpoint is None:
        return None
    return Kept(
        home=checkpoint,
        home_conn_id=_text(rendered.get("conn_id")),
        stream=external_name(checkpoint),
        written=_written(instance, "checkpoint", session),
        dag=_actor(instance.dag_id, dag, session),
        run_id=instance.run_id,
        task_id=instance.task_id,
        map_index=instance.map_index,
        is_external=True,
        endpoint=_text(rendered.get("endpoint")),
    )


def all_kept(session: Session) -> list[Kept]:
    """
    Return the streams of all keep-alive tasks, by newest start, and of present dags' sensors.

    A stream outlives the file of its dag, so streams of removed dags are among them.
    """
    newest = (
        select(
            TaskInstance.dag_id,
            TaskInstance.task_id,
            TaskInstance.map_index,
            func.max(TaskInstance.start_date).label("started"),
        )
        .join(DagModel, DagModel.dag_id == TaskInstance.dag_id)
        .where(
            TaskInstance.operator.in_(KEEPS)
            | (TaskInstance.operator.in_(SENSORS) & DagModel.is_stale.is_(False))
        )
        .group_by(TaskInstance.dag_id, TaskInstance.task_id, TaskInstance.map_index)
        .subquery()
    )
    fields = RenderedTaskInstanceFields
    # A single query, instead of a query per stream.
    found_dags = session.scalars(
        select(DagModel).where(DagModel.dag_id.in_(select(newest.c.dag_id)))
    )
    dags = {dag.dag_id: dag for dag in found_dags}
    rows = session.execute(
        select(TaskInstance, fields.rendered_fields)
        .join(
            newest,
            (TaskInstance.dag_id == newest.c.dag_id)
            & (TaskInstance.task_id == newest.c.task_id)
            & (TaskInstance.map_index == newest.c.map_index)
            & (TaskInstance.start_date == newest.c.started),
        )
        .join(
            fields,
            (fields.dag_id == TaskInstance.dag_id)
            & (fields.task_id == TaskInstance.task_id)
            & (fields.run_id == TaskInstance.run_id)
            & (fields.map_index == TaskInstance.map_index),
        )
    )
    found = (
        (_kept if instance.operator in KEEPS else _external)(
            instance, rendered or {}, dags.get(instance.dag_id), session
        )
        for instance, rendered in rows
    )
    by_stream = {(one.dag.dag_id, one.stream): one for one in found if one is not None}
    return [by_stream[key] for key in sorted(by_stream)]


class Keepers:
    """
    The streams of all keep-alive tasks, read from Airflow's database every few seconds at most.

    :param every: Seconds for which an answer is good enough; longer where the answer takes long, so
        that it takes at most a twentieth of a core.
    """

    def __init__(self, every: float = 10.0) -> None:
        self._every = every
        self._lock = threading.Lock()
        self._found: list[Kept] = []
        self._next = float("-inf")

    def of(self, dag_ids: Collection[str]) -> list[Kept]:
        """Return the streams of some dags' tasks."""
        return [one for one in self.all() if one.dag.dag_id in dag_ids]

    def all(self) -> list[Kept]:
        """Return what every task keeps."""
        with self._lock:
            begun = time.monotonic()
            if begun >= self._next:
                with create_session() as session:
                    self._found = all_kept(session)
                now = time.monotonic()
                self._next = now + min(max(self._every, _REST * (now - begun)), _LONGEST_REST)
            return self._found


def dags_of(stream: str, dag_ids: Collection[str]) -> dict[str, str]:
    """Return the dags that change a stream, by their purpose, limited to some ids."""
    wanted = {
        f"{stream}_{act}": act for act in ("upgrade", "blue_green", "rescale", "backup", "restore")
    }
    with create_session() as session:
        rows = session.scalars(
            select(DagModel.dag_id).where(
                DagModel.dag_id.in_([*wanted]), DagModel.is_stale.is_(False)
            )
        )
        return {wanted[dag_id]: dag_id for dag_id in rows if dag_id in dag_ids}


def _written(instance: TaskInstance, field: str, session: Session) -> str | None:
    key = (str(instance.dag_version_id), instance.task_id, field)
    if key not in _known_written:
        if len(_known_written) > _MOST_KNOWN:
            _known_written.clear()
        _known_written[key] = _read_written(instance, field, session)
    return _known_written[key]


def _read_written(instance: TaskInstance, field: str, session: Session) -> str | None:
    stored = session.scalar(
        select(SerializedDagModel).where(
            SerializedDagModel.dag_version_id == instance.dag_version_id
        )
    )
    if stored is None or not stored.dag.has_task(instance.task_id):
        return None
    # A mapped task has no such field before it is expanded.
    written = _text(getattr(stored.dag.get_task(instance.task_id), field, None))
    is_template = written is not None and ("{{" in written or "{%" in written)
    return None if is_template else written


def _is_gone(row: DagModel | None) -> bool:
    return row is None or bool(row.is_stale)


def keeps_still(kept: Kept) -> bool:
    """
    Tell whether the newest version of a stream's dag has a task that keeps the stream, or may keep it.

    A task whose stream is named by a template or a mapping may keep every stream.
    """
    with create_session() as session:
        if _is_gone(session.get(DagModel, kept.dag.dag_id)):
            return False
        stored = SerializedDagModel.get(kept.dag.dag_id, session=session)
        return stored is None or any(_may_keep(task, kept.stream) for task in stored.dag.tasks)


def _may_keep(task: Any, stream: str) -> bool:
    if task.task_type not in KEEPS:
        return False
    written = _text(getattr(task, "stream_name", None))
    return written is None or "{" in written or written == stream


def _actor(dag_id: str, row: DagModel | None, session: Session) -> Actor:
    return Actor(
        dag_id=dag_id,
        bundle=(row.bundle_name or "") if row else "",
        file=(row.relative_fileloc or "") if row else "",
        team=DagModel.get_team_name(dag_id, session=session) or "",
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _MOST else None


def workers_of(dag_id: str) -> set[str]:
    """
    Return the hosts that have run tasks of a dag, with and without their domains.

    Airflow records them itself, which no user and no stream can.
    """
    with create_session() as session:
        found = session.scalars(
            select(TaskInstance.hostname).where(TaskInstance.dag_id == dag_id).distinct()
        )
        names = {name.lower() for name in found if name}
    return names | {name.partition(".")[0] for name in names if not _is_address(name)}


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def check_owner(stream: StreamHome, kept: Kept) -> None:
    """
    Do nothing for a stream that belongs to a dag.

    :raises NotTheOwner: it belongs to another dag, or to none yet.
    :raises StreamRemoved: it was removed.
    """
    if stream.owner() is None and (removal := stream.removal()) is not None:
        raise StreamRemoved(removed_text(kept.stream, removal))
    if stream.owner() is None and not stream.epoch_numbers():
        raise NotTheOwner(
            f"Home {kept.home} has no record of stream {kept.stream!r} yet; its first launch writes "
            "them. If it has run before, the home is not mounted, or was moved."
        )
    if stream.owner() is None:
        raise NotTheOwner(
            f"Stream {kept.stream!r} has no recorded owner yet. Its keep-alive task records it when "
            "it next acts; clear that task to have it done now. The stream keeps running."
        )
    stream.check_owner(kept.dag)


def open_stream(kept: Kept) -> StreamHome:
    """
    Return the records of the live lane of a stream, for a dag to which it belongs.

    :raises HomeNotAllowed: it would be opened with a connection of another type.
    :raises NotTheOwner: the stream belongs to another dag, or to none yet.
    :raises StreamingError: it cannot be read now.
    """
    hook = StreamHomeHook(
        kept.home, kept.home_conn_id, looks_only=True, own_type_only=True, team=kept.dag.team
    )
    home = hook.get_conn()
    _recent.append(home.store)
    stream = home.stream(live_lane(home, kept.stream))
    check_owner(stream, kept)
    return stream


def external_name(checkpoint: str) -> str:
    """Return what addresses call an external stream; no stream of ours may have such a name."""
    digest = hashlib.sha256(checkpoint.encode()).hexdigest()[:8]
    return f"{external_title(checkpoint)}@{digest}"


def external_title(checkpoint: str) -> str:
    """Return what people call it: the last part of its checkpoint."""
    return posixpath.basename(checkpoint.rstrip("/"))[:80] or "checkpoint"

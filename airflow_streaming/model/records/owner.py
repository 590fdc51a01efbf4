"""
Which dag owns a stream, and the permissions of other dags.

The record guards against two dags that mean different streams by one name, and tells pages the
owner of a stream. It does not protect against users who can write the home.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final

from airflow_streaming.model.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """
    The dag on whose behalf something is done or shown.

    :param bundle: The dag bundle it comes from; empty where unknown.
    :param file: Its file in that bundle; empty where unknown.
    :param team: Its team, where Airflow has them.
    """

    dag_id: str
    bundle: str = ""
    file: str = ""
    team: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner(Record):
    """
    The dag that owns a stream; the newest number counts.

    :param shared_with: Ids of the dags that may change the stream beside those in the owner's file.
    :param by: Who recorded it: a task, or the user who handed the stream over.
    """

    KIND: ClassVar[str] = "owner"

    number: int
    stream: str
    dag_id: str
    by: str
    reason: str
    at: datetime
    bundle: str = ""
    file: str = ""
    team: str = ""
    shared_with: tuple[str, ...] = ()


class DagRole(StrEnum):
    """The role of a dag for a stream."""

    OWNER = "owner"
    SHARED = "shared"
    """It is in the owner's file, or the owner names it."""
    FOREIGN = "foreign"
    OTHER_TEAM = "other team"
    """Its team and the owner's are known and differ; names and files do not count then."""


class DagAct(StrEnum):
    """Kind of act of a dag on a stream."""

    KEEP = "keep"
    """Deploy, launch and restart it."""
    CHANGE = "change"
    """Upgrade, cut over, restore or show it."""
    OPERATE = "operate"
    """Start, stop, back up or prune it; its code and its place stay."""


MAY: Final[Mapping[DagAct, frozenset[DagRole]]] = {
    DagAct.KEEP: frozenset({DagRole.OWNER}),
    DagAct.CHANGE: frozenset({DagRole.OWNER, DagRole.SHARED}),
    DagAct.OPERATE: frozenset({DagRole.OWNER, DagRole.SHARED, DagRole.FOREIGN}),
}
"""The roles that may do an act; docs/teams.md prints the table."""


def standing(owner: Owner, actor: Actor) -> DagRole:
    """Return the role of a dag for a stream."""
    if owner.team and actor.team and owner.team != actor.team:
        return DagRole.OTHER_TEAM
    if owner.dag_id == actor.dag_id:
        return DagRole.OWNER
    same_file = bool(owner.file) and (owner.bundle, owner.file) == (actor.bundle, actor.file)
    is_named = actor.dag_id in owner.shared_with
    return DagRole.SHARED if same_file or is_named else DagRole.FOREIGN


def claimed(
    newest: Owner | None,
    actor: Actor,
    shared_with: Sequence[str],
    *,
    stream: str,
    number: int,
    by: str,
    now: datetime,
) -> Owner | None:
    """
    Return the record to write when a dag keeps a stream alive; ``None`` without a change.

    The first dag becomes the owner. The owner's own record follows it when its file, bundle or team
    has changed, or when it names other dags. Another dag changes nothing.
    """
    if newest is not None and standing(newest, actor) is not DagRole.OWNER:
        return None
    mine = Owner(
        number=number,
        stream=stream,
        dag_id=actor.dag_id,
        by=by,
        reason="The stream was deployed." if newest is None else "The owner's dag has changed.",
        at=now,
        bundle=actor.bundle or (newest.bundle if newest else ""),
        file=actor.file or (newest.file if newest else ""),
        team=actor.team or (newest.team if newest else ""),
        shared_with=tuple(shared_with),
    )
    return None if newest is not None and _facts(newest) == _facts(mine) else mine


def _facts(owner: Owner) -> tuple[object, ...]:
    return owner.bundle, owner.file, owner.team, owner.shared_with


def refusal(owner: Owner, actor: Actor, home: str, act: DagAct) -> str | None:
    """
    Return why a dag may not act on a stream, in words; ``None`` when it may.

    :param home: URI of the stream's home.
    """
    role = standing(owner, actor)
    if role in MAY[act]:
        return None
    is_named = act is DagAct.CHANGE and role is DagRole.FOREIGN
    share = f" or name {actor.dag_id!r} in the owner's changed_by," if is_named else ""
    team = f" --team {actor.team}" if role is DagRole.OTHER_TEAM else ""
    return (
        f"Stream {owner.stream!r} in {home} belongs to dag {owner.dag_id!r}{_of_team(owner.team)} "
        f"(recorded {owner.at:%Y-%m-%d %H:%M} UTC by {owner.by}); dag {actor.dag_id!r}"
        f"{_of_team(actor.team)} may not {act} it. Give this dag's stream another name or home,"
        f"{share} or have the owner hand it over: airflow-streaming hand-over {owner.stream} "
        f"--to {actor.dag_id}{team} --reason TEXT."
    )


def _of_team(team: str) -> str:
    return f" of team {team!r}" if team else ""

"""
The page's data: the fleet, a stream, its figures, timeline, changes, backups and reports.

Every route requires a permission: a list has the dags that the user may see, and a stream is found
by its dag, whose permission is checked. ``GET`` never changes state. An action needs the permission
to edit the dag, a header that no other site can send, and an address of this server as its origin.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.api_fastapi.logging.decorators import action_logging
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, Header, HTTPException, Path, Query, Request, Response
from pydantic import BaseModel, Field

from airflow_streaming.exceptions import (
    CheckpointError,
    CutoverRefused,
    DeclarationRefused,
    HomeNotAllowed,
    LookRefused,
    NotTheOwner,
    SameCopyRefused,
    StreamingError,
    StreamRemoved,
    UpgradeRefused,
)
from airflow_streaming.model.history import downsample
from airflow_streaming.model.spark.failures import mask_secrets
from airflow_streaming.model.texts import one_line
from airflow_streaming.plugins.access.kept import Keepers, Kept, dags_of
from airflow_streaming.plugins.access.looks import Looks
from airflow_streaming.plugins.acts import act_on
from airflow_streaming.plugins.admin.installation import (
    administers,
    installation_view,
    server_facts,
)
from airflow_streaming.plugins.admin.removal import (
    RemovalBody,
    Removals,
    may_remove,
    remove_from_page,
)
from airflow_streaming.plugins.board import REMOVED, Boards, Lane
from airflow_streaming.plugins.changes import changes_view
from airflow_streaming.plugins.fleet_page import READING, Column, FleetView, page_of
from airflow_streaming.plugins.lists import deployments_view, lanes_of, timeline_view
from airflow_streaming.plugins.reports import all_reports, one_report
from airflow_streaming.plugins.views import now_utc
from airflow_streaming.supervision.stream_status import Level

POINTS: Final = 240
"""Buckets of a chart; more are not seen on a screen of this width."""
LONGEST: Final = 9 * 86_400
SHARED: Final = 2.0
"""Seconds for which pages that show the same streams share one list of them."""
MANY: Final = 1_000
"""Rows that are shared even while some of them are still to be read, which takes many looks."""
MOST_SHARED: Final = 16
Part = Literal["main", "state", "observed", "all"]
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
_REFUSED: Final = (UpgradeRefused, CutoverRefused, DeclarationRefused, SameCopyRefused)


def add_api(app: FastAPI) -> None:
    """Add the routes of the data and of the actions."""
    app.state.keepers = Keepers()
    app.state.boards = Boards(app.state.looks)
    app.state.answers = {}
    app.state.removals = Removals()
    sees = [Depends(requires_access_dag("GET", DagAccessEntity.TASK_INSTANCE))]
    reads = [Depends(requires_access_dag("GET", DagAccessEntity.XCOM))]
    edits = [
        Depends(from_this_page),
        Depends(requires_access_dag("PUT", DagAccessEntity.TASK_INSTANCE)),
        Depends(action_logging()),
    ]
    stream = "/api/streams/{dag_id}/{stream}"
    app.get("/api/fleet")(fleet)  # the list is filtered by what its user may see
    app.get("/api/installation")(installation)  # for users who administer Airflow
    app.get(stream, dependencies=sees)(whole)
    app.get("/api/external/{dag_id}/{stream}", dependencies=sees)(external)
    app.get(f"{stream}/series", dependencies=sees)(series)
    app.get(f"{stream}/timeline", dependencies=sees)(timeline)
    app.get(f"{stream}/changes", dependencies=sees)(changes)
    app.get(f"{stream}/deployments", dependencies=sees)(deployments)
    app.get(f"{stream}/backups", dependencies=sees)(backups)
    app.get(f"{stream}/reports", dependencies=sees)(reports)
    app.get("/api/reports/{dag_id}/{run_id}/{task_id}", dependencies=reads)(report)
    app.post(f"{stream}/acts/{{act}}", dependencies=edits)(act)
    app.post(f"{stream}/removal", dependencies=edits)(remove)


def from_this_page(
    request: Request, x_streaming_act: Annotated[str | None, Header()] = None
) -> None:
    """
    Refuse a request that another site could have made a browser send.

    A form cannot send the header, and a script of another origin needs permission to send it. The
    browser's origin headers must agree.
    """
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    is_ours = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    if x_streaming_act != "1" or site not in ("same-origin", "none") or not is_ours:
        raise HTTPException(403, "An act must come from the Streams page itself.", _HEADERS)


def seen_by(request: Request, user: GetUserDep) -> list[Kept]:
    """Return the streams of the dags that a user may see, as one who may see their task instances."""
    keepers: Keepers = request.app.state.keepers
    may_see = get_auth_manager().is_authorized_dag(
        method="GET", access_entity=DagAccessEntity.TASK_INSTANCE, user=user
    )
    return keepers.of(authorized_dags(user)) if may_see else []


def authorized_dags(user: Any, method: Any = "GET") -> set[str]:
    """Return the ids of the dags that a user may see, or edit."""
    return set(get_auth_manager().get_authorized_dag_ids(user=user, method=method))


def kept_as(request: Request, dag_id: str, stream: Annotated[str, Path(max_length=100)]) -> Kept:
    """Return a stream that a dag keeps."""
    keepers: Keepers = request.app.state.keepers
    for one in keepers.of({dag_id}):
        if one.stream == stream and not one.is_external:
            return one
    raise HTTPException(
        404,
        f"Dag {dag_id!r} keeps no stream {stream!r}, or its task has not started yet.",
        _HEADERS,
    )


def named_as(request: Request, dag_id: str, stream: Annotated[str, Path(max_length=100)]) -> Kept:
    """Return an external stream that a sensor of a dag names."""
    keepers: Keepers = request.app.state.keepers
    for one in keepers.of({dag_id}):
        if one.stream == stream and one.is_external:
            return one
    raise HTTPException(
        404, f"No sensor of dag {dag_id!r} names {stream!r}, or none has started yet.", _HEADERS
    )


KeptByName = Annotated[Kept, Depends(kept_as)]


class SharedRows(NamedTuple):
    """
    Rows that several pages show.

    :param at: Monotonic seconds.
    :param kept: Their streams, held here because the key of the rows is made of their ids.
    """

    at: float
    rows: list[dict[str, Any]]
    kept: list[Kept]


def view_of(
    q: Annotated[str, Query(max_length=200)] = "",
    level: Annotated[Level | None, Query()] = None,
    dag: Annotated[str, Query(max_length=250)] = "",
    label: Annotated[str, Query(max_length=130)] = "",
    group: Annotated[str, Query(max_length=63)] = "",
    sort: Annotated[Column, Query()] = "state",
    order: Annotated[Literal["asc", "desc"], Query()] = "asc",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> FleetView:
    return FleetView(
        text=q,
        level=level,
        dag=dag,
        label=label,
        group=group,
        column=sort,
        is_reversed=order == "desc",
        page=page,
    )


async def fleet(
    request: Request,
    seen: Annotated[list[Kept], Depends(seen_by)],
    view: Annotated[FleetView, Depends(view_of)],
    user: GetUserDep,
) -> Response:
    """Return one page of the streams that the user may see."""
    boards: Boards = request.app.state.boards
    rows = await rows_of(request, seen)
    found = await _in_thread(lambda: page_of(rows, view))
    by_key = {(one.dag.dag_id, one.stream): one for one in seen}
    shown = [by_key[row["dag"], row["stream"]] for row in found.rows]
    boards.show(shown)
    data = {**found.to_dict(), "may_check": await _in_thread(lambda: administers(user))}
    body, _ = packed({"at": now_utc().isoformat(), **data})
    # Without a new look, only the ages are others.
    same = {name: data[name] for name in data if name not in ("streams", "oldest")}
    seen_at = f"{boards.seen_at(shown)}\n{boards.oldest_at(seen)}"
    return sent(request, body, tag_of(f"{seen_at}\n{same}".encode()))


async def installation(request: Request, user: GetUserDep) -> Response:
    """Return the check of the installation as this server sees it."""
    if not await _in_thread(lambda: administers(user)):
        raise HTTPException(403, "Only users who administer Airflow see the check.", _HEADERS)
    told = await _in_thread(server_facts)
    found = await installation_view(request.app.state.looks, told)
    return answer(request, {"at": now_utc().isoformat(), **found})


async def rows_of(request: Request, seen: list[Kept]) -> list[dict[str, Any]]:
    """Return the rows of some streams; pages that show the same streams share them for two seconds."""
    boards: Boards = request.app.state.boards
    answers: dict[tuple[int, ...], SharedRows] = request.app.state.answers
    # Of exactly the streams that this user may see, so that nothing is shared beyond a right.
    key, now = tuple(map(id, seen)), time.monotonic()
    known = answers.get(key)
    if known is not None and now - known.at < SHARED:
        return known.rows
    rows = [row for row in await boards.rows(seen) if not (row["gone"] and row["state"] == REMOVED)]
    if len(rows) > MANY or all(row["state"] != READING for row in rows):
        if len(answers) >= MOST_SHARED:
            answers.clear()
        answers[key] = SharedRows(now, rows, seen)
    return rows


async def whole(request: Request, kept: KeptByName, user: GetUserDep) -> Response:
    """Return a stream's present state, and the user's possible actions."""

    def show(lane: Lane) -> dict[str, Any]:
        view = lane.view()
        return {**view.whole(now_utc()), "lanes": lanes_of(view.home)}

    found = await look(request, kept, show)
    can_edit, dags = await _in_thread(lambda: _rights(kept, user))
    can_remove = can_edit and await _in_thread(lambda: may_remove(kept, user))
    return answer(
        request,
        {
            "at": now_utc().isoformat(),
            **_task_of(kept),
            "map_index": kept.map_index,
            "can_edit": can_edit,
            "can_remove": can_remove,
            "gone": kept.is_gone,
            "dags": dags,
            **found,
            "acts": found["acts"] if can_edit else [],
        },
    )


async def external(request: Request, kept: Annotated[Kept, Depends(named_as)]) -> Response:
    """Return one external stream as it is now; nothing can be done to it from here."""
    boards: Boards = request.app.state.boards
    found = await look_at(request, kept, lambda: boards.external(kept).whole(now_utc()))
    return answer(
        request,
        {
            "at": now_utc().isoformat(),
            **_task_of(kept),
            **found,
        },
    )


def _task_of(kept: Kept) -> dict[str, Any]:
    return {
        "dag": kept.dag.dag_id,
        "stream": kept.stream,
        "task": kept.task_id,
        "run": kept.run_id,
        "home": kept.home,
    }


def _rights(kept: Kept, user: Any) -> tuple[bool, dict[str, str]]:
    can_edit = get_auth_manager().is_authorized_dag(
        method="PUT",
        access_entity=DagAccessEntity.TASK_INSTANCE,
        details=DagDetails(id=kept.dag.dag_id, team_name=kept.dag.team or None),
        user=user,
    )
    return can_edit, {"keep": kept.dag.dag_id, **dags_of(kept.stream, authorized_dags(user))}


async def series(
    request: Request,
    kept: KeptByName,
    seconds: Annotated[int, Query(ge=60, le=LONGEST)] = 3600,
    end: Annotated[float | None, Query(ge=0, le=1e11)] = None,
    part: Part = "main",
    lane: Annotated[str | None, Query(max_length=110)] = None,
) -> Response:
    """
    Return the figures of a range for charts.

    :param end: Its end in Unix time; now by default.
    :param part: ``main`` without RocksDB's figures and observed metrics, or only one of these.
    :param lane: A lane; the live lane by default.
    """
    until = time.time() if end is None else end
    begin = until - seconds

    def show(one: Lane) -> tuple[bytes, str]:
        view = one.view(_checked_lane(one, lane))
        found = view.history.read(begin, until)
        told = downsample(
            found.buckets, begin=begin, end=until, count=POINTS, wants=partial(_belongs, part)
        )
        # Here and not on the event loop, on which every other request waits.
        return packed(
            {
                "lane": view.home.name,
                "begin": begin,
                "end": until,
                "cut": found.is_cut,
                "series": [one.to_dict() for one in told],
            }
        )

    return sent(request, *await look(request, kept, show))


def _belongs(part: Part, name: str) -> bool:
    kind = name.split(".", 1)[0]
    return part == "all" or (kind if kind in ("state", "observed") else "main") == part


def _checked_lane(one: Lane, lane: str | None) -> str | None:
    if lane is None:
        return None
    if lane not in lanes_of(one.view().home):
        raise HTTPException(404, "The stream has no such lane.", _HEADERS)
    return lane


async def timeline(
    request: Request,
    kept: KeptByName,
    most: Annotated[int, Query(ge=1, le=500)] = 60,
    since: Annotated[float | None, Query(ge=0, le=1e11)] = None,
    lane: Annotated[str | None, Query(max_length=110)] = None,
) -> Response:
    """
    Return the events of a stream, the newest first.

    :param since: Unix time; older events are not read.
    """
    first = None if since is None else datetime.fromtimestamp(since, UTC)

    def show(one: Lane) -> dict[str, Any]:
        home = one.view(_checked_lane(one, lane)).home
        return {"entries": timeline_view(home, most=most, since=first)}

    return answer(request, await look(request, kept, show))


async def changes(request: Request, kept: KeptByName) -> Response:
    """Return the newest upgrades, cutovers and restores of a stream."""
    return answer(
        request,
        await look(request, kept, lambda one: {"changes": changes_view(one.view().home)}),
    )


async def deployments(request: Request, kept: KeptByName) -> Response:
    """Return the newest deployments of a stream, each with its differences."""
    return answer(
        request,
        await look(request, kept, lambda one: {"deployments": deployments_view(one.view().home)}),
    )


async def backups(request: Request, kept: KeptByName) -> Response:
    """Return the newest backups of a stream, or the reason for their absence."""

    def show(lane: Lane) -> dict[str, Any]:
        view = lane.view()
        try:
            return {"backups": view.backups(), "problem": ""}
        except CheckpointError as err:
            return {"backups": [], "problem": str(err)}

    return answer(request, await look(request, kept, show))


async def reports(request: Request, kept: KeptByName, user: GetUserDep) -> Response:
    """Return which reports of gates and rehearsals there are of a stream's dags."""

    def find() -> dict[str, Any]:
        _, dags = _rights(kept, user)
        return {"reports": all_reports(dag for dag in dags.values() if _may_read(dag, user))}

    return answer(request, await _in_thread(find))


def _may_read(dag_id: str, user: Any) -> bool:
    """Tell whether a user may read the XComs of a dag, where its reports are."""
    return get_auth_manager().is_authorized_dag(
        method="GET",
        access_entity=DagAccessEntity.XCOM,
        details=DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id)),
        user=user,
    )


async def report(request: Request, dag_id: str, run_id: str, task_id: str) -> Response:
    """Return one report as Markdown."""
    found = await _in_thread(lambda: one_report(dag_id, run_id, task_id))
    if found is None:
        raise HTTPException(
            404, "The report does not exist; Airflow may have removed it.", _HEADERS
        )
    return answer(request, found)


class ActBody(BaseModel):
    """
    The body of an action.

    :param confirm: The stream's name, typed or confirmed twice, for actions that may lose data.
    :param number: The epoch or the change on the user's page.
    """

    reason: str = Field(min_length=1, max_length=500)
    confirm: str = Field(default="", max_length=110)
    number: int | None = Field(default=None, ge=0, le=999_999_999)


async def act(
    request: Request, kept: KeptByName, act: str, body: ActBody, user: GetUserDep
) -> Response:
    """Do something to a stream, in the name of the user who is signed in."""
    by = str(user.get_name())
    boards: Boards = request.app.state.boards

    def do(lane: Lane) -> dict[str, Any]:
        done = act_on(
            kept,
            act,
            by=by,
            reason=one_line(mask_secrets(body.reason)),
            number=body.number,
            confirm=body.confirm,
        )
        lane.live.base.forget()
        lane.views.clear()
        boards.forget(kept)
        return {"done": done}

    try:
        return answer(request, await look(request, kept, do))
    except _REFUSED as err:
        raise HTTPException(409, str(err), _HEADERS) from err


async def remove(
    request: Request, kept: KeptByName, body: RemovalBody, user: GetUserDep
) -> Response:
    """Remove a stream, for users who administer Airflow."""
    return answer(request, await remove_from_page(request, kept, body, user))


async def look(request: Request, kept: Kept, show: Callable[[Lane], Any]) -> Any:
    """Return the result of a look at one stream, or refuse it in time."""
    boards: Boards = request.app.state.boards
    return await look_at(request, kept, lambda: show(boards.lane(kept)))


async def look_at(request: Request, kept: Kept, show: Callable[[], Any]) -> Any:
    """Return the result of a look at one home or checkpoint, or refuse it in time."""
    looks: Looks = request.app.state.looks
    try:
        return await looks.look(kept.place, show)
    except _REFUSED:
        raise
    except LookRefused as err:
        headers = {**_HEADERS, "Retry-After": str(err.retry_after)}
        raise HTTPException(503, str(err), headers) from err
    except (HomeNotAllowed, NotTheOwner) as err:
        raise HTTPException(403, str(err), _HEADERS) from err
    except StreamRemoved as err:
        raise HTTPException(404, str(err), _HEADERS) from err
    except StreamingError as err:
        raise HTTPException(503, str(err), _HEADERS) from err


async def _in_thread(read: Callable[[], Any]) -> Any:
    # Airflow's database, as Airflow's own routes ask it.
    from starlette.concurrency import run_in_threadpool

    return await run_in_threadpool(read)


def answer(request: Request, data: Any) -> Response:
    """Return data as JSON, or that nothing of it is new."""
    return sent(request, *packed(data))


def packed(data: Any) -> tuple[bytes, str]:
    """Return data as JSON, and a tag that changes with it."""
    body = json.dumps(data, separators=(",", ":"), allow_nan=False, default=str).encode()
    return body, tag_of(body)


def tag_of(content: bytes) -> str:
    return f'W/"{hashlib.sha256(content).hexdigest()[:20]}"'


def sent(request: Request, body: bytes, tag: str) -> Response:
    """Return JSON, or that the browser has it already."""
    headers = {**_HEADERS, "Cache-Control": "private, no-cache", "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)

"""
Pages about the stream that a task keeps: its Spark UI and the end of its driver's log.

A route finds the stream by the rendered fields of the task, so that the right to see a dag's logs is
the right to see its stream, and no path ever comes from the address or from what users can write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from ipaddress import ip_address
from typing import Annotated, Final
from urllib.parse import urlencode

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI, HTTPException, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, RedirectResponse

from airflow_streaming.exceptions import HomeNotAllowed, LookRefused, NotTheOwner, StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.host import this_host
from airflow_streaming.model.records.epoch import Epoch, Launch
from airflow_streaming.plugins.access.drivers import PageDrivers
from airflow_streaming.plugins.access.kept import Kept, kept_by, open_stream, workers_of
from airflow_streaming.plugins.access.looks import Looks
from airflow_streaming.plugins.access.slots import Limits
from airflow_streaming.plugins.access.trust import check_home, ui_address
from airflow_streaming.plugins.api import add_api
from airflow_streaming.plugins.pages import add_pages
from airflow_streaming.settings import read_settings
from airflow_streaming.supervision.driver_logs import MOST, shown_log

_TEXT: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'self'",
    "Cache-Control": "no-store",
}

MapIndex = Annotated[int, Path(ge=-1, lt=2**31)]
"""As wide as the database's column; a wider one would end in an error there."""

Workers = Annotated[Collection[str], Depends(workers_of)]


def create_app(looks: Looks | None = None) -> FastAPI:
    """
    Return the app with every route behind the dag's own rights.

    :param looks: Where homes are read; a pool as large as the settings say when not given.
    """
    app = FastAPI(title="Streams", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.looks = looks or _looks()
    app.exception_handler(RequestValidationError)(not_valid)
    add_pages(app)
    add_api(app)
    task = "/tasks/{dag_id}/{run_id}/{task_id}/{map_index}"
    may_see = [Depends(requires_access_dag("GET", DagAccessEntity.TASK_LOGS))]
    app.get(f"{task}/driver-log", dependencies=may_see)(driver_log)
    app.get(f"{task}/spark-ui", dependencies=may_see)(spark_ui)
    app.get(f"{task}/stream", dependencies=may_see)(stream_page)
    return app


async def not_valid(_: Request, error: RequestValidationError) -> Response:
    """Describe the invalid part of a request without its content, which JSON may not allow."""
    found = [{name: one[name] for name in ("loc", "msg", "type")} for one in error.errors()]
    body = json.dumps({"detail": found}, allow_nan=False, default=str)
    return Response(body, 422, _TEXT, media_type="application/json")


def _looks() -> Looks:
    settings = read_settings()
    return Looks(deadline=settings.page_deadline, limits=Limits(threads=settings.page_threads))


def kept(dag_id: str, run_id: str, task_id: str, map_index: MapIndex) -> Kept:
    """Return the stream of a task, if the API server may read it."""
    found = kept_by(dag_id, run_id, task_id, map_index)
    if found is None:
        raise HTTPException(
            404,
            "This task has not started yet, or keeps no stream, or Airflow has removed its rendered "
            "fields. Look at a newer run.",
        )
    try:
        check_home(found.home, written=found.written, allowed=read_settings().homes)
    except HomeNotAllowed as err:
        raise HTTPException(403, str(err)) from err
    return found


KeptByTask = Annotated[Kept, Depends(kept)]


async def page_of(request: Request, kept: Kept, show: Callable[[StreamHome], Response]) -> Response:
    """Show one page about the lane of a stream that is live, or refuse it in time."""
    looks: Looks = request.app.state.looks
    try:
        return await looks.look(kept.place, lambda: show(open_stream(kept)))
    except LookRefused as err:
        raise HTTPException(503, str(err), {"Retry-After": str(err.retry_after)}) from err
    except (HomeNotAllowed, NotTheOwner) as err:
        raise HTTPException(403, str(err)) from err
    except StreamingError as err:
        raise HTTPException(503, str(err)) from err


async def driver_log(request: Request, kept: KeptByTask) -> Response:
    """Show the end of the newest driver's log."""
    return await page_of(request, kept, lambda home: _end_of_log(home, PageDrivers(kept)))


async def spark_ui(request: Request, kept: KeptByTask, workers: Workers) -> Response:
    """Lead to the Spark UI of the driver that runs now."""
    viewer = request.client.host if request.client else ""
    return await page_of(request, kept, lambda home: _to_spark_ui(home, workers, viewer))


async def stream_page(request: Request, kept: KeptByTask) -> Response:
    root = request.scope.get("root_path", "")
    query = urlencode({"dag": kept.dag.dag_id, "stream": kept.stream})
    return RedirectResponse(f"{root}/app/?{query}")


def _end_of_log(home: StreamHome, drivers: PageDrivers) -> Response:
    epoch, launch = _newest_launch(home)
    # The recorded path is only shown: a record may have been forged, and this process reads much.
    started = epoch.as_launched
    file = read_settings().driver_log(home.store.uri, started.stream, started.number)
    log = drivers.logs(epoch, launch, file, MOST)
    kept = None if log.tail is not None else home.driver_log(epoch.number)
    try:
        # The JVM's output bypasses the driver's own masks.
        return PlainTextResponse(shown_log(log, kept), headers=_TEXT)
    except LookupError as err:
        raise HTTPException(404, str(err)) from err


def _to_spark_ui(home: StreamHome, workers: Collection[str], viewer: str) -> Response:
    _, launch = _newest_launch(home)
    status = home.status(launch.epoch)
    if status is None or not status.ui_url:
        raise HTTPException(404, "The driver has not reported its Spark UI address yet.")
    address = ui_address(
        status.ui_url,
        hosts={*workers, *(_local_names(viewer) if this_host().name.lower() in workers else ())},
        allowed=read_settings().ui_hosts,
    )
    if address is None:
        # Shown and not followed: both records, of the driver's status and of its launch, may be forged.
        raise HTTPException(
            403,
            f"The driver reports its Spark UI at {status.ui_url!r:.300}, on none of the hosts that ran tasks "
            f"of its dag ({', '.join(sorted(workers)) or 'none'}) or at no port and path of a Spark UI. If the address "
            "is right, add its host to [streaming] ui_hosts. A driver on the loopback address shows its page only "
            "to a browser on the same host.",
        )
    return RedirectResponse(address)


def _local_names(viewer: str) -> set[str]:
    """Return the names of this host. Names of its loopback need a browser on this host."""
    import psutil  # no other page needs it

    found = {address.address for one in psutil.net_if_addrs().values() for address in one}
    loopback = {"localhost", *filter(_is_loopback, found)}
    return found | loopback if _is_loopback(viewer) else found - loopback


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False  # a name, or the address of a network card


def _newest_launch(home: StreamHome) -> tuple[Epoch, Launch]:
    epoch = home.newest_epoch()
    launch = home.launch(epoch.number) if epoch else None
    if epoch is None or launch is None:
        raise HTTPException(404, "The stream has no driver yet.")
    return epoch, launch

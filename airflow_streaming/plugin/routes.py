"""
Pages about the stream that a task keeps: its Spark UI and the end of its driver's log.

A route finds the stream by what the task itself wrote into XCom, so that the right to see a dag's
logs is the right to see its stream, and no path ever comes from the address.
"""

from __future__ import annotations

from typing import Annotated, Final

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import PlainTextResponse, RedirectResponse

from airflow_streaming.core.epoch import Launch
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.files.host import this_host
from airflow_streaming.home.home import StreamHome
from airflow_streaming.home.lanes import live_lane
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.links.stream import STREAM_XCOM_KEY
from airflow_streaming.settings import read_settings

LOG_TAIL_BYTES: Final = 256 * 1024
"""What a browser shows at once; the file itself may have grown for months."""


def create_app() -> FastAPI:
    """Return the app with every route behind the dag's own rights."""
    app = FastAPI(title="Streams", docs_url=None, redoc_url=None, openapi_url=None)
    task = "/tasks/{dag_id}/{run_id}/{task_id}/{map_index}"
    may_see = [Depends(requires_access_dag("GET", DagAccessEntity.TASK_LOGS))]
    app.get(f"{task}/driver-log", dependencies=may_see)(driver_log)
    app.get(f"{task}/spark-ui", dependencies=may_see)(spark_ui)
    return app


def stream_of(dag_id: str, run_id: str, task_id: str, map_index: int) -> StreamHome:
    """Return the records of the stream that a task keeps: those of the lane that is live."""
    with create_session() as session:
        row = session.scalar(
            XComModel.get_many(
                key=STREAM_XCOM_KEY,
                dag_ids=dag_id,
                run_id=run_id,
                task_ids=task_id,
                map_indexes=map_index,
                limit=1,
            )
        )
        told = XComModel.deserialize_value(row) if row is not None else None
    if not isinstance(told, dict) or not {"home", "stream"} <= told.keys():
        raise HTTPException(404, "This task has not said which stream it keeps yet.")
    try:
        hook = StreamHomeHook(str(told["home"]), told.get("home_conn_id"), looks_only=True)
        home = hook.get_conn()
        return home.stream(live_lane(home, str(told["stream"])))
    except StreamingError as err:
        raise HTTPException(503, str(err)) from err


Stream = Annotated[StreamHome, Depends(stream_of)]


def driver_log(home: Stream) -> PlainTextResponse:
    """Show the end of the newest driver's log."""
    launch = _newest_launch(home)
    log = read_settings().driver_log(home.name, launch.epoch)
    # The recorded path is only shown: a record may have been forged, and this process reads much.
    if launch.host != this_host() or launch.log != str(log):
        return PlainTextResponse(f"The log is on host {launch.host.name}: {launch.log}\n")
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_TAIL_BYTES))
            tail = file.read(LOG_TAIL_BYTES).decode(errors="replace")
    except OSError as err:
        raise HTTPException(404, f"{log} cannot be read: {err.strerror}") from err
    headers = {"X-Content-Type-Options": "nosniff"}
    return PlainTextResponse(f"{log} ({size} bytes)\n\n{tail}", headers=headers)


def spark_ui(home: Stream) -> RedirectResponse:
    """Lead to the Spark UI of the driver that runs now."""
    epoch = home.newest_epoch()
    status = home.status(epoch.number) if epoch else None
    url = status.ui_url if status else None
    if not url or not url.startswith(("http://", "https://")):
        raise HTTPException(404, "The driver has not told the address of its Spark UI yet.")
    return RedirectResponse(url)


def _newest_launch(home: StreamHome) -> Launch:
    epoch = home.newest_epoch()
    launch = home.launch(epoch.number) if epoch else None
    if launch is None:
        raise HTTPException(404, "The stream has no driver yet.")
    return launch

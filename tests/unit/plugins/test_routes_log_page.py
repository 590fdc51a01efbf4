"""The pages behind a task's links: the end of its driver's log, and the Spark UI."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import HTTPException

from airflow_streaming.launch.port import DriverLog
from airflow_streaming.model.host import this_host
from tests.unit.world import World

JVM = (
    b"26/11/22 10:00:00 WARN KafkaUtils: sasl.jaas.config password=canary-4711;\n"
    b"26/11/22 10:00:00 INFO JDBC: jdbc:postgresql://app:canary-4711@db/orders\n"
    b"26/11/22 10:00:01 INFO MicroBatchExecution: Streaming query made progress\n"
)


@pytest.mark.filterwarnings("ignore")
def test_the_log_page_masks_what_the_jvm_wrote(world: World) -> None:
    from airflow_streaming.plugins import routes

    class Logs:
        def logs(self, *_: object) -> DriverLog:
            return DriverLog(place="/drivers/1.log", tail=JVM, size=len(JVM))

    world.run()
    drivers: Any = Logs()
    shown = bytes(routes._end_of_log(world.home, drivers).body)

    assert b"canary-4711" not in shown
    assert b"made progress" in shown


@pytest.mark.filterwarnings("ignore")
def test_the_spark_ui_is_not_known_before_the_driver_has_told_it(world: World) -> None:
    from airflow_streaming.plugins import routes

    with pytest.raises(HTTPException) as refused:
        routes._to_spark_ui(world.home, (), "")
    assert (refused.value.status_code, refused.value.detail) == (
        404,
        "The stream has no driver yet.",
    )

    world.run()
    with pytest.raises(HTTPException) as refused:
        routes._to_spark_ui(world.home, (), "")
    assert refused.value.status_code == 404
    assert "Spark UI address" in refused.value.detail


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("viewer", "is_led"),
    [("127.0.0.1", True), ("::1", True), ("10.0.0.7", False), ("testclient", False), ("", False)],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_page_of_a_loopback_address_is_for_a_browser_on_this_host(
    world: World, host: str, viewer: str, is_led: bool
) -> None:
    from airflow_streaming.plugins import routes

    world.run()
    world.say(ui_url=f"http://{host}:4040")
    workers = {this_host().name.lower()}
    if is_led:
        led = routes._to_spark_ui(world.home, workers, viewer)
        assert led.headers["location"] == f"http://{host}:4040"
    else:
        with pytest.raises(HTTPException) as refused:
            routes._to_spark_ui(world.home, workers, viewer)
        assert refused.value.status_code == 403
    with pytest.raises(HTTPException):
        routes._to_spark_ui(world.home, {"another"}, viewer)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "rendered",
    [
        {},
        {"bash_command": "true"},
        {"stream_home": "/srv/streams"},
        {"stream_name": "orders"},
        {"stream_home": "", "stream_name": "orders"},
        {"stream_home": "/srv/streams", "stream_name": {"name": "orders"}},
    ],
    ids=str,
)
def test_a_task_that_keeps_no_stream_has_no_page(
    rendered: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_streaming.plugins import routes
    from airflow_streaming.plugins.access import kept

    unread: Any = None
    monkeypatch.setattr(routes, "kept_by", lambda *_: kept._kept(unread, rendered, unread, unread))

    with pytest.raises(HTTPException) as refused:
        routes.kept("orders", "run-1", "transform", -1)
    assert refused.value.status_code == 404
    assert "keeps no stream" in refused.value.detail

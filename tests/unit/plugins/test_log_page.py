"""The page with the end of a driver's log, which Spark and Java write too."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.launch.port import DriverLog
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

"""The recipe for Spark's own metrics in docs/metrics.md, with a real driver."""

from __future__ import annotations

import ast
import re
import urllib.request
from typing import Final

from tests.conftest import REPOSITORY
from tests.integration.driver.running import World, lines
from tests.integration.home.servers import free_ports
from tests.patience import PATIENCE

GAUGES: Final = ("inputRate_total", "processingRate_total", "latency")
SCRIPT: Final = """
import json

query = source().writeStream.queryName("q").format("noop").trigger(processingTime="1 second").start()
while query.lastProgress is None:
    time.sleep(0.2)
server = spark._jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
name = spark._jvm.javax.management.ObjectName("metrics:*")
beans = [str(bean) for bean in server.queryNames(name, None).toArray()]
(folder / "beans.jsonl").write_text(json.dumps({"beans": beans}) + "\\n")
query.awaitTermination()
"""


def recipe(language: str) -> str:
    """Return the first block of a language in the section of the recipe."""
    text = (REPOSITORY / "docs" / "metrics.md").read_text()
    section = text.partition("## Spark's own metrics\n")[2]
    found = re.search(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


def test_the_servlet_and_jmx_answer_as_the_recipe_says(world: World) -> None:
    folder = world.folder / "conf"
    folder.mkdir()
    properties = folder / "metrics.properties"
    properties.write_text(recipe("properties"))
    [port] = free_ports(1)
    conf = ast.literal_eval(recipe("python").partition("=")[2].strip()) | {
        "spark.metrics.conf": str(properties),
        "spark.ui.port": str(port),
        "spark.ui.enabled": "true",
        # py4j calls the server by its class, which the module does not export.
        "spark.driver.extraJavaOptions": "--add-exports=java.management/com.sun.jmx.mbeanserver=ALL-UNNAMED",
        "spark.sql.streaming.metricsEnabled": "true",
    }
    world.deploy(SCRIPT)
    world.begin_epoch()
    driver = world.launch(
        submit=[part for pair in conf.items() for part in ("--conf", "=".join(pair))]
    )
    driver.has_committed(2)
    driver.until((world.folder / "beans.jsonl").exists, "the beans")

    with urllib.request.urlopen(
        f"http://127.0.0.1:{port}/metrics/prometheus/", timeout=PATIENCE
    ) as reply:
        told = reply.read().decode()
    [told_beans] = lines(world.folder / "beans.jsonl")

    for gauge in GAUGES:
        assert f"metrics_orders_driver_spark_streaming_q_{gauge}_Value" in told
    assert "metrics_orders_driver_jvm_heap_used_Value" in told
    assert any("orders.driver.spark.streaming.q.latency" in bean for bean in told_beans["beans"])

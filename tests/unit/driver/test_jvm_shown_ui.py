"""Where browsers find a driver's Spark UI."""

from __future__ import annotations

import pytest

from airflow_streaming.driver.jvm import shown_ui
from airflow_streaming.plugins.access.trust import ui_address

OWN = "http://10.0.0.7:4040"
PROXY = "https://spark.example.org/cluster"
BEHIND = f"{PROXY}/proxy/app-1/"
ON, URL = "spark.ui.reverseProxy", "spark.ui.reverseProxyUrl"


@pytest.mark.parametrize(
    ("own", "conf", "shown"),
    [
        (OWN, {}, OWN),
        (OWN, {ON: "true", URL: PROXY}, BEHIND),
        (OWN, {ON: "true", URL: f"{PROXY}/"}, BEHIND),
        (OWN, {ON: "false", URL: PROXY}, OWN),
        (OWN, {URL: PROXY}, OWN),
        (OWN, {ON: "true"}, OWN),
        # Spark takes a path as well, which leads nowhere from Airflow's pages.
        (OWN, {ON: "true", URL: "/cluster"}, OWN),
        (None, {ON: "true", URL: PROXY}, None),
    ],
)
def test_the_ui_is_shown_behind_the_clusters_reverse_proxy(
    own: str | None, conf: dict[str, str], shown: str | None
) -> None:
    assert shown_ui(own, "app-1", conf.get) == shown


def test_a_proxy_is_followed_where_it_is_one_of_the_ui_hosts() -> None:
    assert ui_address(BEHIND, hosts=("10.0.0.7",)) is None
    assert ui_address(BEHIND, hosts=("10.0.0.7",), allowed=("spark.example.org",)) == BEHIND

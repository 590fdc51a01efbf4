"""A campaign on a real Spark: the fleet's task examines, upgrades, judges and keeps; a bad script returns."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_streaming.home.campaigns import Campaigns
from airflow_streaming.model.records.campaign import CampaignTerms, FleetChange
from airflow_streaming.model.records.control import ChangeOutcome
from airflow_streaming.operators.campaign import FleetUpgradeOperator
from airflow_streaming.services.campaigns.commands import begin_campaign, state_by_number
from airflow_streaming.spec import FormPolicy, SoakTerms
from tests.integration.stream.conftest import SCRIPT, KeptStream, RealStream

SOAK = SoakTerms(
    batches=2, at_least=timedelta(seconds=1), at_most=timedelta(minutes=3), backlog_growth=1e6
)
FAILING = SCRIPT.replace("numbers.writeStream", "numbers.selectExpr('value').writeStream") + (
    "\nimport os, time\nif not os.environ.get('AIRFLOW_STREAMING_PLAN'):\n    time.sleep(5)\n"
    "    raise ValueError('planted')\n"
)

pytestmark = pytest.mark.nightly("Plan mode and four drivers, one after the other.")


class Campaigned(KeptStream):
    """A kept stream, and the task of its fleet."""

    def __init__(self, real: RealStream, **spec: Any) -> None:
        super().__init__(real, **spec)
        with DAG("orders_upgrade", schedule=None):
            self.task = FleetUpgradeOperator(
                task_id="campaigns", streams=[real.spec(**spec)], soak=SOAK
            )
        self.memories: dict[str, Any] = {}
        self.end: Any = None

    @property
    def campaigns(self) -> Campaigns:
        return Campaigns(self.home.store)

    def begin(self, **change: Any) -> int:
        self.memories, self.end = {}, None
        state = begin_campaign(
            self.campaigns,
            FleetChange(**change),
            (("orders",),),
            CampaignTerms(),
            selector="name=orders",
            follows={},
            by="ada",
            reason="a test",
        )
        return state.campaign.number

    def work(self) -> Any:
        """Run the task once; return how it ended, ``None`` after a deferral."""
        self.look()
        try:
            self.end = self.task.execute_complete(self.real.context(), memories=self.memories)
        except TaskDeferred as deferred:
            self.memories = (deferred.kwargs or {})["memories"]
        except AirflowFailException as err:
            self.end = err
        return self.end


def test_a_campaign_keeps_what_works_and_takes_back_what_does_not(real: RealStream) -> None:
    policy = FormPolicy(applications=(str(real.folder),))
    stream = Campaigned(real, form_policy=policy)
    stream.keep_until(lambda: real.batches(1) > 2, "the first batches")

    stream.begin(conf={"spark.sql.shuffle.partitions": "2"})
    real.until(stream.work, "the end of the campaign", every=1.0)

    assert stream.end == {"1": "done"}, stream.end
    kept = stream.home.newest_deployment()
    assert kept is not None
    assert (kept.number, kept.conf["spark.sql.shuffle.partitions"]) == (2, "2")
    assert str(state_by_number(stream.campaigns, 1).members["orders"]) == "kept"

    bad = real.folder / "bad.py"
    bad.write_text(FAILING)
    stream.begin(application=str(bad))
    real.until(stream.work, "the end of the bad campaign", every=1.0)

    assert "planted" in str(stream.end) or "stopped by stream 'orders'" in str(stream.end)
    assert [end.outcome for end in map(stream.home.change_end, (1, 2)) if end] == [
        ChangeOutcome.DONE,
        ChangeOutcome.ROLLED_BACK,
    ]
    stream.keep_until(lambda: real.drivers(), "the old deployment's driver")
    numbers = real.numbers()
    assert numbers == list(range(len(numbers)))

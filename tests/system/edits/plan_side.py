"""
The plans of many scripts from one Spark, told by lines of JSON.

The driver of plan mode, but for one thing: it takes one script after another, because a Spark for
every script would take most of the time.
"""

# mypy: ignore-errors

from __future__ import annotations

import json
import sys
from pathlib import Path

from airflow_streaming.driver.plan.mode import Planning
from airflow_streaming.model.spark.plan import PlanOrder
from tests.system.edits.spark_side import new_session, session_of, tell


class ManyPlans(Planning):
    """Plan mode that is begun anew with every script."""

    _installed = False

    def begin(self, order):
        """Forget what the last script was."""
        self._order = order
        self._queries.clear()
        self._refused.clear()
        self._variables.notes.clear()

    def _install(self):
        if not self._installed:
            super()._install()
            self._installed = True

    def _leave_later(self):
        """The next script comes."""


def main():
    spark = new_session()
    plans = ManyPlans(PlanOrder(result="", seconds=0, application="", source=""))
    tell(ready=spark.version)
    for line in sys.stdin:
        told = json.loads(line)
        session_of(spark, told["conf"])
        plans.begin(PlanOrder(**told["order"]))
        plans.run()
        tell(plan=json.loads(Path(told["order"]["result"]).read_text()))


if __name__ == "__main__":
    main()

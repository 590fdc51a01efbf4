"""The operator that finds risks in how a stream runs, e.g. once a day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.advice.examined import Advice, Outcome, RiskLevel
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.calls import NamedParameters
from airflow_streaming.model.arguments.fields import checked, refuse_blank
from airflow_streaming.task_errors import spec_errors_are_final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.advice.cost.request_cost import Prices

FAIL_ON: Final = ("never", *(level.value for level in RiskLevel))


class StreamDoctorOperator(NamedParameters, BaseOperator):
    """
    Examine a stream as ``airflow-streaming doctor`` does; only reads.

    The return value is every advice as a dictionary, the gravest risk first.

    :param home: The home's URI. (templated)
    :param stream: The stream's name. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    :param cores: Cores of all executors, where the stream's configuration does not tell.
    :param fail_on: Fail the task from risks of this level on: ``high``, ``medium``, ``low``, or
        ``never``.
    :param prices: Price of 1,000 requests to the object store by kind, e.g.
        ``{"writes": 0.005, "reads": 0.0004}``; shows the price of a month.
    """

    template_fields: Sequence[str] = ("home", "stream", "home_conn_id")
    ui_color = "#d7e3f4"

    @checked
    def __init__(
        self,
        *,
        home: str,
        stream: str,
        home_conn_id: str | None = None,
        cores: int | None = None,
        fail_on: str = "high",
        prices: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if fail_on not in FAIL_ON:
            raise SpecError(f"fail_on is {fail_on!r}; give one of {', '.join(FAIL_ON)}.")
        refuse_blank("StreamDoctorOperator", home=home, stream=stream)
        self.home = home
        self.stream = stream
        self.home_conn_id = home_conn_id
        self.cores = cores
        self.fail_on = fail_on
        self.prices = prices
        if prices is not None:
            self._prices()

    def execute(self, context: Context) -> list[dict[str, Any]]:
        from airflow_streaming.advice.doctor import examine  # not at dag parse
        from airflow_streaming.advice.gathering import gather  # not at dag parse
        from airflow_streaming.hooks.home import StreamHomeHook  # not at dag parse
        from airflow_streaming.model.codec import encode  # not at dag parse

        with spec_errors_are_final():
            home = StreamHomeHook(self.home, self.home_conn_id).get_conn()
            said = examine(gather(home, home.stream(self.stream), self.cores, self._prices()))
        for one in said:
            self._log(one)
        grave = grave_risks(said, self.fail_on)
        if grave:
            found = "; ".join(f"{one.rule}: {one.what} {one.remedy}" for one in grave)
            raise AirflowFailException(f"Stream {self.stream!r} has {len(grave)} risks. {found}")
        encoded: list[dict[str, Any]] = [encode(one) for one in said]
        return encoded

    def _prices(self) -> Prices | None:
        from airflow_streaming.advice.cost.request_cost import Prices  # not at dag parse

        return None if self.prices is None else Prices.of(self.prices)

    def _log(self, one: Advice) -> None:
        write = self.log.warning if one.outcome is Outcome.RISK else self.log.info
        write("%s: %s %s %s", one.rule, one.what, one.evidence, one.remedy)


def grave_risks(advice: Sequence[Advice], fail_on: str) -> list[Advice]:
    """Return the risks of a level or above; ``never`` is above all."""
    from airflow_streaming.advice.doctor import risks  # not at dag parse

    levels = FAIL_ON[1 : FAIL_ON.index(fail_on) + 1]
    return [one for one in risks(advice) if one.level in levels]

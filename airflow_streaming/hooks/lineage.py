"""
OpenLineage: the inputs and outputs of a stream, and the parent of its driver.

The datasets come from the plans that the stream's drivers have recorded (``model.products.datasets``).

The driver's parent comes from Airflow's own injection, and is switched on where Airflow's
``SparkSubmitOperator`` has it: ``[openlineage] spark_inject_parent_job_info`` and
``spark_inject_transport_info``. It goes to the driver only, never into a deployment: another run of
the dag is not a new version of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.common.compat.sdk import conf as airflow_conf

from airflow_streaming.model.products.datasets import DatasetName, stream_datasets
from airflow_streaming.model.spark.plan import QueryPlan

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

SECTION: Final = "openlineage"
PARENT: Final = "spark_inject_parent_job_info"
TRANSPORT: Final = "spark_inject_transport_info"


def operator_lineage(
    plans: Callable[[], Sequence[QueryPlan]],
    *,
    inlets: Sequence[object] = (),
    outlets: Sequence[object] = (),
) -> OperatorLineage | None:
    """
    Return an operator's answer to the OpenLineage provider; ``None`` without the provider.

    The provider uses a task's declared datasets only if no others are known. A plan does not know
    all: a model that the script loads, a table that a ``foreachBatch`` function writes.

    :param plans: Returns the recorded plans; not called without the provider.
    :param inlets: The task's other declared inputs; datasets without a name in OpenLineage are left
        out.
    :param outlets: Its declared outputs, likewise.
    """
    try:
        from airflow.providers.openlineage.extractors import OperatorLineage
        from airflow.providers.openlineage.extractors.manager import ExtractorManager
        from openlineage.client.event_v2 import Dataset
    except ImportError:
        return None

    def datasets(names: Sequence[DatasetName], declared: Sequence[object]) -> list[Dataset]:
        known = [Dataset(namespace=one.namespace, name=one.name) for one in names]
        more = filter(None, map(ExtractorManager.convert_to_ol_dataset, declared))
        return [*{(one.namespace, one.name): one for one in (*more, *known)}.values()]

    found = stream_datasets(plans())
    return OperatorLineage(
        inputs=datasets(found.inputs, inlets), outputs=datasets(found.outputs, outlets)
    )


def driver_lineage(context: Context, properties: Mapping[str, str]) -> dict[str, str]:
    """
    Return additional configuration of a driver, so that OpenLineage knows its parent.

    The parent is the task's try that launches the driver, and stays so when a later task adopts it.
    The driver's own settings take precedence.

    :param properties: The driver's configuration.
    """
    from airflow.providers.common.compat.openlineage.utils import spark  # not at dag parse

    given: dict[str, Any] = dict(properties)
    if airflow_conf.getboolean(SECTION, PARENT, fallback=False):
        given = spark.inject_parent_job_information_into_spark_properties(given, context)
    if airflow_conf.getboolean(SECTION, TRANSPORT, fallback=False):
        given = spark.inject_transport_information_into_spark_properties(given, context)
    return {key: str(value) for key, value in given.items() if key not in properties}

"""Pages on Airflow's API server; an Airflow that is too old is refused with a sentence before anything of it is imported."""

from airflow_streaming.version_compat import check_airflow

check_airflow()

"""Run PySpark Structured Streaming applications from Airflow as production services."""

__version__ = "0.1.0"

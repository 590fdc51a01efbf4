"""Pages for users who administer Airflow."""

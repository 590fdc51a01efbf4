"""Synthetic events of the example pipelines: one module, many shapes, three ways to send them."""

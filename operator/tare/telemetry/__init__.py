"""Logging and Prometheus metrics: a leaf that imports nobody."""

"""The model service: replicas, readiness, control hooks."""

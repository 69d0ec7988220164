"""Numbers as people read them (`results.units`)."""

from tare.results.units import clock, latency, number, share

__all__ = ["clock", "latency", "number", "share"]

"""Tare benchmarks LLM inference services honestly: zero the scale before weighing."""

__all__ = ["__version__"]

__version__ = "0.1.0"

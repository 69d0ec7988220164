"""Simulation of an inference server."""

"""Predictions: load and servers in virtual time."""

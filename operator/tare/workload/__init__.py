"""Prompts and datasets: what is sent to the model."""

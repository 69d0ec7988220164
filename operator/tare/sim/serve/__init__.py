"""The simulated model server: OpenAI-compatible, streaming, in real time."""

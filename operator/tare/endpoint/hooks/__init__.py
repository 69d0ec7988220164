"""Control hooks: reset of the KV cache, start and stop of the server's profiler."""

"""The load generator: HTTP/1.1 and event-stream client, arrivals, recorder, reporter."""

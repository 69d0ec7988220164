"""Origins and headers: what hooks, preflight and workers share."""

"""Programs of pools, stages and sessions: their text, their YAML form, and their runs."""

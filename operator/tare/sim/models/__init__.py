"""Models of inference servers: size, speed and scheduler of each, as YAML files."""

"""The controllers of the embedded cluster; they see the API only through `apiserver.registry`."""

"""The simulation core: flat lists and plain functions that numba can compile as they are."""

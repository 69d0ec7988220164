"""The simulation core: flat lists and plain functions that numba can compile as they are.

`engine`, `batching` and `slots` are the serving engine that predictions and live servers share.
"""

"""The cache plan: how many cached prompt tokens each phase must find, and why."""

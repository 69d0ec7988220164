"""What each test of real servers needs: two on loopback, or two as pods of a cluster."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("TARE_VLLM_NAMESPACE") else ["test_vllm_cluster.py"]

"""What a run's spec leads to, for tests of the builders: spec, work order and Job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.api.problems import check_spec
from tare.decide.children import TrialKey
from tare.manifests.job import WorkerImage, build_job
from tare.manifests.metadata import Owner
from tare.manifests.order import Address, build_order
from tare.net.auth import authority_of, headers_of

if TYPE_CHECKING:
    from tare.api.spec import BenchmarkRunSpec
    from tare.kube.port import Document
    from tare.plan.order import WorkOrder

__all__ = ["ADDRESS", "IMAGE", "KEY", "OWNER", "job_of", "order_of", "phase", "spec_of"]

OWNER = Owner(name="qwen", namespace="bench", uid="6ba7b810-9dad-11d1-80b4-00c04fd430c8")
KEY = TrialKey(2, 1, 1)
IMAGE = WorkerImage(image="registry.example/tare-worker:0.1.0", inbox_url="http://tare.tare:8080")
ADDRESS = Address(urls=("http://10.96.0.7:8000",), host="qwen.bench.svc:8000")


def phase(**fields: Any) -> dict[str, Any]:
    """A closed loop of a hundred requests; `fields` override, None takes a field away."""
    document = {
        "name": "profiling",
        "kind": "profiling",
        "type": "concurrency",
        "concurrency": 4,
        "requests": 100,
        **fields,
    }
    return {name: value for name, value in document.items() if value is not None}


def spec_of(**fields: Any) -> BenchmarkRunSpec:
    """The smallest spec that is accepted, with `fields` over it; `endpoint` is merged."""
    endpoint = {"service": {"name": "qwen", "port": 8000}, "model": "Qwen/Qwen3-8B"}
    document = {
        "phases": [phase()],
        **fields,
        "endpoint": {**endpoint, **fields.get("endpoint", {})},
    }
    spec, problems = check_spec(document)
    assert spec is not None, problems
    return spec


def order_of(owner: Owner = OWNER, **fields: Any) -> WorkOrder:
    """The work order of `KEY`."""
    spec = spec_of(**fields)
    headers = headers_of(spec.endpoint.model_dump(by_alias=True, exclude_none=True))
    return build_order(owner, KEY, spec, address=ADDRESS, headers=headers)


def job_of(owner: Owner = OWNER, **fields: Any) -> Document:
    """The Job of `KEY`."""
    spec = spec_of(**fields)
    endpoint = spec.endpoint.model_dump(by_alias=True, exclude_none=True)
    return build_job(
        owner,
        order_of(owner, **fields),
        workers=spec.workers,
        worker_image=IMAGE,
        headers=headers_of(endpoint),
        authority=authority_of(endpoint),
        queue_name=spec.queue_name,
    )

from __future__ import annotations

from typing import Any

import pytest

from tare.api.problems import check_spec
from tare.api.spec import BenchmarkRunSpec
from tare.decide.children import TrialKey
from tare.manifests.job import WorkerImage, build_job
from tare.manifests.metadata import Owner
from tare.manifests.order import Address, build_order
from tare.net.auth import headers_of

OWNER = Owner(name="qwen", namespace="bench", uid="6ba7b810-9dad-11d1-80b4-00c04fd430c8")
IMAGE = WorkerImage(image="registry.example/tare-worker:0.1.0", inbox_url="http://tare.tare:8080")
ADDRESS = Address(urls=("http://10.96.0.7:8000",), host="qwen.bench.svc:8000")


class Builder:
    """Builds what a run's spec leads to; `fields` override parts of a small spec."""

    owner = OWNER
    address = ADDRESS

    def document(self, **fields: Any) -> dict[str, Any]:
        return {
            "endpoint": {"service": {"name": "qwen", "port": 8000}, "model": "Qwen/Qwen3-8B"},
            "phases": [
                {
                    "name": "profiling",
                    "kind": "profiling",
                    "type": "concurrency",
                    "concurrency": 4,
                    "requests": 100,
                }
            ],
            **fields,
        }

    def spec(self, **fields: Any) -> BenchmarkRunSpec:
        spec, problems = check_spec(self.document(**fields))
        assert spec is not None, problems
        return spec

    def order(self, key: TrialKey = TrialKey(0, 0, 1), **fields: Any) -> Any:  # noqa: B008 - frozen
        headers = headers_of(self.document(**fields)["endpoint"])
        return build_order(
            self.owner, key, self.spec(**fields), address=self.address, headers=headers
        )

    def job(
        self, key: TrialKey = TrialKey(0, 0, 1), owner: Owner = OWNER, **fields: Any  # noqa: B008
    ) -> dict[str, Any]:
        spec, headers = self.spec(**fields), headers_of(self.document(**fields)["endpoint"])
        return build_job(
            owner,
            build_order(owner, key, spec, address=self.address, headers=headers),
            workers=spec.workers,
            worker_image=IMAGE,
            headers=headers,
            queue_name=spec.queue_name,
        )


@pytest.fixture
def build() -> Builder:
    return Builder()

from __future__ import annotations

from pathlib import Path

import pytest

from tare.cli.manifests import ManifestError
from tare.cli.run_file import load_run
from tare.kube.port import RUN, SECRET
from tare.net.allowlist import AllowList

EXAMPLES = Path(__file__).parents[3] / "examples"
RUN_YAML = """\
apiVersion: tare.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: qwen}
spec:
  endpoint:
    service: {name: qwen, port: 8000}
    model: Qwen/Qwen3-8B
  dataset:
    type: synthetic
    prompts: {isl: 512, osl: 128}
  phases:
    - {name: profiling, kind: profiling, type: concurrency, concurrency: 4, requests: 100}
"""
SECRET_YAML = """\
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {token: abc}
"""


def saved(tmp_path: Path, *documents: str) -> str:
    path = tmp_path / "run.yaml"
    path.write_text("---\n".join(documents))
    return str(path)


def test_one_url_takes_the_place_of_the_service(tmp_path: Path) -> None:
    loaded = load_run(saved(tmp_path, RUN_YAML), urls=["http://127.0.0.1:8000"])
    endpoint = loaded.run["spec"]["endpoint"]
    assert endpoint["url"] == "http://127.0.0.1:8000"
    assert "service" not in endpoint
    assert loaded.urls == ("http://127.0.0.1:8000",)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_can_be_pointed_at_a_server_of_ones_own(path: Path) -> None:
    loaded = load_run(str(path), urls=["http://127.0.0.1:8000"])
    assert loaded.urls == ("http://127.0.0.1:8000",)


def test_several_urls_become_urls(tmp_path: Path) -> None:
    urls = ["http://127.0.0.1:8000", "http://127.0.0.1:8001"]
    assert load_run(saved(tmp_path, RUN_YAML), urls=urls).urls == tuple(urls)


def test_the_allow_list_gets_origins_without_paths(tmp_path: Path) -> None:
    urls = ["http://127.0.0.1:8000/v1", "http://[::1]:8001"]
    loaded = load_run(saved(tmp_path, RUN_YAML), urls=urls)
    assert loaded.origins == ("http://127.0.0.1:8000", "http://[::1]:8001")
    allowed = AllowList.parse(",".join(loaded.origins))
    assert all(allowed.allows(url) for url in urls)


def test_a_secret_beside_the_run_is_created_before_it_in_the_same_namespace(
    tmp_path: Path,
) -> None:
    loaded = load_run(saved(tmp_path, RUN_YAML, SECRET_YAML))
    assert [kind for kind, _ in loaded.objects] == [SECRET, RUN]
    assert [d["metadata"]["namespace"] for _, d in loaded.objects] == ["default", "default"]


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ((RUN_YAML, RUN_YAML), "2 documents of kind BenchmarkRun; 1 is needed"),
        ((SECRET_YAML,), "0 documents of kind BenchmarkRun; 1 is needed"),
        ((RUN_YAML, "kind: Deployment\n"), "kind 'Deployment' stands beside the run"),
        ((RUN_YAML.replace("concurrency: 4", "concurrency: 0"),), "spec.phases"),
        (("a: [",), "no YAML"),
    ],
)
def test_a_file_that_cannot_be_run_is_refused_with_the_place(
    tmp_path: Path, documents: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ManifestError, match=message):
        load_run(saved(tmp_path, *documents))


def test_every_problem_is_named_not_only_the_first(tmp_path: Path) -> None:
    text = RUN_YAML.replace("concurrency: 4", "concurrency: 0").replace("isl: 512", "isl: -1")
    with pytest.raises(ManifestError) as refused:
        load_run(saved(tmp_path, text))
    assert len(str(refused.value).splitlines()) >= 2


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ManifestError, match=r"nowhere\.yaml"):
        load_run("nowhere.yaml")

"""A finished run as one page: what was really stored is enough for everything that it shows."""

from __future__ import annotations

from support.bed import Bed, manifest
from tare.kube.port import RUN
from tare.results.archive import gather, pack, unpack
from tare.results.report.page import page_of
from tare.results.report.render import to_html


async def test_the_page_of_a_run_shows_its_cells_its_requests_and_what_was_done(bed: Bed) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, "--itl", "1ms", "--ttft-overhead", "2ms")
    document = manifest(
        sweep={"grid": {"phases.profiling.concurrency": [2, 4]}},
        trials={"count": 3, "order": "Interleaved"},
        goals=[{"metric": "time_to_first_token", "statistic": "p99", "max": "10s"}],
    )
    document["spec"]["endpoint"] |= {"resetKvCache": True, "serverProfiler": True}
    document["spec"]["phases"][1]["requests"] = 24
    await bed.submit(namespace, document)
    assert (await bed.finished(namespace))["phase"] == "Succeeded"
    results = await gather(bed.cluster, await bed.cluster.get(RUN, namespace, "run"))
    assert results is not None

    page = page_of(results)

    assert [row[0] for row in page.results.rows] == ["concurrency=2", "concurrency=4"]
    assert [row[1] for row in page.results.rows] == ["72/72", "72/72"]
    assert all("±" in row[3] for row in page.results.rows), "three trials have an interval"
    assert page.goals is not None
    assert page.goals.tones == ["good"]
    assert "phases.profiling.concurrency" in page.figures[0].chart
    for cell in page.cells:
        assert len(cell.figures) == 2, "histograms and single requests were stored"
        trials, _, hooks = cell.tables
        assert [row[7] for row in trials.rows] == ["Proven"] * 3
        resets = [row for row in hooks.rows if row[0] == "reset"]
        assert [row[1:3] for row in resets] == [(s.pod, "3/3") for s in servers]
    assert to_html(unpack(pack(results))) == to_html(results)

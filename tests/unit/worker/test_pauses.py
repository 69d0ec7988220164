from __future__ import annotations

import gc
import itertools

from tare.worker.pauses import GcPauses


def test_collections_between_start_and_stop_are_timed() -> None:
    pauses = GcPauses(clock=itertools.count(0, 250).__next__)
    gc.collect()
    pauses.start()
    pauses.start()
    gc.collect()
    pauses.stop()
    pauses.stop()
    gc.collect()
    assert (pauses.histogram.count, pauses.histogram.maximum) == (1, 250)


def test_a_collection_that_began_before_is_left_out() -> None:
    pauses = GcPauses()
    pauses._see("stop", {})
    assert pauses.histogram.count == 0

"""Fills the description of a dataset that the cache plan is made from."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final

from tare.plan.cache.outline import Frame, MarkerOutline, Outline, Shape, compact
from tare.plan.stream import integer_below
from tare.plan.turns import TurnPlan
from tare.workload.conversation import lengths_of
from tare.workload.vocabulary import WORDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from tare.plan.order import DatasetOrder
    from tare.workload.conversation import Conversations
    from tare.workload.sizes import TokenSizes

__all__ = ["measure_frame", "outline_of"]

_CHARACTERS: Final = 4
"""Of a token of English text, about."""

Messages = list[dict[str, str]]


def outline_of(dataset: DatasetOrder, texts: Conversations, *, chat: bool) -> Outline:
    """Describe a dataset; of one with very many different lengths only the beginning."""
    sizes = texts.sizes
    runs, described = compact(_shapes(dataset))
    verbatim = dataset.system_prompt is not None
    counted = sizes.system is not None or not verbatim
    return Outline(
        entries=dataset.entries,
        runs=runs,
        described=described,
        exact=sizes.exact_words and counted,
        system=_system(dataset, sizes) if chat else 0,
        verbatim=verbatim,
        context=(dataset.user_context or 0) if chat else 0,
        pool=dataset.pool_length or 0,
        alike=_alike(max(dataset.entries, dataset.pool_size or 0)),
        marker=_marker(texts),
        frame=sizes.frame,
        chat=chat,
    )


async def measure_frame(
    ids: Callable[[Messages | str], Awaitable[Sequence[int]]],
    dataset: DatasetOrder,
    sizes: TokenSizes,
    *,
    chat: bool,
) -> Frame | None:
    """Find out what the template adds, from prompts of single words that differ in one place.

    Whatever `ids` raises ends it. None when the tokens do not come apart where the texts do.
    """
    short = (word for word in WORDS if word not in sizes.longer_first)
    one, other = next(short, ""), next(short, "")
    if not other:
        return None
    if not chat:
        start = _common(await ids(one), await ids(other))
        return Frame(starts=(start,), total=len(await ids(one)) - 1)
    roles = ["system"] * dataset.has_system + ["user"] * (dataset.user_context is not None)
    roles.append("user")
    base = [{"role": role, "content": one} for role in roles]
    plain = await ids(base)
    starts = []
    for place in range(len(base)):
        varied = [dict(message) for message in base]
        varied[place]["content"] = other
        starts.append(_common(plain, await ids(varied)) - place)
    total = len(plain) - len(base)
    if not all(0 <= start <= total for start in starts):
        return None
    longer = [*base, {"role": "assistant", "content": one}, {"role": "user", "content": one}]
    continued = await ids(longer)
    return Frame(
        starts=tuple(starts),
        total=total,
        turn=len(continued) - len(plain) - 2,
        tail=len(plain) - _common(plain, continued),
    )


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    pairs = zip(left, right, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _shapes(dataset: DatasetOrder) -> Iterator[tuple[int, Shape]]:
    if _all_alike(dataset):
        # A worker's start-up is part of the product: a million entries need no million draws.
        yield dataset.entries, Shape(turns=(lengths_of(dataset, 0),))
        return
    plan = None if _single(dataset) else TurnPlan(dataset)
    for entry in range(dataset.entries):
        group = 0
        if dataset.pool_size is not None:
            group = integer_below(dataset.pool_size, dataset.seed, "pool", entry)
        number = plan.turns(entry) if plan is not None else 1
        turns = tuple(lengths_of(dataset, entry, turn) for turn in range(number))
        yield 1, Shape(turns=turns, group=group)


def _all_alike(dataset: DatasetOrder) -> bool:
    fixed = dataset.isl.value is not None and dataset.osl.value is not None
    return fixed and _single(dataset) and dataset.pool_size is None


def _single(dataset: DatasetOrder) -> bool:
    return dataset.turns.continue_probability is None and dataset.turns.mean == 1


def _system(dataset: DatasetOrder, sizes: TokenSizes) -> int:
    if dataset.system_prompt is None:
        return dataset.shared_system or 0
    return sizes.system or max(len(dataset.system_prompt) // _CHARACTERS, 1)


def _alike(entries: int) -> int:
    """Return how many first words texts can have in common: they spell the entry's number."""
    return 0 if entries <= len(WORDS) else 1 if entries <= len(WORDS) ** 2 else 2


def _marker(texts: Conversations) -> MarkerOutline | None:
    marker = texts.marker
    if marker is None:
        return None
    tokens = texts.sizes.marker
    least, most = texts.sizes.marker_range or (tokens, tokens)
    return MarkerOutline(
        kind="rid" if marker.kind == "rid" else "warmup",
        in_system=marker.place.in_system,
        at_end=marker.place.at_end,
        tokens=tokens,
        less=tokens - least,
        more=most - tokens,
        salt=marker.carrier == "salt",
        by_phase=marker.scope == "TrajectoryAndPhase",
    )

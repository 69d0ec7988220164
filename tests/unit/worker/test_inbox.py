from __future__ import annotations

import asyncio
import contextlib
from itertools import product

from support.eventually import eventually
from support.scripted_operator import ScriptedOperator
from tare.measure.messages import CommandKind, Identity, Register, Wait, WorkerState
from tare.net.origin import parse_base_url
from tare.worker.inbox import Inbox

WHO = Identity(run_uid="u", cell=0, trial=0, attempt=1, index=0, pod_uid="p", pod_name="w-0")


async def give_up_asking(inbox: Inbox, operator: ScriptedOperator, message: Wait) -> None:
    """Ask, and stop waiting for the answer once the operator holds the request."""
    asking = asyncio.create_task(inbox.wait(message, patience=1))
    await operator.until(message.state, message.phase)
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking


async def test_a_worker_whose_state_changes_again_and_again_needs_two_connections() -> None:
    async with ScriptedOperator() as operator:
        inbox = Inbox(parse_base_url(operator.url), "token")
        await inbox.register(Register(worker=WHO), patience=1)
        states = (WorkerState.READY, WorkerState.RUNNING, WorkerState.DRAINED)
        for phase, state in product(range(4), states):
            message = Wait(worker=WHO, state=state, phase=phase)
            await give_up_asking(inbox, operator, message)
        assert inbox._pool.opened == 2
        inbox.close()


async def test_a_request_that_was_given_up_is_never_sent_to_a_restarted_operator() -> None:
    async with ScriptedOperator() as operator:
        inbox = Inbox(parse_base_url(operator.url), "token")
        await inbox.register(Register(worker=WHO), patience=1)
        message = Wait(worker=WHO, state=WorkerState.RUNNING, phase=0)
        await give_up_asking(inbox, operator, message)
    again = ScriptedOperator()
    again.port = operator.port
    async with again as operator:
        operator.tell(CommandKind.FINISH)
        await inbox.register(Register(worker=WHO), patience=1)
        message = Wait(worker=WHO, state=WorkerState.DRAINED, phase=0)
        assert (await inbox.wait(message, patience=1)).do is CommandKind.FINISH
        assert [wait.state for wait in operator.waits] == [WorkerState.DRAINED]
        inbox.close()


async def test_nothing_of_a_closed_inbox_is_left_at_the_operator() -> None:
    async with ScriptedOperator() as operator:
        inbox = Inbox(parse_base_url(operator.url), "token")
        await inbox.register(Register(worker=WHO), patience=1)
        message = Wait(worker=WHO, state=WorkerState.RUNNING, phase=0)
        await give_up_asking(inbox, operator, message)
        assert operator.held == 1
        inbox.close()

        async def nothing_held() -> bool:
            return operator.held == 0

        await eventually(nothing_held, 5, lambda: "the request is still held", every=0.005)

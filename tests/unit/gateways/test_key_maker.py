"""Secrets are drawn off the event loop, one at a time."""

import asyncio
import threading

import pytest

from goqueue.gateways.key_maker import KeyMaker, NewSecret
from goqueue.model import KeyId


def test_secrets_that_are_asked_for_together_are_computed_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computing = threading.Semaphore(1)
    drawn: list[int] = []
    draw_now = KeyMaker.draw_now

    def draw_alone(maker: KeyMaker, key: KeyId) -> NewSecret:
        assert computing.acquire(blocking=False), "two at a time"
        drawn.append(threading.get_ident())
        try:
            return draw_now(maker, key)
        finally:
            computing.release()

    monkeypatch.setattr(KeyMaker, "draw_now", draw_alone)

    async def draw_all() -> list[NewSecret]:
        maker = KeyMaker(b"s" * 32)
        return await asyncio.gather(*(maker.draw(maker.new_id()) for _ in range(8)))

    assert len({secret.key for secret in asyncio.run(draw_all())}) == 8
    assert threading.get_ident() not in drawn

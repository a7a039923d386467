"""Traffic that does a little of everything, so that every metric has something to tell."""

import time

import httpx

__all__ = ["Traffic"]

POLLS_MAX = 100
_ATTEMPTS_MAX = 100
_PAUSE_S = 0.1
PRIORITIES = ("critical", "high", "normal", "low", "background")


class _Patient(httpx.HTTPTransport):
    """Asks again while a node or a leader is not ready."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        for _ in range(_ATTEMPTS_MAX):
            if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break
            response.read()
            response.close()
            time.sleep(_PAUSE_S)
            response = super().handle_request(request)
        return response


class Traffic:
    """Publishes, delays, consumes, settles, fails, commits and redrives, in rounds."""

    def __init__(self, url: str) -> None:
        self._api = httpx.Client(base_url=url, timeout=30, transport=_Patient())
        self._rounds = 0
        self._post("/topics", name="orders", num_partitions=1, max_deliveries=2)
        self._post("/topics", name="state", num_partitions=1, cleanup_policy="compact")

    def close(self) -> None:
        self._api.close()

    def go_round(self) -> None:
        """One round of everything."""
        self._rounds += 1
        self._publish()
        self._work()
        self._transact()
        self._read()
        self._post("/topics/orders/dlq/redrive", max=1)

    def _publish(self) -> None:
        messages: list[dict[str, object]] = [
            {"value": f"{self._rounds}", "key": "k", "priority": name} for name in PRIORITIES
        ]
        messages += [{"value": "soon", "delay": "50ms"}, {"value": "later", "delay": "1h"}]
        taken = self._post("/topics/orders/messages", messages=messages * 2)
        later = taken["results"][-1]
        place = f"/topics/orders/delayed/{later['partition']}/{later['offset']}"
        self._api.delete(place).raise_for_status()
        self._post("/topics/state/messages", messages=[{"value": "x", "key": "k"}])
        # A partition that is not there: refused, and counted.
        lost = {"messages": [{"value": "x", "partition": 9}]}
        assert self._api.post("/topics/orders/messages", json=lost).status_code == 404

    def _work(self) -> None:
        """As a member that is new in every round: it leaves one lease to run out."""
        joined = self._post("/groups/billing/join", client_id="test", topics=["orders"])
        member = {"member_id": joined["member_id"], "generation": joined["generation"]}
        self._post("/groups/billing/heartbeat", **member)
        query = f"member_id={member['member_id']}&timeout=5s&visibility_timeout=100ms"
        polled = self._api.get(f"/groups/billing/poll?{query}&max_messages=8")
        receipts = [each["receipt_handle"] for each in polled.raise_for_status().json()["messages"]]
        if len(receipts) >= 4:
            self._api.post("/messages/reject", json={"receipt_handle": receipts.pop()})
            self._api.post("/messages/nack", json={"receipt_handle": receipts.pop()})
            receipts.pop()
            self._api.post("/messages/ack/batch", json={"receipt_handles": receipts[1:]})
            self._api.post("/messages/ack", json={"receipt_handle": receipts[0]})
            self._wait_for_redelivery(query)
        # Nothing is left to wait for in a group of its own: a poll that is empty.
        self._post("/groups/idle/join", client_id="test", topics=["state"], start_position="latest")
        self._post("/groups/billing/leave", member_id=member["member_id"])
        self._post("/groups/streams/offsets", offsets={"orders": {"0": self._rounds}})

    def _wait_for_redelivery(self, query: str) -> None:
        """The lease that is left runs out, and the message comes again."""
        for _ in range(POLLS_MAX):
            polled = self._api.get(f"/groups/billing/poll?{query}&max_messages=100")
            messages = polled.raise_for_status().json()["messages"]
            if any(each["delivery_count"] > 1 for each in messages):
                return
        raise AssertionError("no lease ran out")

    def _transact(self) -> None:
        for end in ("commit", "abort"):
            produced = self._post("/producers/init", transactional_id="worker")
            producer = {**produced, "transactional_id": "worker"}
            self._post("/transactions/begin", **producer)
            self._post("/transactions/publish", **produced, topic="orders", value="together")
            self._post(f"/transactions/{end}", **producer)

    def _read(self) -> None:
        for topic in ("orders", "state"):
            place = f"/topics/{topic}/partitions/0/messages"
            self._api.get(place, params={"offset": 0, "limit": 5}).raise_for_status()

    def _post(self, path: str, **fields: object) -> dict[str, list[dict[str, object]]]:
        answer = self._api.post(path, json=fields)
        answer.raise_for_status()
        body: dict[str, list[dict[str, object]]] = answer.json()
        return body

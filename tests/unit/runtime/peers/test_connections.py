"""Links over real sockets: order, bounds, lives, certificates."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from goqueue.gateways import Endpoint
from goqueue.model import (
    ConnectPeers,
    Heartbeat,
    PeerConnected,
    PeerDisconnected,
    PeerEvent,
    PeerIdentity,
    PeerLane,
    PeerMessageReceived,
    Secret,
    Send,
)
from goqueue.runtime.cluster_links import reload_secrets
from goqueue.runtime.event_log import EventLog
from goqueue.runtime.peers import Credentials, PeerConnections, PeerNetwork
from goqueue.runtime.settings import ClusterSettings
from goqueue.runtime.tls import build_client_context, build_context
from tests.certificates import NEEDS_OPENSSL, Authority, Issued
from tests.free_ports import free_ports

SECRET = Secret("-".join(["secret"] * 3))
NEW = Secret("-".join(["another"] * 3))
PATIENCE_S = 15.0


class Broker:
    """The links of one broker, and what they reported."""

    def __init__(self, name: str, port: int, peers: list[int], **options: object) -> None:
        fields: dict[str, object] = {
            "endpoint": Endpoint("127.0.0.1", port),
            "peers": tuple(f"127.0.0.1:{each}" for each in peers),
            "credentials": Credentials(SECRET),
            **options,
        }
        network = PeerNetwork(**fields)  # type: ignore[arg-type]  # the fields of the network
        self.name = name
        self.port = port
        self.lines: list[bytes] = []
        self.links = PeerConnections(network, EventLog(self.lines.append), Random(port))
        self.events: list[PeerEvent] = []

    async def start(self, incarnation: int = 1) -> None:
        await self.links.open()
        await self.links.serve()
        self.identify(incarnation)

    def identify(self, incarnation: int = 1) -> None:
        """Say who this broker is: before, it refuses every link."""
        self.links.carry_out(
            ConnectPeers(
                identity=PeerIdentity(
                    broker=self.name,
                    directory=self.name.encode().hex().rjust(32, "0"),
                    incarnation=incarnation,
                    address=f"127.0.0.1:{self.port}",
                )
            )
        )

    def send(self, to: str, number: int, size: int = 0, lane: PeerLane = PeerLane.CONTROL) -> None:
        data = (bytes(size),) if size else ()
        message = Heartbeat(metadata_version=number)
        self.links.carry_out(Send(broker=to, message=message, data=data, lane=lane))

    def take(self) -> list[PeerEvent]:
        while self.links.inbox:
            self.events += self.links.inbox.take(16)
        return self.events

    def lanes(self) -> int:
        """How many lanes are open."""
        opened = sum(isinstance(each, PeerConnected) for each in self.take())
        ended = [each for each in self.events if isinstance(each, PeerDisconnected)]
        return opened - sum(not each.is_refused for each in ended)

    def numbers(self) -> list[int]:
        messages = [each.message for each in self.take() if isinstance(each, PeerMessageReceived)]
        return [each.metadata_version for each in messages if isinstance(each, Heartbeat)]


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110 - what is awaited is the state of sockets
            await asyncio.sleep(0.005)


def with_two(
    test: Callable[[Broker, Broker], Awaitable[None]],
    first: dict[str, object] | None = None,
    second: dict[str, object] | None = None,
) -> None:
    """Run a test with two brokers that know each other."""

    async def run() -> None:
        ports = free_ports(2)
        near = Broker("near", ports[0], [ports[1]], **(first or {}))
        far = Broker("far", ports[1], [ports[0]], **(second or {}))
        await near.start()
        await far.start()
        try:
            await test(near, far)
        finally:
            await near.links.stop(1)
            await far.links.stop(1)

    asyncio.run(run())


async def connected(*brokers: Broker) -> None:
    await until(lambda: all(each.lanes() == len(PeerLane) for each in brokers))


def test_a_broker_that_is_starting_says_so_and_is_dialled_again() -> None:
    async def run() -> None:
        ports = free_ports(2)
        near = Broker("near", ports[0], [ports[1]])
        far = Broker("far", ports[1], [])
        await far.links.open()
        await far.links.serve()
        await near.start()
        try:
            # Its refusal comes with the answer to the head, before any hello.
            await until(lambda: any(b"not_ready" in line for line in near.lines))
            far.identify()
            await connected(near, far)
        finally:
            await near.links.stop(1)
            await far.links.stop(1)

    asyncio.run(run())


def test_messages_of_a_lane_arrive_in_the_order_of_sending() -> None:
    async def test(near: Broker, far: Broker) -> None:
        await connected(near, far)
        for number in range(2000):
            near.send("far", number, size=number % 300)
        await until(lambda: len(far.numbers()) == 2000)
        assert far.numbers() == list(range(2000))

    with_two(test)


def test_an_end_that_is_not_handled_stops_being_read_and_loses_nothing() -> None:
    async def test(near: Broker, far: Broker) -> None:
        await connected(near, far)
        for number in range(60):
            near.send("far", number, size=1024 * 1024, lane=PeerLane.REPLICATION)
        # The control lane is not behind the full one.
        near.send("far", 1000)
        for _ in range(40):
            await asyncio.sleep(0.01)
        assert far.links.bytes_received_total < 50 * 1024 * 1024
        assert far.numbers()[0] == 1000
        await until(lambda: len(far.numbers()) == 61)
        assert far.numbers()[1:] == list(range(60))

    with_two(test)


def test_a_queue_that_is_full_ends_the_link_and_leaves_no_gap() -> None:
    async def test(near: Broker, far: Broker) -> None:
        await connected(near, far)
        for number in range(200):
            near.send("far", number, size=1024 * 1024, lane=PeerLane.REPLICATION)
        await until(lambda: any(isinstance(each, PeerDisconnected) for each in near.take()))
        await until(lambda: any(isinstance(each, PeerDisconnected) for each in far.take()))
        numbers = far.numbers()
        assert numbers == list(range(len(numbers)))
        assert len(numbers) < 200
        await connected(near, far)

    with_two(test)


@pytest.mark.long
def test_an_end_that_takes_nothing_for_ten_seconds_is_given_up_although_it_speaks() -> None:
    async def test(near: Broker, far: Broker) -> None:
        await connected(near, far)
        for number in range(55):
            near.send("far", number, size=1024 * 1024, lane=PeerLane.REPLICATION)
        began = asyncio.get_running_loop().time()
        while near.lanes() == len(PeerLane):
            # Nobody handles what comes to the far end, so it stops reading; it is not silent.
            far.send("near", 1, lane=PeerLane.REPLICATION)
            await asyncio.sleep(0.2)
            assert asyncio.get_running_loop().time() - began < 2 * PATIENCE_S
        assert asyncio.get_running_loop().time() - began > 8
        assert len(near.numbers()) > 20

    with_two(test)


def test_the_next_run_of_a_broker_ends_all_links_of_the_last_and_silences_it() -> None:
    async def run() -> None:
        first, second = free_ports(2)
        stays = Broker("stays", first, [])
        old = Broker("b", second, [first])
        await stays.start()
        await old.start()
        await connected(stays, old)
        for lane in PeerLane:
            old.send("stays", 1, lane=lane)
        await until(lambda: stays.links.messages_received_total == 3)
        # Not handled yet, and its next run connects from elsewhere.
        (other,) = free_ports(1)
        new = Broker("b", other, [first])
        await new.start(incarnation=2)
        await until(lambda: old.lanes() == 0)
        await connected(new)
        new.send("stays", 2)
        await until(lambda: 2 in stays.numbers())
        runs = [each.incarnation for each in stays.events if isinstance(each, PeerMessageReceived)]
        newest = next(
            index
            for index, each in enumerate(stays.events)
            if isinstance(each, PeerConnected) and each.incarnation == 2
        )
        messages = stays.events[newest:]
        assert all(
            each.incarnation == 2 for each in messages if isinstance(each, PeerMessageReceived)
        )
        assert runs[-1] == 2
        for each in (stays, old, new):
            await each.links.stop(1)

    asyncio.run(run())


def test_a_stopped_broker_is_reported_as_gone_once_nothing_listens_there() -> None:
    async def test(near: Broker, far: Broker) -> None:
        await connected(near, far)
        await far.links.stop(1)
        await until(
            lambda: any(isinstance(e, PeerDisconnected) and e.is_refused for e in near.take())
        )
        refused = [e for e in near.events if isinstance(e, PeerDisconnected) and e.is_refused]
        assert len(refused) == 1

    with_two(test)


def test_an_address_beyond_loopback_is_not_dialled_without_tls() -> None:
    async def run() -> None:
        (port,) = free_ports(1)
        broker = Broker("a", port, [])
        await broker.start()
        beyond = PeerIdentity(broker="a", directory="a" * 32, incarnation=1, address="a:1")
        broker.links.carry_out(ConnectPeers(identity=beyond, addresses=("192.0.2.1:7000",)))
        assert not asyncio.all_tasks() - {asyncio.current_task()}
        await broker.links.stop(1)

    asyncio.run(run())


def test_an_address_that_cannot_be_dialled_is_tried_again_and_stops_nothing() -> None:
    async def run() -> None:
        first, second = free_ports(2)
        near = Broker("near", first, [second])
        await near.start()
        own = PeerIdentity(broker="near", directory="0" * 32, incarnation=1, address="a:1")
        odd = ("[::1%lo]:1", "localhost:0", "[::ffff:127.0.0.1]:9")
        near.links.carry_out(ConnectPeers(identity=own, addresses=odd))
        far = Broker("far", second, [])
        await far.start()
        await connected(near, far)
        for each in (near, far):
            await each.links.stop(1)

    asyncio.run(run())


def test_brokers_with_different_secrets_never_connect() -> None:
    async def test(near: Broker, far: Broker) -> None:
        await until(lambda: near.links.refused_total + far.links.refused_total >= 2)
        assert near.take() == far.take() == []

    with_two(test, second={"credentials": Credentials(Secret("another-secret"))})


def test_brokers_find_each_other_by_any_secret_that_the_other_accepts() -> None:
    """The first two rounds of a rotation, in either order of the brokers."""

    async def test(near: Broker, far: Broker) -> None:
        await connected(near, far)

    both: dict[str, object] = {"credentials": Credentials(SECRET, NEW)}
    with_two(test, first=both)
    with_two(test, first=both, second={"credentials": Credentials(NEW, SECRET)})


def test_links_that_a_removed_secret_proved_end_and_are_opened_by_the_other() -> None:
    async def test(near: Broker, far: Broker) -> None:
        def are_ended() -> bool:
            words = b"the secret that proved it was replaced"
            return any(words in line for line in near.lines + far.lines)

        await connected(near, far)
        for secrets in ((SECRET, NEW), (NEW, SECRET)):
            for each in (near, far):
                each.links.replace_secrets(secrets)
        await asyncio.sleep(0.05)
        assert not are_ended()
        for each in (near, far):
            each.links.replace_secrets((NEW,))
        await until(are_ended)
        await connected(near, far)

    with_two(test)


def test_a_broker_that_has_only_the_removed_secret_is_kept_out() -> None:
    async def test(near: Broker, far: Broker) -> None:
        await connected(near, far)
        near.links.replace_secrets((NEW,))
        await until(lambda: near.lanes() == far.lanes() == 0)
        refused = near.links.refused_total
        await until(lambda: near.links.refused_total > refused)
        assert near.lanes() == 0

    with_two(test, second={"credentials": Credentials(SECRET)})


@pytest.mark.parametrize(
    ("text", "reason"), [("a b", b"cannot be sent"), ("", b"does not hold one to 2 lines")]
)
def test_a_secret_file_that_cannot_be_used_replaces_nothing_and_the_log_says_why(
    tmp_path: Path, text: str, reason: bytes
) -> None:
    path = tmp_path / "secret"
    path.write_text(text)
    path.chmod(0o600)

    async def test(near: Broker, far: Broker) -> None:
        await connected(near, far)
        log = EventLog(near.lines.append)
        reload_secrets(ClusterSettings(secret_file=str(path)), near.links, log)
        assert b"cluster_secret_reload_failed" in near.lines[-1]
        assert reason in near.lines[-1]
        assert near.links.credentials.prove(f"Bearer {SECRET.reveal()}", None)

    with_two(test)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("links") / "ca")


def tls_of(issued: Issued, authority: Authority, port: int) -> dict[str, object]:
    """A broker that is proved by its certificate only."""
    settings = issued.settings(ca_file=str(authority.ca_file), client_auth="require-verify")
    server, _ = build_context(settings, ("http/1.1",))
    client = build_client_context(settings)
    return {
        "endpoint": Endpoint("127.0.0.1", port, lambda: server),
        "credentials": Credentials(Secret(""), accepts_certificates=True),
        "client_tls": lambda: client,
    }


def connect_with(
    near: tuple[Issued, Authority], far: tuple[Issued, Authority], patience_s: float = 1.5
) -> int:
    """How many lanes two brokers with these certificates open within some attempts."""

    async def run() -> int:
        ports = free_ports(2)
        brokers = [
            Broker("near", ports[0], [ports[1]], **tls_of(*near, ports[0])),
            Broker("far", ports[1], [ports[0]], **tls_of(*far, ports[1])),
        ]
        for each in brokers:
            await each.start()
        try:
            async with asyncio.timeout(patience_s):
                await connected(*brokers)
        except TimeoutError:
            pass
        lanes = brokers[0].lanes()
        for each in brokers:
            await each.links.stop(1)
        return lanes

    return asyncio.run(run())


@NEEDS_OPENSSL
def test_certificates_of_one_authority_that_name_their_hosts_prove_brokers(
    authority: Authority,
) -> None:
    usage = "serverAuth,clientAuth"
    near, far = authority.issue("near", usage=usage), authority.issue("far", usage=usage)
    opened = connect_with((near, authority), (far, authority), patience_s=60)
    assert opened == len(PeerLane)


@NEEDS_OPENSSL
def test_a_certificate_of_another_host_or_authority_proves_nobody(
    authority: Authority, tmp_path: Path
) -> None:
    usage = "serverAuth,clientAuth"
    good = authority.issue("good", usage=usage)
    elsewhere = authority.issue("elsewhere", "DNS:elsewhere.example", usage=usage)
    assert connect_with((good, authority), (elsewhere, authority)) == 0
    stranger = Authority(tmp_path / "other")
    assert connect_with((good, authority), (stranger.issue("x", usage=usage), stranger)) == 0

"""Token, size, rate and patience, with a real server."""

import base64
import socket
import time

import pytest

from bopl._errors import UsageError
from bopl.serving.admission import AllowedHosts, ClientRates, RateLimit, client_of
from bopl.serving.server import read_token, serve
from bopl.serving.settings import LoopSettings
from loops import Server, make_loop

TOKEN = "correct-horse-battery-staple"
TIMEOUT_S = 0.7


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with a token and little patience; it decides by chance."""
    path = tmp_path_factory.mktemp("limits") / "loop"
    settings = {"max_body_bytes": 2000, "request_timeout_s": TIMEOUT_S, "max_connections": 20, "token_file": "token"}
    make_loop(path, actions=("a", "b"), max_requests_per_second=30.0, **settings)
    (path / "token").write_text(TOKEN + "\n", encoding="utf8")
    with Server(path) as running:
        yield running


@pytest.fixture
def client(server):
    with server.client(Authorization=f"Bearer {TOKEN}") as opened:
        yield opened


def connect(server):
    host, port = server.address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=10)


def read_all(connection):
    pieces = []
    while piece := connection.recv(65_536):
        pieces.append(piece)
    return b"".join(pieces)


def test_the_right_token_is_let_in(client):
    assert client.decide()[0] == 200
    assert client.get("/metrics")[0] == 200


@pytest.mark.parametrize("given", [None, "Bearer", "Bearer wrong-horse-battery-staple", TOKEN, "Basic !!", "Bearer ü"])
@pytest.mark.parametrize("path", ["/decide", "/metrics", "/"])
def test_a_wrong_token_is_refused_everywhere(server, given, path):
    headers = {} if given is None else {"Authorization": given.encode("latin-1")}
    with server.client(**headers) as client:
        status, answer = client.send("POST" if path == "/decide" else "GET", path, b"{}")
        assert status == 401
        assert answer["error"] == "the request needs the loop's token, as in 'Authorization: Bearer …'."
        assert client.headers["www-authenticate"].startswith("Bearer")


def test_a_browser_gives_the_token_as_its_password(server):
    given = base64.b64encode(f"me:{TOKEN}".encode()).decode()
    with server.client(Authorization=f"Basic {given}") as client:
        assert client.get("/")[0] == 200


def test_health_needs_no_token(server):
    with server.client() as client:
        assert client.get("/health") == (200, {"status": "ok"})


@pytest.mark.parametrize("size", [2001, 10_000_000])
def test_a_large_body_is_refused_and_the_server_goes_on(server, client, size):
    status, answer = client.send("POST", "/decide", b"x" * size)
    assert (status, answer["error"]) == (413, "the body is larger than 2000 bytes.")
    with server.client(Authorization=f"Bearer {TOKEN}") as other:
        assert other.decide()[0] == 200


def test_too_many_requests_are_refused_for_a_while(client):
    answers = [client.send("POST", "/reward", b"{}") for _ in range(150)]
    refused = [answer for status, answer in answers if status == 429]
    assert {status for status, _ in answers} == {400, 429}
    assert refused[0]["error"] == "more than 30 requests a second; try again."
    time.sleep(0.5)
    assert client.decide()[0] == 200


def test_headers_that_do_not_end_are_not_waited_for(server, client):
    began = time.perf_counter()
    with connect(server) as slow:
        slow.sendall(b"POST /decide HTTP/1.1\r\nHost: x\r\n")
        assert client.decide()[0] == 200, "others are served meanwhile"
        assert read_all(slow).startswith(b"HTTP/1.1 408")
    assert time.perf_counter() - began < 10 * TIMEOUT_S


def test_a_body_that_does_not_end_is_not_waited_for(server, client):
    with connect(server) as slow:
        head = (
            f"POST /decide HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
        )
        slow.sendall(head.encode() + b"Content-Length: 100\r\n\r\n{")
        assert client.decide()[0] == 200
        answer = read_all(slow)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"the body did not arrive within 0.7 seconds." in answer


def test_headers_that_are_too_long_are_refused(server, client):
    with connect(server) as other:
        other.sendall(b"GET /health HTTP/1.1\r\nX: " + b"x" * 100_000)
        assert read_all(other).startswith(b"HTTP/1.1 4")
    assert client.decide()[0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 the hello of TLS\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",  # without a host
        b"GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"POST /decide HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        f"POST /decide HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n".encode(),
    ],
)
def test_what_is_not_http_is_refused_in_one_sentence_and_not_logged(server, client, sent):
    with connect(server) as other:
        other.sendall(sent)
        answer = read_all(other)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.endswith(b'{"error": "the request is not valid HTTP/1.1."}')
    assert client.decide()[0] == 200
    assert "Invalid HTTP" not in server.errors


def test_too_many_connections_are_refused_and_room_comes_back(server, client):
    crowd = [connect(server) for _ in range(25)]
    try:
        with server.client(Authorization=f"Bearer {TOKEN}") as late:
            assert late.decide()[0] == 503
    finally:
        for one in crowd:
            one.close()
    time.sleep(0.1)
    assert client.decide()[0] == 200


def test_a_name_that_somebody_else_gave_this_machine_is_refused(tmp_path):
    make_loop(tmp_path / "loop", actions=("a", "b"), allowed_hosts=("shop.example",))
    with Server(tmp_path / "loop") as open_server, open_server.client() as client:
        for path in ("/decide", "/metrics", "/", "/health"):
            status, answer = client.send("POST" if path == "/decide" else "GET", path, b"{}", Host="evil.example:8380")
            assert status == 421
            assert "'evil.example:8380' are not answered" in answer["error"]
        assert client.send("POST", "/decide", {"context": {}}, Host="shop.example")[0] == 200
        assert client.decide()[0] == 200


# -- Without a server -------------------------------------------------------------------------------------------------


def test_the_rate_is_kept_over_time():
    now = 0.0
    limit = RateLimit(10.0, lambda: now)
    n_taken = 0
    for step in range(1000):
        now = step / 100
        n_taken += limit.take() == 0.0
    assert n_taken == pytest.approx(10 + 100, abs=2)
    assert all(RateLimit(0.0).take() == 0.0 for _ in range(1000))


def test_an_address_has_a_rate_of_its_own():
    now = 0.0
    rates = ClientRates(2.0, clock=lambda: now)
    assert [rates.take("192.0.2.1") > 0.0 for _ in range(3)] == [False, False, True]
    assert rates.take("192.0.2.2") == 0.0
    now = 0.5
    assert rates.take("192.0.2.1") == 0.0


def test_many_addresses_do_not_let_the_table_grow_or_push_busy_ones_out():
    now = 0.0
    rates = ClientRates(2.0, max_clients=3, clock=lambda: now)
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
        assert rates.take(address) == rates.take(address) == 0.0
    crowd = [rates.take(f"198.51.100.{number}") for number in range(200)]
    assert len(rates) == 3
    assert [wait > 0.0 for wait in crowd] == [False, False] + 198 * [True]  # they share one bucket
    assert rates.take("192.0.2.1") > 0.0
    now = 2.0  # all have been quiet for long
    assert rates.take("198.51.100.7") == 0.0
    assert len(rates) == 3


def test_no_limit_keeps_no_table():
    rates = ClientRates(0.0)
    assert all(rates.take("192.0.2.1") == 0.0 for _ in range(100))
    assert len(rates) == 0


def test_addresses_of_one_subscriber_are_one_client():
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:2") != client_of("2001:db8:0:1::1")
    assert client_of("::ffff:192.0.2.1") == client_of("192.0.2.1")
    assert client_of("fe80::1%eth0") == client_of("fe80::2")
    assert client_of("testclient") == "testclient"


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8380", "a.localhost", "127.0.0.1:8380", "[::1]:8380", "10.0.0.7"]
)
def test_local_names_and_addresses_are_answered_to(host):
    assert AllowedHosts(["127.0.0.1"]).allows(host)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8380", "localhost.evil.example", "127.0.0.1.evil.example"]
)
def test_other_names_are_answered_to_only_if_they_are_listed(host):
    assert not AllowedHosts(["127.0.0.1"]).allows(host)
    assert AllowedHosts(["*"]).allows(host)
    assert AllowedHosts([host.partition(":")[0].upper()]).allows(host)
    assert AllowedHosts(["*.evil.example"]).allows(host) == host.endswith(".evil.example")


def test_an_open_address_needs_a_token(tmp_path, monkeypatch):
    monkeypatch.delenv("BOPL_TOKEN", raising=False)
    make_loop(tmp_path / "loop", actions=("a",))
    with pytest.raises(UsageError, match=r"host '0\.0\.0\.0' can be reached from other machines"):
        serve(tmp_path / "loop", LoopSettings(host="0.0.0.0"))


@pytest.mark.parametrize("token", ["short", "with a space inside it", "ümlaut-ümlaut-ümlaut"])
def test_a_weak_token_is_refused(tmp_path, monkeypatch, token):
    monkeypatch.setenv("BOPL_TOKEN", token)
    with pytest.raises(UsageError, match="at least 16 ASCII characters"):
        read_token(LoopSettings(), tmp_path)


def test_a_token_file_that_is_not_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv("BOPL_TOKEN", raising=False)
    with pytest.raises(UsageError, match="the token cannot be read from"):
        read_token(LoopSettings(token_file="nowhere"), tmp_path)

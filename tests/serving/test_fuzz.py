"""Malformed requests by the thousand: a status code and one sentence each, and the server goes on."""

import json
import random
import string

import pytest

from loops import RECORD, Server, make_loop

PATHS = ("/decide", "/reward", "/activate")
VALID = {
    "/decide": {"event": "e", "context": RECORD, "eligible": ["a", "b"], "active": True},
    "/reward": {"event": "e", "value": 1.5, "key": "k"},
    "/activate": {"event": "e"},
}
ODD = [
    None,
    True,
    -1,
    0,
    1e308,
    10**30,
    -0.0,
    "",
    " ",
    "\u0000",
    "\ud800",
    "\u202e",
    "'; DROP TABLE decision; --",
    "../../../etc/passwd",
    "__import__('os').system('true')",
    "x" * 5000,
    [],
    {},
    [[]],
    [{}],
    {"": ""},
    {"__class__": "x"},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    make_loop(tmp_path_factory.mktemp("fuzz") / "loop", actions=("a", "b"))
    with Server(tmp_path_factory.getbasetemp() / "fuzz0" / "loop") as running:
        yield running


def spoiled(rng, path):
    """Return a body that is a valid one with something wrong, or no JSON at all."""
    kind = rng.randrange(7)
    body = json.loads(json.dumps(VALID[path]))
    if kind == 0:
        body[rng.choice(list(body))] = rng.choice(ODD)
    elif kind == 1:
        del body[rng.choice(list(body))]
    elif kind == 2:
        body["".join(rng.choices(string.printable, k=rng.randrange(12)))] = rng.choice(ODD)
    elif kind == 3:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
    elif kind == 4:
        text = bytearray(json.dumps(body).encode())
        for _ in range(rng.randrange(1, 6)):
            text[rng.randrange(len(text))] = rng.randrange(256)
        return bytes(text)
    elif kind == 5:
        return json.dumps(body).encode()[: rng.randrange(1, 60)]
    else:
        nest = rng.choice(["[", '{"a":', "[1,"])
        return (nest * rng.randrange(1, 9000)).encode()[:60_000]
    return json.dumps(body).encode()


def attack(server, n_requests, seed):
    """Return how often each status came."""
    rng, found = random.Random(seed), {}
    with server.client() as client:
        for _ in range(n_requests):
            path = rng.choice(PATHS)
            body = spoiled(rng, path)
            status, answer = client.send("POST", path, body)
            assert status in (200, 400, 404, 422), (status, path, body[:200])
            if status != 200:
                assert list(answer) == ["error"]
                assert answer["error"].endswith((".", "?")), answer
                assert "\n" not in answer["error"]
                assert "Traceback" not in answer["error"]
                assert len(answer["error"]) < 500
            found[status] = found.get(status, 0) + 1
        assert client.decide("after")[0] == 200
    assert server.process.poll() is None
    assert server.errors == ""
    return found


def test_a_thousand_malformed_requests_are_refused_in_one_sentence(server):
    found = attack(server, 1000, seed=0)
    assert found[400] > 500


@pytest.mark.slow
def test_ten_thousand_malformed_requests_are_refused_in_one_sentence(server):
    assert attack(server, 10_000, seed=1)[400] > 5000

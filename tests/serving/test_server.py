"""The real server, in a process of its own: decisions, rewards, activations, metrics, hot swaps."""

import threading
from dataclasses import replace

import pytest

from bopl.serving.draws import draw_of
from bopl.serving.events import EventStore
from loops import RECORD, at_once, wait_until


@pytest.fixture
def store(loop, server):
    """The events of the server, read beside it."""
    with EventStore(loop.events) as opened:
        yield opened


def test_an_answer_is_on_disk_with_its_propensity_to_the_last_bit(client, store, loop):
    status, answer = client.decide("order-1")
    assert status == 200
    row = store.decision("order-1")
    assert answer == {
        "event": "order-1",
        "action": row.action,
        "propensity": row.propensity,
        "policy": row.policy,
        "is_fallback": False,
    }
    assert row.context == RECORD
    assert row.draw == draw_of(7, "order-1")


def test_a_decision_can_be_replayed(client, store, loop):
    eligible = [None, ["book", "game"], ["film"]]
    contexts = [RECORD, {"country": "FR", "vip": False}, {"age": None, "country": "unseen", "vip": True, "more": [1]}]
    for number, (allowed, context) in enumerate(zip(eligible, contexts, strict=True)):
        client.decide(f"replay-{number}", context, eligible=allowed)
        row = store.decision(f"replay-{number}")
        mixture = loop.mixture(store.promotion())
        chosen = mixture.decide(row.context, row.eligible, row.draw, row.decider)
        assert (chosen.action, chosen.propensity) == (row.action, row.propensity)
        assert (chosen.policy_prob, chosen.baseline_prob) == (row.policy_prob, row.baseline_prob)
        assert row.decider == "mixture"


def test_the_same_event_gives_the_same_answer_whatever_is_asked(client):
    first = client.decide("again")[1]
    assert client.decide("again", {"age": 99, "country": "IT", "vip": False}, eligible=["film"])[1] == first


def test_many_clients_with_one_event_get_one_answer(server, store):
    contexts = [{"age": number, "country": "DEFRIT"[number % 3 * 2 :][:2], "vip": True} for number in range(8)]
    answers = at_once(server, lambda client, number: client.decide("crowd", contexts[number]), 8)
    assert {status for status, _ in answers} == {200}
    assert len({str(answer) for _, answer in answers}) == 1
    assert sum(row.event == "crowd" for row in store.decisions()) == 1


def test_an_event_without_an_id_gets_one(client):
    events = {client.decide()[1]["event"] for _ in range(5)}
    assert len(events) == 5


def test_a_bad_record_falls_back_and_is_counted(client, store):
    status, answer = client.decide("bad", {"age": {"no": "number"}, "country": "DE", "vip": True})
    assert status == 200
    assert answer["is_fallback"]
    assert answer["propensity"] == pytest.approx(1 / 3)
    row = store.decision("bad")
    assert (row.fallback, row.decider, row.policy_prob) == ("bad_record", "uniform", None)
    assert client.decide("empty", {})[1]["is_fallback"]
    assert 'bopl_fallbacks_total{reason="bad_record"}' in client.get("/metrics")[1]


def test_rewards_are_idempotent_and_those_without_a_decision_are_kept(client, store):
    client.decide("paid")
    assert client.reward("paid", 0.5) == (200, {"event": "paid", "key": "", "value": 0.5, "status": "ok"})
    assert client.reward("paid", 0.75)[1] == {"event": "paid", "key": "", "value": 0.5, "status": "duplicate"}
    assert client.reward("paid", 0.25, key="second")[1]["status"] == "ok"
    assert client.reward("never-decided", 1.0)[1]["status"] == "unknown"
    assert [(row.key, row.value, row.n_received) for row in store.rewards("paid")] == [
        ("", 0.5, 2),
        ("second", 0.25, 1),
    ]
    assert len(store.rewards("never-decided")) == 1


def test_a_reward_after_its_decision_was_joined_is_late(client, store):
    client.decide("joined")
    store.set_watermark(store.decision("joined").time)
    assert client.reward("joined")[1]["status"] == "late"


def test_a_decision_may_be_activated_later(client, store):
    client.decide("shown-later", active=False)
    assert store.decision("shown-later").is_active is False
    for _ in range(2):
        assert client.send("POST", "/activate", {"event": "shown-later"})[0] == 200
    status, answer = client.send("POST", "/activate", {"event": "never"})
    assert (status, answer["error"]) == (404, "there is no decision for event 'never'.")


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"context": RECORD, "eligible": ["car"]}, 422, "eligible lists 'car', unknown here"),
        ({"context": RECORD, "eligible": []}, 422, "eligible is empty"),
        ({"context": RECORD, "action": "book"}, 422, "are for apprentice mode"),
        ({"context": [1, 2]}, 400, "context must be an object"),
        ({"contxt": {}}, 400, "context is missing"),
        ({"context": {}, "evnt": "a"}, 400, "unknown field \"evnt\". Did you mean 'event'?"),
        ({"context": {}, "event": ""}, 400, "event must be 1 to 200 printable characters"),
        ({"context": {}, "event": "../../etc/passwd\n"}, 400, "event must be 1 to 200 printable characters"),
        ({"context": {}, "event": 7}, 400, "event must be 1 to 200 printable characters"),
        ({"context": {}, "active": 1}, 400, "active must be true or false"),
        (b'{"context": {"age": NaN}}', 400, "NaN is not JSON; send null"),
        (b'{"context": {"age": 1e999}}', 400, "the body is not valid JSON: it has a number that is too large."),
        (b'{"context": {"age": ' + b"9" * 5000 + b"}}", 400, "it has a number that is too large."),
        (b'{"context": {"a": "\\ud800"}}', 400, "the body must be JSON in UTF-8"),
        (b"\xff\xfe", 400, "the body must be JSON in UTF-8"),
        (b"[" * 60_000, 400, "nested too deeply"),
        (b'{"context": {"a": ' + b"[" * 70 + b"]" * 70 + b"}}", 400, "nested too deeply"),
        (b'{"context": ' + b'{"a": ' * 70 + b"1" + b"}" * 70 + b"}", 400, "nested too deeply"),
        ({"context": RECORD, "eligible": [2**63]}, 400, "eligible must name actions"),
        (b"", 400, "the body is not valid JSON"),
    ],
)
def test_a_wrong_request_is_one_sentence(client, body, status, sentence):
    found, answer = client.send("POST", "/decide", body)
    assert found == status
    assert sentence in answer["error"]
    assert "\n" not in answer["error"]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("1", "value must be a number"),
        (True, "value must be a number"),
        (None, "value must be a number"),
        (10**400, "value must be finite"),
        (-1e101, "value must lie between -1e+100 and 1e+100; got -1e+101."),
    ],
)
def test_a_wrong_reward_is_one_sentence(client, value, sentence):
    status, answer = client.reward("paid", value)
    assert status == 400
    assert sentence in answer["error"]


def test_other_paths_and_methods_are_refused_in_one_sentence(client):
    assert client.get("/../loop.toml")[0] == 404
    assert client.get("/decide")[0] == 405
    assert client.send("POST", "/decide/", {"context": RECORD})[0] == 404
    assert client.send("DELETE", "/reward")[0] == 405
    assert "there is no GET /policies here" in client.get("/policies")[1]["error"]
    assert client.send("POST", "/decide", b"{}", **{"Content-Type": "text/plain"})[0] == 415


def test_health_and_metrics(client):
    assert client.get("/health") == (200, {"status": "ok"})
    client.decide()
    status, text = client.get("/metrics")
    assert status == 200
    assert client.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(len(line.rsplit(" ", 1)) == 2 and float(line.rsplit(" ", 1)[1]) >= 0 for line in lines)
    assert "bopl_promotion 1.0" in lines


def test_policies_are_swapped_under_load_without_a_failed_request(server, store, loop, policies):
    second = list(policies)[1]
    loop.add_policy(policies[second])
    before, stop = store.promotion(), threading.Event()

    def ask(client, number):
        seen = []
        while not stop.is_set():
            status, answer = client.decide()
            seen.append((status, answer.get("policy")))
        return seen

    def swap(client, number):
        row = store.promote(replace(before, policy=second, share=0.5, baseline=before.policy, reason="swap"))
        is_served = wait_until(lambda: f"bopl_promotion {row.id}.0" in client.get("/metrics")[1])
        client.decide("after-swap")
        stop.set()
        return is_served

    *seen, is_served = at_once(server, lambda client, number: (swap if number == 3 else ask)(client, number), 4)
    assert is_served
    answers = [one for some in seen for one in some]
    assert {status for status, _ in answers} == {200}
    assert {policy for _, policy in answers} <= {before.policy, second}
    row = store.decision("after-swap")
    assert row.policy == second
    chosen = loop.mixture(store.promotion()).decide(row.context, row.eligible, row.draw)
    assert (chosen.action, chosen.propensity) == (row.action, row.propensity)
    assert None not in (row.policy_prob, row.baseline_prob)


def test_a_promotion_that_cannot_be_served_leaves_the_one_before(client, store):
    before = store.promotion()
    store.promote(replace(before, policy="0123456789abcdef", reason="by hand"))
    assert wait_until(lambda: client.get("/health")[1]["status"] == "degraded")
    assert "there is no policy 0123456789abcdef" in client.get("/health")[1]["problem"]
    assert client.decide()[1]["policy"] == before.policy
    store.promote(replace(before, reason="rollback"))
    assert wait_until(lambda: client.get("/health")[1]["status"] == "ok")

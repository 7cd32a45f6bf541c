"""The body of the outgoing webhook and its signature."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from fournos.history.alerts.body import SHOWN, body, signature
from fournos.history.alerts.due import News, due
from fournos.history.alerts.receiver import NewsContext
from fournos.history.records import Identity
from tests.history import a_run
from tests.unit.history.alerts.test_due import DROP, NOW, QUIET, judged, series


def of(news: News, context: NewsContext | None = None) -> dict[str, Any]:
    run = a_run(1, identity=Identity("c", "n", "12"), owner="alice", target="gpu-1")
    found = context or NewsContext(run, a_run(0), ("image a -> b",))
    result: dict[str, Any] = json.loads(body(news, found))
    return result


def test_a_message_links_to_the_page_where_its_address_is_known() -> None:
    found: dict[str, Any] = json.loads(body(drop(), NewsContext(None), page="https://fournos.example.com/"))
    address = f"https://fournos.example.com/trends/{found['fournos']['run']['namespace']}/"
    assert found["fournos"]["page"].startswith(address) and address in found["text"]
    assert of(drop())["fournos"]["page"] == ""


def drop() -> News:
    (news,) = due(judged(series(*DROP)), [], NOW)
    return news


def test_what_changed_whose_run_it_is_and_how_to_look() -> None:
    data = of(drop())
    found, name = data["fournos"], a_run(1).name
    assert found["state"] == "Confirmed"
    assert found["run"] == {
        "name": name, "uid": "12", "namespace": "n", "cluster": "gpu-1", "clusterId": "c", "owner": "alice",
    }  # fmt: skip
    (change,) = found["changes"]
    assert (change["kpi"], change["direction"], change["state"]) == ("tput", "falls", "Confirmed")
    assert -42 < change["changePercent"] < -38
    assert change["comparedRuns"] == len(QUIET)
    assert found["causes"] == ["image a -> b"]
    assert found["commands"] == [
        f"fournos compare -n n {a_run(0).name} {name}", f"fournos trend -n n {name}",
    ]  # fmt: skip
    assert data["text"].startswith(f"Regression confirmed in n, since {name} (owner alice, cluster gpu-1)\n")
    assert "worse" in data["text"]
    assert found["commands"][0] in data["text"]


def test_an_improvement_is_one() -> None:
    (news,) = due(judged(series(*DROP, better=False)), [], NOW)
    data = of(news)
    assert data["fournos"]["state"] == "Improved"
    assert "better" in data["text"]


def test_a_run_that_has_expired_has_its_uid() -> None:
    found = of(drop(), NewsContext(None))["fournos"]
    assert (found["run"]["name"], found["run"]["owner"]) == ("12", "")
    assert found["commands"] == ["fournos trend -n n 12"]


def test_names_mention_no_person_and_add_no_lines() -> None:
    run = a_run(1, owner="<!channel> & co\n* forged")
    data = of(drop(), NewsContext(run))
    assert "<!channel>" not in data["text"]
    assert "&lt;!channel&gt; &amp; co * forged" in data["text"]


def test_secrets_are_hidden_and_the_size_is_bounded() -> None:
    news = drop()
    (change,) = news.changes
    token = "ghp_" + "a1B2" * 9
    many = tuple(
        replace(
            change,
            kpi_id=f"kpi-{number}" + "x" * 10_000,
            labels={"token": token, **{f"k{index}": "v" * 10_000 for index in range(64)}},
        )
        for number in range(500)
    )
    content = body(
        replace(news, changes=many), NewsContext(a_run(1, owner=f"token {token}"), None, ["c" * 9000] * 99)
    )
    assert token.encode() not in content
    assert len(content) < 300_000
    assert json.loads(content)["fournos"]["more"] == 500 - SHOWN


def test_silent_series_are_named_with_the_reason() -> None:
    (news,) = due(judged(series()), [], NOW.replace(day=25))
    data = of(news)
    assert data["fournos"]["state"] == "Silent"
    assert data["fournos"]["silent"][0]["kpi"] == "tput"
    assert "no run for" in data["text"]


def test_the_signature_is_that_of_time_and_body() -> None:
    # printf '1772352000.{"text":"hello"}' | openssl dgst -sha256 -hmac s3cret
    content, digest = b'{"text":"hello"}', "8326ddd493501d6726178cf2ec3a354d919b362cbee1629e746e96e730f4a4ac"
    assert signature(b"s3cret", 1772352000, content) == f"t=1772352000,v1={digest}"
    assert digest not in signature(b"s3cret", 1772352001, content)
    assert digest not in signature(b"other", 1772352000, content)

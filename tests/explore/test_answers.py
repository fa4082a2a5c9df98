"""Who may ask the page's server, and for what."""

import json

import pytest

from torpor.explore.answers import PAGES, Request, Site, page_files

HOST = "127.0.0.1:8000"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def site(trace):
    return Site(trace, "secret", frozenset({HOST}))


def ask(site, path, method="GET", body=b"", host=HOST, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return site.answer(Request(method, path, {"host": host, **named}, body))


def compute(site, name, value, **headers):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return ask(site, f"/secret/compute/{name}", "POST", body, **{**JSON, **headers})


@pytest.mark.parametrize("name", PAGES)
def test_pages_name_themselves_and_run_no_script_of_their_own(site, name):
    answer = ask(site, f"/secret/{name}")
    assert answer.status == 200
    text = answer.body.decode()
    assert "<title>torpor explorer</title>" in text
    assert "style=" not in text
    assert text.count("<script") == text.count('<script type="module" src="') == 1


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1", "127.0.0.1:8001"])
def test_another_name_of_this_machine_is_refused(site, host):
    assert ask(site, "/secret/", host=host).status == 403
    assert compute(site, "views", {"text": "from_shape((2,))"}, host=host).status == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", f"https://{HOST}", ""])
def test_another_page_is_refused(site, origin):
    assert ask(site, "/secret/data/index.json", origin=origin).status == 403
    assert compute(site, "views", {"text": "from_shape((2,))"}, origin=origin).status == 403
    assert ask(site, "/secret/data/index.json", origin=f"http://{HOST}").status == 200


@pytest.mark.parametrize(
    "path", ["/", "/secre/", "/secrets/", "/data/index.json", "secret/", "*", "", "/é/"]
)
def test_without_the_token_there_is_nothing(site, path):
    assert ask(site, path).status == 404


@pytest.mark.parametrize(
    "name",
    ["../answers.py", "%2e%2e/answers.py", "..%2fanswers.py", "page/index.html", "nothing.js",
     "data/kernel-9.json", "data/kernel--1.json", "data/kernel-x.json", "data/kernel-٣.json", "/"],
)  # fmt: skip
def test_only_the_pages_own_files_are_given(site, name):
    assert ask(site, f"/secret/{name}").status == 404


def test_every_file_of_the_page_is_given(site):
    for name, path in page_files().items():
        answer = ask(site, f"/secret/{name}")
        assert (answer.status, answer.body) == (200, path.read_bytes())


def test_the_trace_is_given_as_data(site, trace):
    index = json.loads(ask(site, "/secret/data/index.json").body)
    assert [one["name"] for one in index["kernels"]] == [one.name for one in trace.kernels]
    kernel = json.loads(ask(site, "/secret/data/kernel-1.json").body)
    assert kernel["source"] == trace.kernels[1].source
    assert {"before", "after", "rule", "old", "new"} <= set(kernel["steps"]["steps"][0])
    assert kernel["steps"]["rules"]["rejoin_quotient"]["says"] == "`(x//c)*c + x%c -> x`."
    scheduling = json.loads(ask(site, "/secret/data/scheduling.json").body)
    assert len(scheduling["steps"]["steps"]) == index["scheduling"] > 0


def test_views_and_expressions_are_computed(site):
    found = compute(site, "views", {"text": "from_shape((2,)).flip(0)"})
    assert json.loads(found.body)["cells"] == [1, 0]
    found = compute(site, "expr", {"variables": [["a", 0, 1]], "index": "a*2", "valid": ""})
    assert json.loads(found.body)["cells"] == [0, 2]


def test_what_is_no_request_is_refused(site):
    assert compute(site, "other", {}).status == 404
    assert compute(site, "views", b"{").status == 400
    assert compute(site, "views", b"[" * 9000).status == 400
    assert compute(site, "views", b"[]").status == 400
    assert compute(site, "views", {}, **{"content-type": "text/plain"}).status == 415
    for number in ("0", 1.0, True, [0], -1, 99):
        assert compute(site, "check", {"kernel": number}).status == 404
    assert ask(site, "/secret/", "DELETE").status == 405
    assert ask(site, "/secret/compute/views").status == 404

"""The page in a browser: driven as a person would, where there is a Chromium."""

import functools
import http.server
import json
import threading

import pytest

from tests import chromium
from tests.explore.test_regions import layers
from tests.recorded import BROKEN, EARLY, JITTED, record
from torpor.explore import Server, read
from torpor.explore.export import export
from torpor.explore.regions import MOST

pytestmark = [chromium.NEEDED, pytest.mark.usefixtures("quiet")]

HOSTILE = """from torpor import Tensor
x = Tensor.empty(3) + 1; "<script>window.broken = 1</script><img src=x onerror='window.broken=1'>"
x.realize()
"""


FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def flames_drawn(browser):
    """Waits until the flame chart is not empty."""
    browser.shown("#flames canvas")
    canvas = "document.querySelector('#flames canvas')"
    bytes_of = f"{canvas}.getContext('2d').getImageData(0, 0, {canvas}.width, {canvas}.height)"
    colours = f"new Set(new Uint32Array({bytes_of}.data.buffer))"
    browser.wait(f"{colours}.size > 4")


def test_from_the_program_to_the_kernels_and_their_source(browser, server):
    browser.open(server.address)
    assert browser.evaluate("document.title") == "torpor explorer"
    browser.shown("[data-kernel]")
    names = browser.evaluate(
        "[...document.querySelectorAll('[data-kernel]')].map((row) => row.dataset.kernel)"
    )
    assert len(names) == 2
    for number, reason in enumerate(("contiguous", "output")):
        browser.click(f'[data-kernel][data-number="{number}"]')
        browser.wait(f"location.hash.startsWith('#kernels/{number}')")
        browser.wait(f"document.querySelector('#reasons b')?.textContent === '{reason}'")
        assert names[number] in browser.text("#source")
        assert browser.texts("[data-axis]")


def test_kernels_are_put_in_order_and_filtered(browser, server):
    browser.open(server.address)
    browser.shown("[data-kernel]")
    numbers = (
        "[...document.querySelectorAll('.row:not([hidden])')].map((one) => one.dataset.number)"
    )
    assert browser.evaluate(numbers) == ["0", "1"]
    times = [kernel.microseconds for kernel in server.site.trace.kernels]
    browser.click("#by-time")
    longest = sorted(range(2), key=lambda number: -times[number])
    assert browser.evaluate(numbers) == [str(number) for number in longest]
    browser.fill("#filter", "output")
    assert browser.evaluate(numbers) == ["1"]


def test_the_kernel_that_an_address_names_is_in_sight(browser, server):
    inside = """(() => {
        const row = document.querySelector('.row[aria-current]')?.getBoundingClientRect();
        const list = document.querySelector('aside').getBoundingClientRect();
        return row && row.top >= list.top - 1 && row.bottom <= list.bottom + 1;
    })()"""
    browser.resize(1280, 230)
    try:
        for number in (1, 0):
            browser.open(f"{server.address}#kernels/{number}")
            browser.wait(
                f"document.querySelector('.row[aria-current]')?.dataset.number === '{number}'"
            )
            browser.wait(inside)
    finally:
        browser.resize(1280, 900)


def test_lines_are_as_wide_as_half_a_screen_lets_them(browser, server):
    """Beside what computes them there would be a few letters in a row."""
    browser.resize(640, 900)
    try:
        browser.open(f"{server.address}#program")
        browser.shown('[data-line="4"] pre')
        width = "document.querySelector('[data-line=\"4\"] pre').getBoundingClientRect().width"
        assert browser.evaluate(width) > 400
        assert browser.evaluate("document.documentElement.scrollWidth") <= 640
    finally:
        browser.resize(1280, 900)


def test_from_a_line_to_its_kernel_and_back(browser, server):
    browser.open(f"{server.address}#program")
    browser.shown('[data-node="CONTIGUOUS"]')
    browser.click('[data-line="4"] .kernel-link')
    browser.wait("document.querySelector('#reasons b')?.textContent === 'contiguous'")
    browser.click('#kernel dd a[href*="%3A4"]')
    browser.wait("document.querySelector('tr.current')?.dataset.line === '4'")


def test_rewrites_are_stepped_through_by_keys(browser, server):
    browser.open(f"{server.address}#kernels/0/rewrites")
    browser.shown('[data-step="0"][aria-current]')
    assert browser.text("#equation").startswith("`")
    for key, number in (("ArrowRight", 1), ("ArrowDown", 2), ("ArrowLeft", 1), ("ArrowUp", 0)):
        browser.press(key)
        browser.wait(f"document.querySelector('.step').dataset.shown === '{number}'")
    browser.press("ArrowLeft")
    assert browser.evaluate("document.querySelector('.step').dataset.shown") == "0"
    browser.shown(".before .node.marked")
    browser.shown(".after .node")
    assert "null" not in browser.text(".step")
    browser.fill(".stepper input", "idiv")  # an op
    browser.wait("document.querySelector('#rule').textContent === 'rejoin_quotient'")
    browser.fill(".stepper input", "write_out")
    browser.wait("document.querySelector('#rule').textContent === 'write_out'")
    browser.shown(".after .node.marked")


def test_steps_are_compared_and_executed(browser, server):
    browser.open(f"{server.address}#kernels/0/rewrites/0")
    browser.click("#compare")
    for number in ("1", "2"):
        browser.press("ArrowRight")
        browser.wait(f"document.querySelector('.step').dataset.shown === '{number}'")
    browser.shown("#compared .changes .new")
    browser.click("#check")
    browser.wait("document.querySelector('#verdict').textContent.startsWith('no step gives')")


def test_a_rule_that_is_broken_is_jumped_to(browser, tmp_path):
    script = tmp_path / "broken.py"
    script.write_text(BROKEN)
    server = Server(read(record(script, tmp_path)))
    rules = [step.rule for step in server.site.trace.steps]
    number = rules.index("divide_by_one")
    try:
        browser.open(f"{server.address}#scheduling/{number + 1}")
        browser.click("#check")
        browser.wait("document.querySelector('#verdict').textContent.includes('is the first')")
        assert browser.text("#rule") == "divide_by_one"
        browser.open(server.address)
        browser.click("#check-all")
        browser.wait(f"location.hash === '#scheduling/{number}'", patience=60)
        browser.wait("document.querySelector('#rule')?.textContent === 'divide_by_one'")
    finally:
        server.close()


def test_assembly_and_what_other_opts_change(browser, server):
    name = server.site.trace.kernels[0].name
    browser.open(f"{server.address}#kernels/0/assembly")
    browser.wait(f"document.querySelector('#compiled code')?.textContent.includes('{name}:')")
    browser.open(f"{server.address}#kernels/0/opts")
    browser.fill("#others", "UPCAST 0 2")
    browser.evaluate("document.querySelector('#others').blur()")
    browser.shown("#compiled .changes .new")
    browser.fill("#others", "UPCAST 0 7")
    browser.evaluate("document.querySelector('#others').blur()")
    browser.wait("document.querySelector('#error')?.textContent.includes('does not fit')")


def test_another_target_has_opts_of_its_own(browser, server):
    browser.open(f"{server.address}#kernels/0/opts")
    browser.fill("#opts", "THREAD 0 0")  # which GPUs do not have
    for name, wanted in (("what", "source"), ("target", "opencl")):
        browser.shown(f"#{name}")
        choice = f"document.querySelector('#{name}')"
        browser.evaluate(
            f"{choice}.value = '{wanted}'; {choice}.dispatchEvent(new Event('change'))"
        )
    browser.wait("document.querySelector('#compiled code')?.textContent.includes('__kernel')")
    browser.evaluate(f"{choice}.value = 'metal'; {choice}.dispatchEvent(new Event('change'))")
    browser.wait("document.querySelector('#compiled code')?.textContent.includes('metal_stdlib')")
    assert browser.evaluate("document.querySelector('#error')") is None


def test_an_access_leads_to_its_expression(browser, server):
    browser.open(f"{server.address}#kernels/0")
    browser.click("#accesses a")
    browser.wait("location.pathname.endsWith('/expr')")
    browser.shown("[data-cell]")
    assert browser.texts("[data-cell]") == [str(number) for number in range(16)]


def test_an_access_leads_to_its_view(browser, server):
    browser.open(f"{server.address}#kernels/0")
    browser.click("#accesses .as-view")
    browser.wait("location.pathname.endsWith('/views')")
    browser.shown("[data-cell]")
    assert browser.texts("[data-cell]") == [str(number) for number in range(16)]


def test_the_linear_program_and_the_ast(browser, server):
    browser.open(f"{server.address}#kernels/0/linear")
    assert "STORE" in browser.text(".linear")
    browser.open(f"{server.address}#kernels/0/graph")
    browser.shown('[data-node="STORE"]')


def test_the_timeline_leads_to_kernels(browser, server):
    browser.open(f"{server.address}#time")
    browser.shown('[data-event="compile"]')
    before = browser.text("#main p")
    browser.evaluate("document.querySelector('.timeline').focus()")
    browser.press("+")
    browser.wait(f"document.querySelector('#main p').innerText !== {json.dumps(before)}")
    browser.press("0")
    browser.wait(f"document.querySelector('#main p').innerText === {json.dumps(before)}")
    browser.evaluate(
        "URL.createObjectURL = (blob) => { window.saved = blob.text(); return '#time' }"
    )
    browser.click("#chrome")
    events = json.loads(browser.evaluate("window.saved"))["traceEvents"]
    assert {"kernel", "compile", "schedule"} <= {event.get("cat") for event in events}
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"CPU: queue", "Python"} <= names
    browser.evaluate(
        "document.querySelector('[data-event=kernel]').dispatchEvent(new MouseEvent('click'))"
    )
    browser.wait("location.hash.startsWith('#kernels/0')")


def test_the_flame_chart_has_equal_phases_together(browser, fusion):
    """A compile of 3 ms, half of it in one pass, and one of 2 ms in another process."""
    trace = read(fusion)
    base = next(event for event in trace.events if event["phase"] == "compile")
    found = [
        {**base, "start": 0.0, "microseconds": 3000.0, "name": "first"},
        {**base, "start": 100.0, "microseconds": 1500.0, "phase": "pass", "name": "machine code"},
        {**base, "start": 500.0, "microseconds": 2000.0, "name": "second", "process": 4711},
    ]
    trace.events = found
    server = Server(trace)
    try:
        browser.open(f"{server.address}#time")
        flames_drawn(browser)
        for across, wanted in ((0.5, "compile × 2 5.00 ms"), (0.1, "machine code 1.50 ms")):
            row = 0 if "compile" in wanted else 1
            browser.evaluate(
                "document.querySelector('#flames canvas').scrollIntoView({block: 'center'})"
            )
            browser.evaluate(FRAMES)
            x, y, width = browser.evaluate(
                "(({x, y, width}) => [x, y, width])"
                "(document.querySelector('#flames canvas').getBoundingClientRect())"
            )
            at = {"x": x + across * width, "y": y + 82 + 10 + 19 * row}
            for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
                browser.send(
                    "Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at
                )
                browser.evaluate(FRAMES)  # the chart takes an event when it draws
            browser.wait(
                f"document.querySelector('#flames .about-node').textContent.startsWith('{wanted}')"
            )
    finally:
        server.close()


def test_the_flame_chart_of_the_compiler_zooms(browser, server):
    browser.open(f"{server.address}#time")
    flames_drawn(browser)
    browser.evaluate("document.querySelector('#flames canvas').focus()")
    browser.press("+")
    browser.wait("!!document.querySelector('#flames canvas').dataset.span")
    first = float(browser.evaluate("document.querySelector('#flames canvas').dataset.span"))
    browser.press("+")
    half = f"Math.abs(document.querySelector('#flames canvas').dataset.span - {first / 2}) < 0.002"
    browser.wait(half)


def test_who_did_what_has_tracks_of_its_own(browser, fusion):
    trace = read(fusion)
    run = next(event for event in trace.events if event["phase"] == "kernel")
    compiled = next(event for event in trace.events if event["phase"] == "compile")
    trace.events += [{**run, "phase": "share", "worker": 1}, {**run, "device": "CPU:1"}]
    trace.events += [{**compiled, "process": 4711}]
    server = Server(trace)
    try:
        browser.open(f"{server.address}#time")
        browser.shown("[data-track]")
        tracks = [name for name in browser.texts("[data-track]") if name]
        wanted = ["CPU: queue", "CPU:1: queue", "CPU: thread 1", "Python", "helper 1"]
        assert [name for name in tracks if name != "CPU: thread 0"] == wanted
    finally:
        server.close()


def test_the_first_page_says_what_to_look_at(browser, server):
    browser.open(server.address)
    first, second = (kernel.name for kernel in server.site.trace.kernels)
    between = browser.text("#between")
    assert f"{first} is not one with {second}" in between.replace("\n", " ")
    assert "by contiguous()" in between
    costly = browser.texts("#costliest code")
    assert set(costly) <= {"c = b.contiguous()", "d = c + 3", "b = a + 4"} and costly
    assert "fusion.py:" in browser.text("#costliest") and browser.text("#copies") == "none"
    browser.click("#check-all")
    browser.wait("document.querySelector('#all-verdict').textContent.startsWith('no step gives')")


def test_the_first_page_says_what_was_asked_for_too_early(browser, tmp_path):
    script = tmp_path / "early.py"
    script.write_text(EARLY)
    server = Server(read(record(script, tmp_path)))
    try:
        browser.open(server.address)
        told = " ".join(browser.text("#between").split())
        assert "because: asked for" in told and "early.py:4 y.realize()" in told
        browser.click("#between .place")
        browser.wait("document.querySelector('tr.current td')?.textContent === '4'")
    finally:
        server.close()


def test_the_first_page_of_a_program_that_failed_shows_the_error(browser, tmp_path):
    script = tmp_path / "failing.py"
    script.write_text(
        "from torpor import Tensor\nx = Tensor.ones(3, 4)\n"
        "def product(a):\n    return a @ Tensor.ones(5, 6)\nproduct(x).numpy()\n"
    )
    server = Server(read(record(script, tmp_path, status=1)))
    try:
        browser.open(server.address)
        assert "ShapeError: cannot multiply (3, 4) by (5, 6)" in browser.text(".failed pre")
        lines = [text.split()[0] for text in browser.texts(".failed li")]
        assert lines == ["failing.py:4", "failing.py:5"]
        browser.click(".failed a")
        browser.wait("document.querySelector('tr.current td')?.textContent === '4'")
    finally:
        server.close()


def test_from_a_node_to_its_kernel_and_back(browser, server):
    browser.open(f"{server.address}#program")
    browser.click('details [data-node="CONTIGUOUS"]')
    browser.click(".about-node .kernel-link")
    browser.wait("document.querySelector('#reasons b')?.textContent === 'contiguous'")
    browser.click("#to-graph")
    browser.wait("!!document.querySelector('details .node.marked[data-node=CONTIGUOUS]')")
    assert browser.evaluate("!document.querySelector('details .marked[data-node=BUFFER]')")


def test_memory_at_a_moment_and_the_roofline_lead_to_kernels(browser, server):
    browser.open(f"{server.address}#time")
    browser.shown("#live [data-buffer]")
    before = browser.text("#live p")
    browser.evaluate("document.querySelector('.memory').focus()")
    browser.press("ArrowLeft")
    browser.wait(f"document.querySelector('#live p').innerText !== {json.dumps(before)}")
    browser.shown("#roofline .roof")
    browser.evaluate(
        "document.querySelector('[data-point]').dispatchEvent(new MouseEvent('click'))"
    )
    browser.wait("location.hash.startsWith('#kernels/')")


def test_the_schedule_leads_from_kernels_to_those_that_read_them(browser, server):
    browser.open(f"{server.address}#program")
    name = server.site.trace.kernels[0].name
    browser.wait(f"document.querySelectorAll('#schedule [data-node=\"{name}\"]').length === 2")
    assert browser.evaluate("document.querySelectorAll('#schedule .edge').length") == 1
    browser.click("#schedule [data-node]")
    browser.wait("location.hash.startsWith('#kernels/')")


def test_what_the_jit_traced_and_where_values_lie(browser, tmp_path):
    script = tmp_path / "jitted.py"
    script.write_text(JITTED)
    server = Server(read(record(script, tmp_path)))
    try:
        browser.open(f"{server.address}#programs")
        browser.shown("[data-jit=step] .lies")
        changed = "of scale: it was 2.0, and then 3.0"
        assert browser.texts(".because") == ["it was new", changed]
        assert "scale = 2.0" in browser.texts(".guards code")
        assert browser.text("#main .guards summary").startswith("guards: ")
        assert browser.text("#calls [data-call]").startswith("jitted.py:11 step(x, 1.0)")
        named = [name.partition("#")[0] for name in browser.texts("#calls .kernel-link")]
        assert sorted(named) == sorted(kernel.name for kernel in server.site.trace.kernels)
        browser.open(f"{server.address}#time")
        browser.shown('[data-mark="epoch 1"]')
    finally:
        server.close()


def test_on_half_a_screen_nothing_is_wider_than_it(browser, server):
    try:
        for width in (1280, 640):
            browser.resize(width, 800)
            for page in (
                "#program",
                "#kernels/0",
                "#kernels/0/rewrites/0",
                "#time",
                "views",
                "expr",
            ):
                browser.open(server.address + page)
                browser.wait("document.querySelector('main').childElementCount > 0")
                assert browser.evaluate("document.documentElement.scrollWidth") <= width, page
    finally:
        browser.resize(1280, 900)


def test_what_a_program_is_called_is_text(browser, tmp_path):
    script = tmp_path / "<b>&.py"
    script.write_text(HOSTILE)
    trace = read(record(script, tmp_path))
    trace.kernels[0].name = "<script>window.broken=1</script>"
    trace.kernels[0].source = "</code><img src=x onerror='window.broken=1'>"
    server = Server(trace)
    try:
        for page in ("", "#program", "#kernels/0/rewrites", "#kernels/0/linear", "#time"):
            browser.open(server.address + page)
            browser.wait("document.querySelector('main').childElementCount > 0")
            if page == "":
                browser.wait("document.querySelector('#source')?.innerText.includes('onerror')")
        assert browser.evaluate("window.broken") is None
        assert browser.evaluate("document.querySelector('main script, main img, main b b')") is None
    finally:
        server.close()


def test_the_exported_page_works_from_a_file_server(browser, server, fusion, tmp_path):
    export(read(fusion), tmp_path)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    handler.func.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as files:
        threading.Thread(target=files.serve_forever, daemon=True).start()
        browser.open(f"http://127.0.0.1:{files.server_address[1]}/#program")
        browser.shown('[data-node="CONTIGUOUS"]')
        assert "Views" not in browser.text("#top")
        browser.click(".kernel-link")
        assert "define void" in browser.text("#source")
        files.shutdown()


def test_the_largest_graph_is_shown_as_regions_that_open_by_a_click(browser):
    trace, graph = layers(620)
    trace.graphs += [layers(1)[1], graph]
    server = Server(trace)
    try:
        browser.open(f"{server.address}#program")
        browser.shown("details .node[data-region]")
        boxes = "document.querySelectorAll('details .node').length"
        first = browser.evaluate(boxes)
        assert first <= MOST
        while browser.evaluate("!document.querySelector('details [data-node]')"):
            before = browser.evaluate(boxes)
            browser.evaluate(
                "document.querySelector('details [data-region]').dispatchEvent(new Event('click'))"
            )
            browser.wait(f"{boxes} > {before}")
        assert browser.texts("details [data-region*='Layer.forward']")
        browser.click("details .fold")
        browser.wait(f"{boxes} === {first}")
    finally:
        server.close()

"""The dashboard as people see it: in a real browser, by mouse, by keyboard, and by what a screen reader is told."""

from __future__ import annotations

import re
import shutil
import tarfile
import threading
from pathlib import Path

import pytest
from playwright.sync_api import expect

from dashboards import FakeState, append, batch_record, make_job, served
from holdfast.ui.reading.stored import StoredState
from holdfast.watch.records import EventRecord

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
NASTY = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
WAIT_MS = 30_000
BATCHES = 60
VIEWS = {
    "": "Rows per second",
    "/graph": "The graph of the job",
    "/keys": "Busiest keys",
    "/state": "State by key and window",
    "/key?step=card+totals&key=4929-0000003": "Its life",
}
"""By the end of its address, a part that the view has."""

expect.set_options(timeout=WAIT_MS)


@pytest.fixture
def checkpoint(tmp_path):
    return make_job(tmp_path, BATCHES)


@pytest.fixture
def state():
    return FakeState(first_keys=[NASTY])


@pytest.fixture
def address(checkpoint, state):
    with served([checkpoint], state) as address:
        yield address


@pytest.fixture
def visit(browser, address):
    """Opens a page; at the end, nothing may have gone wrong in it."""
    contexts, wrong = [], []

    def visit(view="", job=True, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.goto(address.url)
        card = page.locator(".job-card a")
        expect(card).to_have_count(1)
        if job:
            page.goto(address.url + card.get_attribute("href") + view)
            expect(page.locator("nav.tabs")).to_be_visible()
        return page

    yield visit
    for context in contexts:
        context.close()
    assert wrong == []


def chart(page, title):
    return page.get_by_role("region", name=title, exact=True)


class TestViews:
    def test_the_jobs(self, visit):
        page = visit(job=False)
        expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()
        page.get_by_role("link", name="payments").click()
        expect(page.get_by_role("heading", name="payments", level=1)).to_be_visible()
        expect(page.get_by_text("The job is gone")).to_be_visible()

    @pytest.mark.night
    def test_one_micro_batch_is_a_point_in_the_middle(self, visit, checkpoint):
        shutil.rmtree(checkpoint / "holdfast")
        append(checkpoint, EventRecord("started", 1, run="run 1", job="payments"), batch_record(0))
        page = visit()
        expect(chart(page, "Not read yet")).to_contain_text("records0")
        middle = """canvas => {
            const { width, height } = canvas, step = Math.floor(width / 3);
            const pixels = canvas.getContext("2d").getImageData(step, 0, step, height).data;
            let found = 0;
            for (let at = 0; at < pixels.length; at += 4) found += pixels[at + 3] > 200 && pixels[at + 1] - pixels[at] > 60;
            return found;
        }"""
        assert chart(page, "Not read yet").locator("canvas").evaluate(middle) > 10

    @pytest.mark.night
    def test_a_clock_that_was_set_back_leaves_the_points_in_order(self, visit):
        find = "async ([at, took]) => (await import('/static/js/chart.js')).ascending(at, took)"
        page = visit()
        assert page.evaluate(find, [[10_000, 20_000, 5_000, 6_000], [500, 500, 500, 500]]) == [-5.5, 4.5, 5, 6]
        assert page.evaluate(find, [[1_000, 1_000, 1_000], [0, 0, 0]]) == [0.998, 0.999, 1]
        assert page.evaluate(find, [[], []]) == []

    @pytest.mark.night
    def test_a_text_that_may_be_another_keys_leads_nowhere(self, visit):
        find = "async texts => { const parts = await import('/static/js/parts.js'); return texts.map(parts.isNotWhole); }"
        texts = ["4929-1", "", "a.b", "ü…", "very long...", "a\\nb", "\\u202e"]
        assert visit().evaluate(find, texts) == [False, False, False, True, True, True, True]

    @pytest.mark.night
    def test_times_say_their_zone(self, visit):
        page = visit("/state", timezone_id="Asia/Tokyo")
        expect(page.get_by_role("columnheader", name="window UTC")).to_be_visible()
        expect(page.get_by_role("columnheader", name="card string")).to_be_visible()
        expect(page.get_by_role("slider", name="After")).to_have_attribute("aria-valuetext", re.compile(r":\d\d GMT\+9$"))

    def test_every_view_has_an_address(self, visit):
        page = visit()
        for name, sign in (
            ("Graph", "The graph of the job"),
            ("Keys", "Busiest keys"),
            ("State", "State by key and window"),
        ):
            page.get_by_role("link", name=name, exact=True).click()
            expect(page.get_by_role("region", name=sign)).to_be_visible()
            page.reload()
            expect(page.get_by_role("region", name=sign)).to_be_visible()
        page.go_back()
        expect(page.get_by_role("region", name="Busiest keys")).to_be_visible()
        page.go_back()
        page.go_back()
        expect(chart(page, "Rows per second")).to_be_visible()

    def test_charts_move_when_the_history_grows(self, visit, checkpoint):
        page = visit()
        plot = chart(page, "Rows per second").get_by_role("img")
        expect(plot).to_have_attribute("aria-label", re.compile(f"over {BATCHES} points"))
        before = plot.screenshot()
        append(checkpoint, *(batch_record(number, rows=900_000) for number in range(BATCHES, BATCHES + 8)))
        expect(plot).to_have_attribute("aria-label", re.compile(f"over {BATCHES + 8} points"))
        expect(plot).to_have_attribute("aria-label", re.compile("now 180K/s"))
        assert plot.screenshot() != before
        page.get_by_role("radio", name="All").check()
        append(checkpoint, batch_record(BATCHES + 8))
        expect(plot).to_have_attribute("aria-label", re.compile(f"over {BATCHES + 9} points"))
        expect(page).to_have_url(re.compile("range=whole"))

    @pytest.mark.parametrize("resumed", [40, pytest.param(BATCHES - 2, marks=pytest.mark.night)])
    def test_a_job_that_goes_back(self, visit, checkpoint, resumed):
        """What it did after that micro-batch never happened, and is not shown any more."""
        page = visit()
        plot = chart(page, "Rows per second").get_by_role("img")
        expect(plot).to_have_attribute("aria-label", re.compile(f"over {BATCHES} points"))
        anew = [batch_record(number, rows=7, run="run 2") for number in (resumed + 1, resumed + 2)]
        append(checkpoint, EventRecord("started", anew[0].at_ms, run="run 2", batch=resumed, job="payments"), *anew)
        expect(plot).to_have_attribute("aria-label", re.compile(f"over {resumed + 3} points"))

    @pytest.mark.night
    def test_a_checkpoint_that_begins_anew(self, visit, checkpoint):
        page = visit()
        plot = chart(page, "Rows per second").get_by_role("img")
        expect(plot).to_have_attribute("aria-label", re.compile(f"over {BATCHES} points"))
        shutil.rmtree(checkpoint)
        make_job(checkpoint.parent, 5)
        expect(plot).to_have_attribute("aria-label", re.compile("over 5 points"))
        expect(page.get_by_text("Reprocessing")).to_have_count(0)

    @pytest.mark.night
    def test_a_chart_as_a_table(self, visit):
        page = visit()
        section = chart(page, "Keys")
        section.get_by_text("As a table").click()
        expect(section.get_by_role("row").nth(1).get_by_role("rowheader")).to_have_text(str(BATCHES - 1))

    @pytest.mark.night
    def test_a_job_without_a_history(self, visit, tmp_path, browser):
        (tmp_path / "new").mkdir()
        with served([tmp_path / "new"], FakeState(batches=[])) as address:
            page = browser.new_context().new_page()
            page.goto(address.url)
            page.get_by_role("link", name="new").click()
            expect(page.get_by_text("This job has no history yet")).to_be_visible()
            page.get_by_role("link", name="State", exact=True).click()
            expect(page.get_by_text("Nothing has been committed yet")).to_be_visible()
            page.context.close()

    @pytest.mark.night
    def test_the_graph_has_rates(self, visit):
        page = visit("/graph")
        picture = page.get_by_role("region", name="The graph of the job")
        names = ("kafka", "card totals", "alerts", "parquet: totals", "postgres: alerts", "parquet: late")
        expect(picture.locator("text.title")).to_have_text([re.compile(f"^{name}") for name in names])
        expect(picture.get_by_text(re.compile(r"in [\d.,K]+/s · out"))).to_have_count(2)
        picture.get_by_role("link", name=re.compile("^step alerts")).click()
        expect(page.get_by_role("region", name="State by key and window")).to_be_visible()

    @pytest.mark.night
    def test_key_groups_by_arrow_keys(self, visit):
        page = visit("/keys")
        group = page.get_by_role("button", name=re.compile("^key group 41:"))
        expect(group).to_have_attribute("aria-pressed", "true")
        group.focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("button", name=re.compile("^key group 42:"))).to_be_focused()

    @pytest.mark.night
    def test_the_api_page(self, visit, address):
        page = visit(job=False)
        page.goto(f"{address.url}api/docs")
        first = page.locator(".endpoint", has_text="/api/jobs").first
        first.get_by_role("button", name="Send").click()
        expect(first.get_by_text('"name": "payments"')).to_be_visible()

    def test_a_token(self, browser, checkpoint):
        with served([checkpoint], FakeState(), token="a-token-for-the-browser") as address:
            page = browser.new_context().new_page()
            page.goto(address.url)
            expect(page.get_by_role("link", name="payments")).to_be_visible()
            assert "token" not in page.url
            assert page.evaluate("document.cookie") == ""
            page.context.close()


class TestState:
    def test_the_slider_goes_back(self, visit):
        page = visit("/state")
        cell = page.get_by_role("row", name=re.compile("4929-0000004")).get_by_role("cell").nth(1)
        expect(cell).to_contain_text("328")
        expect(cell).to_contain_text("was 303")
        page.get_by_role("slider", name="After").focus()
        page.keyboard.press("ArrowLeft")
        expect(cell).to_have_text("303")
        expect(page).to_have_url(re.compile("batch=58"))
        page.get_by_role("button", name="One micro-batch forward").click()
        expect(cell).to_contain_text("328")

    @pytest.mark.night
    def test_compared_with_another(self, visit):
        page = visit("/state")
        page.get_by_label("Compared with").select_option("53")
        cell = page.get_by_role("row", name=re.compile("4929-0000004")).get_by_role("cell").nth(1)
        expect(cell).to_contain_text("was 278")
        page.get_by_label("Compared with").select_option("none")
        expect(cell).to_have_text("328")

    def test_keys_are_text(self, visit):
        page = visit("/state")
        expect(page.get_by_role("link", name=NASTY)).to_be_visible()
        page.get_by_role("link", name=NASTY).click()
        expect(page.get_by_role("heading", name=NASTY)).to_be_visible()
        assert "owned" not in page.title()

    @pytest.mark.parametrize("state", [FakeState(first_keys=["", "safe\u202egpj.exe", "long" * 2_000])])
    def test_odd_keys(self, visit, state):
        """Every key can be seen and, unless it is longer than an address, be followed."""
        page = visit("/state")
        rows = page.get_by_role("region", name="State by key and window").locator("tbody tr")
        expect(rows.nth(2)).to_contain_text("longlonglong")
        expect(rows.nth(2).get_by_role("link")).to_have_count(0)
        expect(rows.nth(1).get_by_role("link")).to_have_text(r"safe\u202egpj.exe")
        rows.nth(0).get_by_role("link", name="(empty)").click()
        expect(page.get_by_role("heading", name="(empty)")).to_be_visible()
        expect(page.get_by_role("region", name="Its life")).to_be_visible()

    def test_a_search(self, visit, state):
        page = visit("/state")
        expect(page.get_by_text("keys 1 to 50")).to_be_visible()
        page.keyboard.press("/")
        page.keyboard.type("4929-000019")
        rows = page.get_by_role("region", name="State by key and window").locator("tbody tr a")
        expect(rows.first).to_have_text("4929-0000190")
        expect(page.get_by_text("keys 1 to 10 of 10")).to_be_visible()
        page.get_by_label(re.compile("^Keys that begin with")).fill("nobody")
        expect(page.get_by_text("No key begins with this")).to_be_visible()

    @pytest.mark.night
    def test_pages(self, visit):
        page = visit("/state")
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_text("keys 51 to 100")).to_be_visible()
        page.get_by_role("button", name="count all").click()
        expect(page.get_by_text("keys 51 to 100 of 201")).to_be_visible()
        page.go_back()
        expect(page.get_by_text("keys 1 to 50")).to_be_visible()

    @pytest.mark.night
    def test_a_fast_job_with_slow_answers(self, visit, checkpoint, state):
        """New micro-batches do not give up what is being asked: else nothing would ever be shown."""
        ready, asked = threading.Event(), state.page
        state.page = lambda *given, **how: (ready.wait(60), asked(*given, **how))[1]
        page = visit("/state")
        # It has begun with the last of those that are there.
        expect(page.get_by_label("Compared with").get_by_text(f"micro-batch {BATCHES - 2}")).to_have_count(1)
        for number in range(BATCHES, BATCHES + 2):
            state.batches.append(number)
            append(checkpoint, batch_record(number))
            # It has heard of the new micro-batch.
            expect(page.get_by_label("Compared with").get_by_text(f"micro-batch {number}")).to_have_count(1)
        assert state.pages == 0
        ready.set()
        expect(page.get_by_role("heading", name=f"after micro-batch {BATCHES + 1}")).to_be_visible()
        # The one that it began with, and the newest.
        assert state.pages == 2

    def test_the_life_of_a_key(self, visit):
        page = visit("/key?step=card+totals&key=4929-0000001")
        life = page.get_by_role("region", name="Its life")
        expect(life.get_by_role("link", name="micro-batch 56")).to_be_visible()
        expect(life.get_by_role("row", name=re.compile("total.*changed.*282.*307"))).to_have_count(1)
        page.get_by_role("link", name="micro-batch 53", exact=True).click()
        expect(page.get_by_role("region", name="State", exact=True)).to_contain_text("282")

    @pytest.mark.night
    @pytest.mark.parametrize("state", [FakeState(keys=1_000_000)])
    def test_a_million_keys(self, visit, state):
        """However many keys there are, the page has as many rows, and answers at once."""
        page = visit("/state")
        page.evaluate(
            """() => { window.longest = 0; new PerformanceObserver(list => {
                for (const each of list.getEntries()) window.longest = Math.max(window.longest, each.duration);
            }).observe({ type: "longtask" }) }"""
        )
        rows = page.get_by_role("region", name="State by key and window").locator("tbody tr")
        for number in range(5):
            page.get_by_role("button", name="Next").click()
            expect(page.get_by_text(f"keys {50 * number + 51:,} to {50 * number + 100:,}")).to_be_visible()
            assert rows.count() <= 150
        page.get_by_role("button", name="count all").click()
        expect(page.get_by_text("of 1,000,000")).to_be_visible()
        page.goto(re.sub(r"offset=\d+", "offset=999950", page.url))
        expect(page.get_by_text("keys 999,951 to 1,000,000")).to_be_visible()
        assert page.evaluate("document.querySelectorAll('*').length") < 3_000
        # Long tasks are told from 50 ms on. A page that had to look at a million rows would need seconds.
        assert page.evaluate("window.longest ?? 0") < 2_000


class TestForEverybody:
    @pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.night)])
    def test_axe_finds_nothing_serious(self, visit, address, scheme):
        page = visit(color_scheme=scheme)
        job = page.url
        for view, sign in VIEWS.items():
            page.goto(job + view)
            expect(page.get_by_role("region", name=sign).first).to_be_visible()
            assert faults(page) == [], view
        for path, sign in (("#/", ".job-card"), ("api/docs", ".endpoint")):
            page.goto(address.url + path)
            expect(page.locator(sign).first).to_be_visible()
            assert faults(page) == [], path

    def test_by_keyboard_alone(self, visit):
        """From the jobs to an older value of a key, without a mouse."""
        page = visit(job=False)
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="To the content")).to_be_focused()
        page.keyboard.press("Enter")
        tab_to(page, "link", "payments")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="payments", level=1)).to_be_visible()
        tab_to(page, "link", "State")
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="State by key and window")).to_be_visible()
        tab_to(page, "slider", re.compile("^After"))
        page.keyboard.press("ArrowLeft")
        expect(page).to_have_url(re.compile("batch=58"))
        expect(page.get_by_role("slider", name="After")).to_be_focused()
        tab_to(page, "link", "4929-0000001")
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Its life")).to_be_visible()

    @pytest.mark.night
    def test_a_phone(self, visit):
        page = visit(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
        job = page.url
        for view, sign in VIEWS.items():
            page.goto(job + view)
            expect(page.get_by_role("region", name=sign).first).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, view

    @pytest.mark.night
    def test_the_theme(self, visit):
        page = visit(job=False, color_scheme="dark")
        root = page.locator("html")
        expect(root).to_have_attribute("data-theme", "dark")
        page.get_by_role("button", name=re.compile("^Theme: Auto")).click()
        expect(root).to_have_attribute("data-theme", "light")
        page.reload()
        expect(root).to_have_attribute("data-theme", "light")

    @pytest.mark.night
    def test_what_is_told_without_being_asked(self, visit, checkpoint):
        """A listener hears of a change of health, and nothing of every micro-batch."""
        page = visit()
        status = page.get_by_role("status")
        append(checkpoint, *(batch_record(number) for number in range(BATCHES, BATCHES + 3)))
        plot = chart(page, "Rows per second").get_by_role("img")
        expect(plot).to_have_attribute("aria-label", re.compile(f"over {BATCHES + 3} points"))
        expect(status).to_have_text("")


def test_a_checkpoint_of_a_real_job(browser, tmp_path):
    """What a job stored is what the page shows, after each micro-batch; and what is on disk beside it."""
    with tarfile.open(Path(__file__).parents[1] / "stored" / "every-cell@0.1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    checkpoint = tmp_path / "every-cell" / "checkpoint"
    with served([checkpoint], StoredState(str(checkpoint))) as address:
        page = browser.new_context().new_page()
        page.goto(address.url)
        page.locator(".job-card a").click()
        expect(page.get_by_text("This job has no history yet")).to_be_visible()
        page.get_by_role("link", name="State", exact=True).click()
        row = page.get_by_role("row", name=re.compile("^ü"))
        expect(row).to_contain_text("{'x': 7}")
        page.get_by_role("slider", name="After").focus()
        page.keyboard.press("Home")
        expect(page).to_have_url(re.compile("batch=0"))
        expect(page.get_by_role("heading", name=re.compile("after micro-batch 0"))).to_be_visible()
        page.get_by_role("link", name="ü", exact=True).click()
        expect(page.get_by_role("region", name="Its life")).to_contain_text("by_shop")
        page.get_by_role("link", name="Checkpoints").click()
        expect(page.get_by_role("region", name="Savepoints", exact=True).first).to_contain_text(
            str(tmp_path / "every-cell" / "savepoint")
        )
        page.context.close()


def faults(page) -> list[str]:
    """What axe finds that is serious or worse."""
    # Evaluated by the debugger, which the page's policy on scripts does not concern.
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def tab_to(page, role, name, most=60):
    """Presses Tab until this has the focus."""
    wanted = page.get_by_role(role, name=name, exact=True) if isinstance(name, str) else page.get_by_role(role, name=name)
    expect(wanted.first).to_be_visible()
    for _ in range(most):
        page.keyboard.press("Tab")
        if wanted.first.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"{role} {name} cannot be reached with Tab")

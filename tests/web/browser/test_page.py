# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The page in a real browser: what it shows, and what people do with it."""

from __future__ import annotations

import re

import msgspec
import pytest

from tests.support.controllers import wait_for
from tests.support.service import ME
from tests.web.browser.conftest import opened
from tests.web.test_files import vendor
from tf_malleable.api.schema.messages import LibraryThreads
from tf_malleable.cli.jobs.job_texts import threads_of

pytestmark = pytest.mark.slow

AXE = (vendor.FOLDERS[1] / "axe.min.js").read_text()
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</td></tr><script>alert(2)</script>",
    "‮gnp.gnineve‬ \"'`${alert(3)}",
    "x" * 200,
    "javascript:alert(4)",
]


@pytest.fixture
def jobs(crowd):
    """Submit jobs, which are ended afterwards; the service is as it was before."""
    submitted = []

    def submit(name, **fields):
        submitted.append(crowd.job(name, **fields))
        return submitted[-1]

    yield submit
    for job in submitted:
        if job in crowd.sleepers:
            crowd.end(job)
    wait_for(lambda: not crowd.do(crowd.service.jobs))


def row(page, job):
    return page.locator(f"tr[data-job='{job}']")


def status(crowd, job):
    return crowd.do(lambda: crowd.service.status(job))


def foreseen(page):
    """Return what the dialog says will happen, once the controller has been asked."""
    page.locator("dialog .forecast li, dialog .forecast .nobody").first.wait_for()
    return " ".join(page.locator("dialog .forecast").inner_text().split())


def test_threads_are_told_as_tfm_show_tells_them(page):
    of_torch = LibraryThreads("PyTorch", "at op boundaries", 2, 16, [7, 8])
    of_jax = LibraryThreads("JAX", "confined only", None, None, [9])
    for each in (of_torch, of_jax):
        script = "async (each) => (await import('/static/words.js')).threadsOf(each)"
        assert page.evaluate(script, msgspec.to_builtins(each)) == threads_of(each)
    assert page.complaints == []


def test_everything_is_shown_and_follows(crowd, page, jobs):
    first = jobs("first", max=6)
    second = jobs("second", min=4, max=4, priority=3)
    row(page, first).filter(has_text="6 / 6 / 6").wait_for()
    assert page.locator("#cpus .cpu").count() == 8
    assert page.locator("#cpus .cpu.fill:not(.pending)").count() == 6
    assert page.locator("#cpus .cpu.free").count() == 2
    waiting = page.locator("#queue tr", has_text="second")
    waiting.wait_for()
    assert "it needs 4 cores, 2 of 8 are free" in waiting.inner_text()
    crowd.report(first, 5, 50)
    page.locator("#jobs progress[value='0.1']").wait_for()
    page.click("#jobs button:has-text('first')")
    assert "granted 0-5; actual 0-5; lent none" in page.locator(".details").inner_text()
    assert page.locator("#cpus .cpu.chosen").count() == 6
    assert "No meter" in page.locator("#power").inner_text()
    page.locator("#gantt rect.running").wait_for()
    crowd.end(first)
    page.locator("#jobs tr", has_text="second").wait_for()
    page.locator("#history td", has_text="first").wait_for()
    row(page, second).filter(has_text="4 / 4 / 4").first.wait_for()
    assert page.complaints == []


def test_what_is_not_acknowledged_or_lent_looks_different(crowd, page, jobs):
    deaf = jobs("deaf", obeys=False, preferred=2, max=8)
    row(page, deaf).locator("text=2 / 2 / 2").wait_for()
    crowd.do(lambda: crowd.service.set_cores(crowd.sleepers[deaf].peer, deaf, 5))
    page.locator("#cpus .cpu.pending").first.wait_for()
    assert page.locator("#cpus .cpu.pending").count() == 3
    assert "5* / 5 / 2" in row(page, deaf).inner_text()


def test_lent_cores_are_marked(crowd, page, jobs):
    asleep = jobs("asleep", preferred=4, max=4)
    jobs("borrower", min=6, max=6)
    crowd.do(lambda: crowd.service.set_policy(ME, "lend+fcfs-strict"))
    try:
        # With a corner in the lender's colour if somebody uses it, and else dashed.
        cell = page.locator("#cpus .cpu", has=page.locator("title", has_text="lent by")).first
        cell.locator("rect").wait_for()
        assert f"lent by job {asleep} (asleep)" in cell.locator("title").text_content()
        assert cell.locator(".corner").count() or "lent" in cell.get_attribute("class")
        row(page, asleep).locator(".bar .lending").wait_for()
    finally:
        crowd.do(lambda: crowd.service.set_policy(ME, "fcfs-strict"))


def test_a_job_is_set_with_the_keyboard_alone_after_hearing_what_will_happen(crowd, page, jobs):
    first = jobs("first", max=8)
    button = page.get_by_role("button", name=f"Change job {first}")
    button.focus()
    page.keyboard.press("Enter")
    page.locator("dialog[open]").wait_for()
    page.get_by_label("Cores", exact=True).focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("5")
    page.locator("dialog li", has_text="8 cores → 5").wait_for()
    assert f"{first} first" in foreseen(page)
    assert status(crowd, first).by_hand is None
    page.keyboard.press("Enter")
    page.locator("#said", has_text="is set to 5 cores by hand").wait_for()
    assert status(crowd, first).by_hand == 5
    row(page, first).locator("text=5* / 5 / 5").wait_for()
    # The focus is where it was.
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused == f"Change job {first}"
    page.keyboard.press("Enter")
    page.get_by_label("Let the policy decide").check()
    foreseen(page)
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    assert status(crowd, first).by_hand == 5


def test_pause_resume_priority_and_cancel(crowd, page, jobs):
    first, second = jobs("first", min=8), jobs("second", min=8)

    def choose(job, label):
        row(page, job).get_by_role("button", name="Change job").click()
        page.get_by_label(label).check()

    choose(second, "Change its priority")
    page.get_by_label("Priority", exact=True).fill("7")
    assert "Nobody's cores change now." in foreseen(page)
    page.get_by_role("button", name="Set priority 7").click()
    page.locator("dialog").wait_for(state="detached")
    assert status(crowd, second).priority == 7
    choose(first, "Pause it")
    said = foreseen(page)
    assert "8 cores → 0" in said
    assert "0 cores → 8" in said
    assert not status(crowd, first).held
    page.get_by_role("button", name="Pause", exact=True).click()
    page.locator("#said", has_text="is paused").wait_for()
    assert status(crowd, first).held
    row(page, first).locator(".state.paused").wait_for()
    choose(first, "Resume it")
    page.get_by_role("button", name="Resume", exact=True).click()
    page.locator("#said", has_text="is resumed").wait_for()
    assert not status(crowd, first).held
    choose(second, "Cancel it")
    assert "cannot be undone" in foreseen(page)
    page.get_by_role("button", name="Cancel the job").click()
    row(page, second).wait_for(state="detached")
    page.locator("#history td", has_text="cancelled").first.wait_for()


def test_a_refusal_is_said_and_nothing_happens(crowd, page, jobs):
    first, second = jobs("first", max=8), jobs("second", max=8)
    crowd.do(lambda: crowd.service.set_cores(crowd.sleepers[first].peer, first, 6))
    row(page, second).get_by_role("button", name="Change job").click()
    page.get_by_label("Cores", exact=True).fill("4")
    page.locator("dialog .problem", has_text="only 2 of 8 are left").wait_for()
    page.get_by_role("button", name="Set 4 cores").click()
    page.locator("dialog [role=alert]", has_text="only 2 of 8 are left").wait_for()
    page.get_by_label("Cores", exact=True).fill("")
    page.locator("dialog", has_text="Give a whole number.").wait_for()
    assert page.locator("dialog button[type=submit]").is_disabled()
    page.get_by_role("button", name="Leave it").click()
    assert status(crowd, second).by_hand is None


def test_the_policy_is_changed_after_hearing_what_will_happen(crowd, page, jobs):
    jobs("first", max=8), jobs("second", max=8)
    page.click("#change-policy")
    page.get_by_role("button", name=re.compile("^equal ")).click()
    page.locator("dialog li", has_text="8 cores → 4").wait_for()
    page.get_by_role("button", name="Use equal").click()
    page.locator("#said", has_text="the policy is now equal").wait_for()
    page.locator(".tile .policy", has_text="equal").wait_for()
    page.locator("#jobs", has_text="4 / 4").wait_for()
    page.click("#change-policy")
    page.fill("#policy", "nonsense")
    page.locator("dialog .problem", has_text="nonsense").wait_for()
    page.fill("#policy", "fcfs-strict")
    page.get_by_role("button", name="Use fcfs-strict").click()
    page.locator(".tile .policy", has_text="fcfs-strict").wait_for()


def test_hostile_names_are_text(crowd, page, jobs):
    running = [jobs(name, max=1, command=[name]) for name in HOSTILE]
    waiting = [jobs(name, min=8) for name in HOSTILE]
    for job, name in zip(running + waiting, HOSTILE * 2, strict=True):
        shown = row(page, job).locator("bdi.name")
        shown.wait_for()
        assert shown.text_content() == name
    row(page, running[0]).get_by_role("button", name="Change job").click()
    assert "onerror" in page.locator("dialog h2").inner_text()
    page.keyboard.press("Escape")
    row(page, running[1]).locator("button.plain").click()
    assert "<script>" in page.locator(".details").inner_text()
    assert page.locator("#page img").count() == 1  # The icon.
    assert page.locator("#page script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for job in running:
        crowd.end(job)
    page.locator("#history bdi", has_text="onerror").first.wait_for()
    assert page.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(crowd, page, jobs, scheme):
    first = jobs("first", max=5)
    jobs("second", min=4)
    ended = jobs("ended", max=1)
    crowd.end(ended)
    page.emulate_media(color_scheme=scheme)
    page.locator("#history td", has_text="ended").first.wait_for()
    page.locator("#gantt rect.running").first.wait_for()
    page.click("#jobs button:has-text('first')")
    page.evaluate(AXE)
    assert serious(page) == []
    row(page, first).first.get_by_role("button", name="Change job").click()
    foreseen(page)
    assert serious(page) == []
    page.keyboard.press("Escape")
    page.click("#change-policy")
    foreseen(page)
    assert serious(page) == []


def serious(page):
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        (each["id"], [node["html"][:200] for node in each["nodes"][:3]])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def test_colours_stay_with_a_job_and_letters_say_the_same(crowd, page, jobs):
    first, second = jobs("first", max=2), jobs("second", max=2)

    def look(job):
        badge = row(page, job).locator(".badge")
        badge.wait_for()
        return badge.inner_text(), badge.evaluate("each => getComputedStyle(each).backgroundColor")

    before = look(second)
    assert look(first) != before
    crowd.end(first)
    row(page, first).wait_for(state="detached")
    assert look(second) == before
    letters = page.locator("#cpus .cpu.fill text:not(.id)").all_text_contents()
    assert letters == [before[0]] * 2


def test_the_history_is_searched(crowd, page, jobs):
    for name in ("alpha-1", "alpha-2", "beta-1"):
        crowd.end(jobs(name))
    page.locator("#history td", has_text="beta-1").first.wait_for()
    page.keyboard.press("/")
    page.keyboard.type("alpha-")
    page.locator("#found", has_text=re.compile(r"^2 jobs of \d+$")).wait_for()
    assert page.locator("#history tbody tr").count() == 2
    page.fill("#search", "ALPHA -1")
    page.locator("#found", has_text=re.compile(r"^1 job of \d+$")).wait_for()
    page.fill("#search", "no such job")
    page.locator("#history .empty").wait_for()


def test_the_theme_and_the_time_shown_are_chosen(page):
    def back():
        return page.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    light = back()
    page.click("#theme")
    page.click("#theme")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert back() != light
    page.reload()
    page.wait_for_selector("#connection.live")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    button = page.get_by_role("button", name="30 min").first
    button.click()
    page.locator("button[aria-pressed=true]", has_text="30 min").first.wait_for()
    page.locator("#load canvas").wait_for()
    assert page.complaints == []


def test_twenty_tabs_see_the_same(crowd, context, web, jobs):
    tabs = [opened(context, web) for _ in range(20)]
    job = jobs("seen by all", max=2)
    for tab in tabs:
        tab.bring_to_front()
        row(tab, job).wait_for()
    assert all(tab.complaints == [] for tab in tabs)
    assert len(crowd.do(lambda: crowd.service._feed._ticks)) > 0
    assert crowd.do(lambda: crowd.service._feed._readers) == 1


def test_on_a_narrow_screen_nothing_sticks_out(page, jobs):
    jobs("first")
    page.set_viewport_size({"width": 375, "height": 700})
    page.locator("#jobs tr", has_text="first").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_the_timeline_has_names(crowd, page, jobs):
    jobs("resnet-50 on all of the data")
    name = page.locator("#gantt text.row", has_text="resnet-50")
    name.wait_for()
    assert name.locator("tspan").text_content() == "resnet-50 on all of…"
    assert name.locator("title").text_content() == "resnet-50 on all of the data"


def seconds(text):
    """Return the seconds of a duration such as "27 min 05" or "3 h 20"."""
    numbers = [int(each) for each in re.findall(r"\d+", text)]
    units = {"s": (1,), "min": (60, 1), "h": (3600, 60), "d": (86400, 3600)}
    return sum(a * b for a, b in zip(numbers, units[text.split()[1]], strict=False))


def test_remaining_time_and_eta_are_told_where_steps_are_announced(crowd, page, jobs):
    announced, silent = jobs("announced", max=4), jobs("silent", max=4)
    assert row(page, silent).locator(".left").inner_text() == "unknown"
    for steps in range(1, 200):
        crowd.report(announced, steps, 100_000)
        if row(page, announced).locator(".left .eta").count():
            break
        page.wait_for_timeout(50)
    shown = row(page, announced).locator(".left")
    shown.locator(".eta").wait_for()

    def is_right():
        known = status(crowd, announced)
        left = (known.steps_total - known.steps_done) / known.steps_per_second
        told = seconds(shown.inner_text().rpartition(" ")[0])
        return abs(told - left) < 0.2 * left + 2

    # The page may still show the report before the last.
    wait_for(is_right)
    assert re.fullmatch(r"\d\d:\d\d|\d\d \w{3}", shown.locator(".eta").inner_text())


def test_the_log_of_a_job_is_shown_and_followed(crowd, page, jobs, tmp_path):
    output = tmp_path / "output"
    output.write_text("<img src=x onerror=alert(1)>\nepoch 1\n")
    job, without = jobs("logged", max=2, output=str(output)), jobs("without", max=2)
    row(page, job).locator("button.plain").click()
    page.get_by_role("button", name=f"Log of job {job}").click()
    log = page.locator("dialog .log")
    log.wait_for()
    assert log.inner_text().split("\n")[:2] == ["<img src=x onerror=alert(1)>", "epoch 1"]
    with output.open("a") as file:
        file.write("epoch 2\n")
    page.locator("dialog .log", has_text="epoch 2").wait_for()
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    row(page, without).locator("button.plain").click()
    assert page.get_by_role("button", name=f"Log of job {without}").count() == 0
    crowd.end(job)
    page.locator("#history").get_by_role("button", name=f"Log of job {job}").click()
    page.locator("dialog .log", has_text="epoch 2").wait_for()
    assert page.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_job_has_the_colour_of_what_is_free(page, scheme):
    page.emulate_media(color_scheme=scheme)
    colours = page.evaluate(
        """() => {
          const colour = (name) => {
            const each = document.createElement("i");
            each.className = `key ${name}`;
            document.body.append(each);
            const found = getComputedStyle(each).backgroundColor;
            each.remove();
            return found.match(/[\\d.]+/g).slice(0, 3).map(Number);
          };
          return ["", ...Array.from({length: 8}, (_, i) => `c${i}`)].map(colour);
        }"""
    )
    free, *others = colours
    assert len({tuple(each) for each in others}) == 8
    for other in others:
        assert sum(abs(a - b) for a, b in zip(free, other, strict=True)) > 60, (free, other)


def test_on_a_phone_the_page_is_as_wide_as_the_screen(crowd, page, jobs, tmp_path):
    width = 360
    output = tmp_path / "output"
    output.write_text("x" * 500)
    first = jobs("a-name-without-any-space-that-is-long", max=8, output=str(output))
    jobs("second", min=8)
    page.set_viewport_size({"width": width, "height": 700})

    def is_narrow():
        return page.evaluate("document.documentElement.scrollWidth") <= width

    row(page, first).locator("button.plain").click()
    name = page.locator("#gantt text.row").first
    name.wait_for()
    assert is_narrow()
    # Without scrolling in them, the timeline has names, and the list what can be done.
    for shown in (name, page.get_by_role("button", name=f"Change job {first}")):
        box = shown.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    page.get_by_role("button", name=f"Log of job {first}").click()
    page.locator("dialog .log").wait_for()
    assert is_narrow()
    dialog = page.locator("dialog").bounding_box()
    assert dialog["x"] >= 0
    assert dialog["x"] + dialog["width"] <= width
    page.keyboard.press("Escape")
    page.get_by_role("button", name=f"Change job {first}").click()
    foreseen(page)
    assert is_narrow()

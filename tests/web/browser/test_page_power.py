# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The page of a controller that knows what its host draws."""

from __future__ import annotations

import itertools
import re

import pytest

from tests.support.controllers import wait_for
from tests.support.crowd import Crowd
from tests.support.service import ME
from tests.web.browser.conftest import opened
from tests.web.conftest import served
from tf_malleable.api.schema.power import BudgetRequest
from tf_malleable.model import PowerCurve
from tf_malleable.power.host_power import HostPower, Meters

pytestmark = pytest.mark.slow


def test_power_is_shown_by_job_and_area_with_its_source_and_budgets(context, tmp_path):
    curve = PowerCurve(((0.0, 50.0), (1.0, 150.0)))
    crowd = Crowd(tmp_path, 4, "equal", HostPower("lab", Meters(), curve))
    try:
        mine = crowd.job("mine", area="project-x", max=2)
        with served(crowd.socket) as web:
            page = opened(context, web)
            shown = page.locator("#power")
            shown.locator("text=estimated").wait_for()
            shown.locator("tr", has_text="project-x").wait_for()
            shown.locator("tr", has_text="lab").wait_for()
            shown.locator("tr", has_text="mine").wait_for()
            assert "none" in shown.inner_text()
            # Above what a host whose CPUs are all busy draws: the job goes on.
            crowd.do(lambda: crowd.service.set_budget(ME, BudgetRequest("lab", 160.0)))
            shown.locator("text=160 W peak").wait_for()
            crowd.do(lambda: crowd.service.set_budget(ME, BudgetRequest("project-x", 190.0)))
            shown.locator("tr", has_text="project-x").locator("text=of 190 W").wait_for()
            # And what it does for that.
            speed, efficiency = (
                page.locator(f"tr[data-job='{mine}'] td:nth-child({column})") for column in (8, 11)
            )
            steps = itertools.count(1)

            def has_speed():
                crowd.report(mine, 10.0 * next(steps), 1e6)
                return re.search(r"\d", speed.inner_text())

            wait_for(has_speed)
            # It is measured once a second, and the speed with each report.
            wait_for(lambda: re.fullmatch(r"\d+\s%", efficiency.inner_text()))
            page.click("#jobs button:has-text('mine')")
            page.locator(
                ".details", has_text=re.compile(r" J \(estimated\), .* J a step")
            ).wait_for()
            assert page.complaints == []
    finally:
        crowd.close()

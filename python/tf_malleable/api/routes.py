# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Routes: table of all paths of the controller.

Both the server and the OpenAPI document are built from this table, so they agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST

from tf_malleable.api.schema import events, history, messages, power, requests
from tf_malleable.api.schema.grant_line import GrantLine

Pace = Literal["reads", "changes", "agents"]

JSON = "application/json"
JSON_LINES = "application/x-ndjson"
PROMETHEUS = CONTENT_TYPE_LATEST

BODY_LIMIT = 256 * 1024
# Upper bound of Unix times; a float still resolves milliseconds there.
LATEST = 10**12

# The meaning of each status of a refusal, on every path.
REFUSALS: Mapping[int, str] = MappingProxyType(
    {
        400: "The request is invalid.",
        403: "The caller may not do this, or cannot be identified.",
        404: "There is no such job or container.",
        409: "The present state does not allow it.",
        408: "The request was not finished in time.",
        413: f"The body is larger than {BODY_LIMIT // 1024} KiB.",
        500: "Internal error; see the controller's log.",
        503: "The controller cannot accept more jobs or connections.",
    }
)


class HistoryQuery(requests.Request, frozen=True):
    """Part of the history to return.

    Attributes:
        limit: Maximum number of jobs; the newest are returned.
        spans: True to also return the spans of jobs, including live ones.
        since: Unix time; only jobs and spans that ended later are returned.
    """

    limit: Annotated[int, msgspec.Meta(ge=1, le=history.MOST_HISTORY)] = 1000
    spans: bool = False
    since: Annotated[float, msgspec.Meta(ge=0, le=LATEST)] = 0.0


class GrantsQuery(requests.Request, frozen=True):
    """How the caller applies grants, if it is a process of the job.

    Attributes:
        split: True if the caller gives each of the job's other processes a part of the granted
            CPUs. The controller then only takes CPUs that are not granted away from these
            processes, and gives them none.
    """

    split: bool = False


@dataclass(frozen=True)
class Route:
    """One method of one path.

    Attributes:
        name: Operation id.
        method: HTTP method.
        path: Path, with ``{id}`` for a job's id.
        summary: Summary in one sentence.
        answers: Message type by success status; None for an empty body.
        refusals: Statuses of refusals, besides those common to all paths.
        body: Message type of the request; None without a body.
        query: Message type of the parameters; None without any.
        media: Content type of the answers.
        kept: True if the answer is sent only once the change is in the state file.
    """

    name: str
    method: str
    path: str
    summary: str
    answers: Mapping[int, Any]
    refusals: tuple[int, ...] = ()
    body: type[requests.Request] | None = None
    query: type[requests.Request] | None = None
    media: str = JSON
    kept: bool = False

    @property
    def pace(self) -> Pace:
        """Kind of the requests, each of which has a pace of its own per owner of connections."""
        if self.name in ("grants", "acknowledge", "progress"):
            return "agents"
        # Each change may cause a new decision about all jobs.
        return "reads" if self.method == "GET" else "changes"


_JOB = "/v1/jobs/{id}"

ROUTES = (
    Route("info", "GET", "/v1", "The controller itself.", {200: messages.ControllerInfo}),
    Route("openapi", "GET", "/v1/openapi.json", "This document.", {200: dict[str, Any]}),
    Route("jobs", "GET", "/v1/jobs", "All live jobs.", {200: messages.Jobs}),
    Route(
        "submit",
        "POST",
        "/v1/jobs",
        "Make the calling process a job (201), or return the job it belongs to (200).",
        {200: messages.JobStatus, 201: messages.JobStatus},
        refusals=(403, 409),
        body=requests.Submission,
    ),
    Route(
        "take",
        "POST",
        "/v1/containers",
        "Make a container a job (201), or return the job it already is (200).",
        {200: messages.JobStatus, 201: messages.JobStatus},
        refusals=(403, 404, 409),
        body=requests.ContainerTaken,
        kept=True,
    ),
    Route("status", "GET", _JOB, "One live job.", {200: messages.JobStatus}, refusals=(404,)),
    Route(
        "change",
        "PATCH",
        _JOB,
        "Change what a job asks for.",
        {200: messages.JobStatus},
        refusals=(403, 404),
        body=requests.JobChange,
        kept=True,
    ),
    Route(
        "outlook",
        "GET",
        f"{_JOB}/outlook",
        "Why a job has no cores, and when it is expected to have some.",
        {200: messages.Outlook},
        refusals=(403, 404),
    ),
    Route(
        "preview",
        "GET",
        f"{_JOB}/preview",
        "Whose cores would change if a person changed a job.",
        {200: messages.Preview},
        refusals=(403, 404, 409),
        query=requests.PreviewQuery,
    ),
    Route(
        "grants",
        "GET",
        f"{_JOB}/grants",
        "Stream a job's grant and its changes, one JSON object a line, until the job ends.",
        {200: GrantLine},
        refusals=(404,),
        query=GrantsQuery,
        media=JSON_LINES,
    ),
    Route(
        "acknowledge",
        "POST",
        f"{_JOB}/acknowledgements",
        "A process of the job has applied a grant.",
        {204: None},
        refusals=(403, 404, 409),
        body=requests.Acknowledgement,
    ),
    Route(
        "progress",
        "POST",
        f"{_JOB}/progress",
        "A process of the job reports its progress.",
        {204: None},
        refusals=(403, 404),
        body=requests.Progress,
    ),
    Route(
        "set_cores",
        "PUT",
        f"{_JOB}/cores",
        "Set a job's cores by hand, or return it to the policy.",
        {200: messages.JobStatus},
        refusals=(403, 404, 409),
        body=requests.ByHand,
        kept=True,
    ),
    Route(
        "schedule",
        "POST",
        f"{_JOB}/schedule",
        "Limit a job inside a time window; outside of it, its other limits hold.",
        {200: messages.JobStatus},
        refusals=(403, 404, 409),
        body=requests.LimitsBetween,
        kept=True,
    ),
    Route(
        "unschedule",
        "DELETE",
        f"{_JOB}/schedule",
        "Forget all time windows of a job's limits.",
        {200: messages.JobStatus},
        refusals=(403, 404),
        kept=True,
    ),
    *(
        Route(
            name,
            "POST",
            f"{_JOB}/{name}",
            summary,
            {200: messages.JobStatus},
            refusals=(403, 404, 409),
            kept=name != "cancel",
        )
        for name, summary in (
            ("pause", "Take a job's cores away until it is resumed."),
            ("resume", "Let a paused job have cores again."),
            ("cancel", "End a job."),
        )
    ),
    Route("policies", "GET", "/v1/policy", "The policies.", {200: messages.Policies}),
    Route(
        "set_policy",
        "PUT",
        "/v1/policy",
        "Use another policy from now on.",
        {200: messages.Policies},
        refusals=(403,),
        body=requests.PolicyChange,
        kept=True,
    ),
    Route("power", "GET", "/v1/power", "What this host draws.", {200: power.PowerStatus}),
    Route(
        "set_budget",
        "PUT",
        "/v1/power/budget",
        "Limit what this host draws, or withdraw the limit.",
        {200: power.PowerStatus},
        refusals=(403, 404, 409),
        body=power.BudgetRequest,
    ),
    Route(
        "preview_policy",
        "GET",
        "/v1/policy/preview",
        "Whose cores would change with another policy.",
        {200: messages.Preview},
        query=requests.PolicyChange,
    ),
    Route(
        "events",
        "GET",
        "/v1/events",
        "Stream all live jobs and their changes, one JSON object a line, at most four a second.",
        {200: events.Events},
        media=JSON_LINES,
    ),
    Route(
        "history",
        "GET",
        "/v1/history",
        "Jobs that have ended.",
        {200: history.History},
        query=HistoryQuery,
    ),
    Route(
        "metrics",
        "GET",
        "/metrics",
        "Counters for Prometheus.",
        {200: str},
        media=PROMETHEUS,
    ),
)

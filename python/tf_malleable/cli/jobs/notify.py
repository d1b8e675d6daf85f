# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm notify: one notice, by mail or a command, when all of several jobs have ended."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Final, NoReturn

import click
import msgspec

from tf_malleable.api.schema.history import JobRecord
from tf_malleable.api.transport.address import NoAnswerError
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.background.outputs import output_folder
from tf_malleable.cli.jobs.job_arguments import Selection, jobs_argument
from tf_malleable.cli.jobs.job_texts import outcome
from tf_malleable.cli.jobs.wait import await_ends, selected
from tf_malleable.cli.launch.attempts import fork
from tf_malleable.cli.options import json_option, print_json, socket_option
from tf_malleable.linux.processes.users import user_name
from tf_malleable.linux.trusted_folder import TrustedFolder
from tf_malleable.model import OperationError
from tf_malleable.model.units import printable

_AWAY_SECONDS: Final = 1.0
# Where sendmail is on systems whose users do not have these folders in their PATH.
_ALSO: Final = ("/usr/sbin", "/usr/lib")
_HEADER: Final = ("id", "name", "outcome", "exit code", "ended", "output")


@dataclass(frozen=True)
class _Recipient:
    """Where a notice goes.

    Attributes:
        mail: Address; None for a command.
        command: Shell command; None for mail.
        sendmail: Path of sendmail; empty for a command.
    """

    mail: str | None
    command: str | None
    sendmail: str = ""

    @property
    def title(self) -> str:
        """The recipient, for people."""
        return f"mail to {self.mail}" if self.mail is not None else f"command {self.command!r}"

    def send(self, subject: str, text: str) -> subprocess.CompletedProcess[bytes]:
        """Send a notice; its output goes where this process's does."""
        if self.command is not None:
            return subprocess.run(["sh", "-c", self.command], input=text.encode(), check=False)
        message = EmailMessage()
        message["To"], message["Subject"] = self.mail, subject
        message.set_content(text)
        # -t: to whom the message says. -i: a line with only a dot does not end it.
        return subprocess.run([self.sendmail, "-t", "-i"], input=message.as_bytes(), check=False)


@click.command()
@jobs_argument
@click.option("--mail", metavar="ADDRESS", help="Address of the mail.  [default: your user name]")
@click.option(
    "--command", metavar="COMMAND", help="Run this shell command, with the notice as its input."
)
@json_option
@socket_option
def notify(
    client: Client, jobs: Selection, mail: str | None, command: str | None, as_json: bool
) -> None:
    """Send one notice when jobs have ended; without JOB, when all live jobs of yours have.

    Each JOB is as for tfm wait. The notice has a table of the jobs that have not ended with exit
    code 0. It is mailed with sendmail, if there is one, or is the input of --command. With --json,
    it is JSON.

    The command returns at once, and what waits outlives the terminal, but not a reboot. Problems
    are written to notify.log beside the state file.
    """
    if client.connect is not None:
        raise OperationError("tfm notify is for a controller of this host: use ssh")
    recipient = _recipient(mail, command)
    live = client.jobs()
    wanted = list(dict.fromkeys(selected(client, jobs, live)))
    if not wanted:
        raise OperationError("no job of yours is live: there is nothing to wait for")
    log = output_folder().parent / "notify.log"
    writing = _opened(log)
    client = Client(Path(client.socket).absolute())
    waiting = fork()
    if not waiting:
        _wait_and_send(client, wanted, recipient, writing, as_json=as_json)
    if as_json:
        print_json({"pid": waiting, "jobs": wanted, "mail": recipient.mail, "command": command})
    else:
        what = f"job {wanted[0]} has" if len(wanted) == 1 else f"all {len(wanted)} jobs have"
        click.echo(f"{recipient.title} follows when {what} ended")


def _recipient(mail: str | None, command: str | None) -> _Recipient:
    """Return where a notice goes, as the options say.

    Raises:
        click.UsageError, ValueError: The options are invalid.
        OperationError: No mail can be sent here.
    """
    if mail is not None and command is not None:
        raise click.UsageError("--mail and --command exclude each other: give only one of them")
    if command is not None:
        return _Recipient(None, command)
    address = user_name(os.getuid()) if mail is None else mail
    if not address.isprintable() or not address or set(address) & set(" ,;<>"):
        raise ValueError(f"--mail must be one address, such as you@example.org, not {mail!r}")
    path = shutil.which("sendmail", path=os.pathsep.join((*os.get_exec_path(), *_ALSO)))
    if path is None:
        raise OperationError(
            "there is no sendmail here, so no mail can be sent: give --command COMMAND, which gets"
            " the notice as its input"
        )
    return _Recipient(address, None, path)


def _opened(log: Path) -> int:
    """Open a file to append to, which only the user may read."""
    try:
        with TrustedFolder(log.parent, 0o700) as folder:
            return folder.open(log.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise OperationError(f"cannot write {log}: {error.strerror}") from None


def _wait_and_send(
    client: Client, jobs: Sequence[str], recipient: _Recipient, log: int, *, as_json: bool
) -> NoReturn:
    """Wait in a session of its own until the jobs have ended, and send the notice."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor, file in ((0, null), (1, log), (2, log)):
            os.dup2(file, descriptor)
        os.closerange(3, max(null, log) + 1)
        os.chdir("/")  # No file system is kept in use.
        subject, text = _notice(client, jobs, as_json=as_json)
        code = recipient.send(subject, text).returncode
        if code:
            click.echo(
                f"tfm: {_now()}: {recipient.title}: it ended with exit code {code}", err=True
            )
    except OSError as error:
        click.echo(f"tfm: {_now()}: {recipient.title}: {error}", err=True)
    finally:
        os._exit(1 if code else 0)


def _notice(client: Client, jobs: Sequence[str], *, as_json: bool) -> tuple[str, str]:
    """Return subject and text of the notice, once all jobs have ended."""
    ended: list[tuple[JobRecord, int | None]] = []
    missing: list[str] = []
    for job in jobs:
        while True:
            try:
                ended += await_ends(client, [job], client.jobs())
                break
            except NoAnswerError:  # The next controller has the history.
                time.sleep(_AWAY_SECONDS)
            except OperationError:
                missing.append(job)
                break
    # Of a job with --retries, several ids may have been given.
    found = {record.id: (record, code) for record, code in ended}
    failed = [each for each in found.values() if not _is_well(*each)]
    count = len(found) + len(missing)
    what = "1 job has" if count == 1 else f"{count} jobs have"
    bad = len(failed) + len(missing)
    subject = f"{what} ended on {socket.gethostname()}, {bad or 'none'} without success"
    if as_json:
        document = {
            "jobs": count,
            "failures": [record for record, _ in failed],
            "unknown": missing,
        }
        return subject, msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"
    lines = [f"{subject}."]
    if failed:
        lines += ["", *_table([_HEADER, *(_row(*each) for each in failed)])]
    if missing:
        lines += ["", f"Not in the history any more: {', '.join(missing)}."]
    return subject, "\n".join(lines) + "\n"


def _is_well(record: JobRecord, code: int | None) -> bool:
    return record.outcome == "finished" or (record.outcome == "unknown" and code == 0)


def _row(record: JobRecord, code: int | None) -> tuple[str, ...]:
    return (
        record.id,
        printable(record.name),
        outcome(record),
        "-" if code is None else str(code),
        datetime.fromtimestamp(record.ended).strftime("%b %d %H:%M:%S"),
        record.output or "-",
    )


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _now() -> str:
    return datetime.now().strftime("%Y-%m-%d %H:%M:%S")

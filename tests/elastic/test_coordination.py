# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the coordinator tells whom, without processes."""

from __future__ import annotations

from itertools import count

import pytest

from tf_malleable.elastic.membership.coordination import Coordination
from tf_malleable.elastic.membership.phases import AwaitHolders, Over, Preparing, Restarting, Steady
from tf_malleable.elastic.membership.status import WantedNumbers, status

ADDRESS = {"host": "127.0.0.1", "port": 1, "machine": "", "path": ""}


class Game:
    """A coordinator, and processes that do at once what they are told unless a test says no."""

    def __init__(self, *, first_seconds=0.0):
        lineages = count(1)
        self.now = 0.0
        self.core = Coordination(
            4, 0.0, lambda: 0.0, lambda: f"training {next(lineages)}", first_seconds, 7
        )
        self.told = []
        self.silent = set()
        self.positions = {}
        self.generations = {}
        self.drafts = {}

    def hello_of(self, id_, role="worker"):
        position = {"lineage": "", "step": 0, "has_sum": False}
        return {
            "id": id_,
            "role": role,
            "address": ADDRESS,
            "cpus": 1.0,
            "place": id_,
            "ready": True,
            "leaving": False,
            "finished": False,
            "halted": False,
            "generation": None,
            "position": position,
            "highest": 0,
            "rescales": [],
        }

    def hello(self, id_, role="worker", **more):
        self.core.joined({**self.hello_of(id_, role), **more}, self.now)
        self.play()

    def says(self, id_, kind, **more):
        self.core.told(id_, {"kind": kind, **more}, self.now)

    def play(self, seconds=0.0):
        self.now += seconds
        for _ in range(50):
            said = self.core.decide(self.now)
            if not said:
                return
            for id_, message in said:
                self.told.append((id_, message["kind"]))
                if id_ not in self.silent:
                    self.answer(id_, message)
        raise AssertionError(f"they never come to rest: {self.told[-20:]}")

    def answer(self, id_, message):
        kind = message["kind"]
        if kind == "prepare":
            made = message["generation"]
            self.drafts[id_] = made
            self.says(id_, "prepared", number=made["number"])
        elif kind == "go" and id_ in {each["id"] for each in self.drafts[id_]["members"]}:
            self.generations[id_] = self.drafts[id_]
            self.says(id_, "entered", generation=self.drafts[id_])
        elif kind == "halt":
            held = self.positions.get(id_, {"lineage": "", "step": 0, "has_sum": False})
            self.says(id_, "halted", number=message["number"], position=held)
        elif kind == "restart":
            self.generations[id_] = self.drafts[id_]
            self.positions[id_] = {**message, "has_sum": False}

    def members(self):
        return [each.id for each in self.core.state.current.members]

    def holds(self, id_, step, *, has_sum=True, lineage="training 1"):
        self.positions[id_] = {"lineage": lineage, "step": step, "has_sum": has_sum}


@pytest.fixture
def game():
    found = Game()
    for id_ in "abc":
        found.hello(id_)
    assert found.members() == ["a", "b", "c"]
    assert isinstance(found.core.state.phase, Steady)
    for id_ in "abc":
        found.holds(id_, 5)
    return found


def test_nothing_is_planned_again_without_a_difference(game):
    game.told.clear()
    for _ in range(300):
        game.play(seconds=0.25)
    assert game.told == []


def test_after_a_loss_the_others_restart_where_the_first_of_them_is(game):
    game.holds("b", 6)
    game.core.left("a", game.now)
    game.play()
    assert game.members() == ["b", "c"]
    assert {game.positions[id_]["step"] for id_ in "bc"} == {6}
    assert game.positions["c"]["giver"] == "b"


def test_after_a_loss_nobody_waits_for_one_that_wants_to_go(game):
    game.core.state.everybody["b"].leaving = True
    game.core.left("a", game.now)
    game.play()
    assert game.members() == ["c"]
    assert ("b", "expelled") in game.told
    assert game.core.state.notices == []


def test_after_a_loss_one_that_wants_to_go_gives_the_sum_first(game):
    game.core.state.everybody["b"].leaving = True
    game.holds("b", 6)
    game.core.left("a", game.now)
    game.play()
    assert game.positions["c"]["giver"] == "b"
    assert game.members() == ["c"]


def test_one_that_does_not_answer_a_halt_is_sent_away(game):
    game.silent = {"b"}
    game.core.left("a", game.now)
    game.play()
    assert game.members() == ["a", "b", "c"]
    game.play(seconds=2.0)
    assert game.members() == ["c"]
    assert ("b", "expelled") in game.told


def test_a_newcomer_that_does_not_prepare_disturbs_nobody(game):
    game.silent = {"d"}
    game.hello("d")
    assert isinstance(game.core.state.phase, Preparing)
    game.play(seconds=5.0)
    assert game.members() == ["a", "b", "c"]
    assert ("a", "halt") not in game.told
    game.silent = set()
    game.play(seconds=6.0)
    assert game.members() == ["a", "b", "c", "d"]


def test_a_loss_while_others_restart_starts_that_again(game):
    game.silent = {"c"}
    game.core.left("a", game.now)
    game.core.decide(game.now)
    game.silent = set()
    for id_ in "bc":
        game.says(id_, "halted", number=game.core.state.phase.number, position=game.positions[id_])
    game.core.decide(game.now)
    assert isinstance(game.core.state.phase, Restarting)
    game.core.left("b", game.now)
    game.play()
    assert game.members() == ["c"]


def test_two_that_cannot_connect_are_kept_apart(game):
    game.silent = {"b", "c"}
    game.core.left("a", game.now)
    game.core.decide(game.now)
    for id_ in "bc":
        game.says(id_, "halted", number=game.core.state.phase.number, position=game.positions[id_])
    game.core.decide(game.now)
    game.silent = set()
    game.says("c", "unprepared", number=game.core.state.phase.generation.number, lost=["b"])
    game.play()
    assert game.members() == ["b"]
    assert ("c", "expelled") in game.told


def test_nobody_begins_again_while_those_with_the_state_may_come_back(game):
    for id_ in "abc":
        game.core.left(id_, game.now)
    game.hello("d")
    game.play(seconds=1.0)
    assert isinstance(game.core.state.phase, AwaitHolders)
    told = game.core.state.current
    for id_ in "abc":
        game.hello(id_, generation=told.as_json(), position=game.positions[id_])
    assert game.members() == ["a", "b", "c", "d"]
    assert game.core.state.notices == []


def test_without_anybody_who_has_the_state_it_begins_again_and_says_so(game):
    for id_ in "abc":
        game.core.left(id_, game.now)
    game.hello("d")
    game.play(seconds=1.0)
    game.play(seconds=5.0)
    assert game.members() == ["d"]
    assert game.positions["d"]["lineage"] == "training 2"
    assert "begins again" in game.core.state.notices[0]


def test_a_new_coordinator_adopts_what_it_is_told(game):
    new = Game(first_seconds=15.0)
    new.hello("d")
    told = game.core.state.current
    for id_ in "abc":
        position = game.positions[id_]
        new.hello(id_, generation=told.as_json(), position=position, highest=told.number)
    assert new.members() == ["a", "b", "c", "d"]
    assert ("a", "halt") not in new.told


def test_a_new_coordinator_knows_the_pause_that_only_one_member_knows(game):
    game.says("a", "paused", number=game.core.state.current.ordinal, seconds=0.25)
    known = [each.as_json() for each in game.core.state.ledger]
    assert known[-1]["pause_seconds"] == 0.25
    new = Game(first_seconds=15.0)
    new.hello("b", rescales=[*known[:-1], {**known[-1], "pause_seconds": 0.0}])
    new.hello("a", rescales=known)
    assert [each.as_json() for each in new.core.state.ledger] == known


def test_a_new_coordinator_notes_a_change_that_the_one_before_did_not_live_to_tell(game):
    known = [each.as_json() for each in game.core.state.ledger]
    for id_ in "bc":
        game.core.left(id_, game.now)
    game.play()
    made = game.core.state.current
    assert game.members() == ["a"]
    new = Game(first_seconds=15.0)
    position = game.positions["a"]
    told = {"generation": made.as_json(), "position": position, "highest": made.number}
    new.hello("a", rescales=known, **told)
    assert (new.members(), new.core.state.current) == (["a"], made)
    *before, last = [each.as_json() for each in new.core.state.ledger]
    assert before == known
    assert (last["number"], last["reason"]) == (made.ordinal, "lost")
    assert (last["workers_from"], last["workers_to"]) == (3, 1)
    assert ("a", "rescaled") in new.told
    # Whoever comes later and knows it better changes nothing.
    new.core.state.ledger.learn(list(game.core.state.ledger)[-1])
    assert len(list(new.core.state.ledger)) == len(known) + 1


def test_a_new_coordinator_restarts_those_that_are_left(game):
    new = Game(first_seconds=15.0)
    told = game.core.state.current
    for id_ in "bc":
        new.positions[id_] = game.positions[id_]
        position = game.positions[id_]
        new.hello(id_, generation=told.as_json(), position=position, halted=True)
    assert isinstance(new.core.state.phase, AwaitHolders)
    new.play(seconds=1.5)
    assert new.members() == ["b", "c"]


def test_the_end_comes_when_all_members_have_come_to_it(game):
    game.says("a", "finished")
    game.says("b", "finished")
    game.play()
    assert isinstance(game.core.state.phase, Steady)
    game.hello("d")
    assert game.members() == ["a", "b", "c"]  # It would not be ready before the end.
    game.says("c", "finished")
    game.play()
    assert isinstance(game.core.state.phase, Over)
    assert ("d", "finished") in game.told
    game.hello("e")
    assert game.told[-1] == ("e", "finished")


def test_it_is_known_after_the_end_how_far_the_training_came(game):
    number = game.core.state.current.number
    for id_ in "abc":
        said = {"speed": None, "stalled": [], "number": number, "leaving": False}
        game.says(id_, "beat", step=9, batches=(18, 20), **said)
        game.says(id_, "finished")
    game.play()
    for id_ in "abc":
        game.core.left(id_, game.now)
    game.play()
    told = status(game.core.state, WantedNumbers())
    assert (told["phase"], told["processes"]) == ("over", [])
    assert (told["step"], told["steps_done"], told["steps_total"]) == (9, 18, 20)


def test_one_that_ends_before_the_others_holds_nobody_up(game):
    game.says("a", "finished")
    number = game.core.state.current.number
    for id_ in "bc":
        game.says(id_, "beat", step=5, speed=None, stalled=["a"], number=number, leaving=False)
    game.play()
    assert ("a", "expelled") in game.told
    assert game.members() == ["b", "c"]


def test_a_link_on_which_nothing_passes_is_made_again_and_then_given_up(game):
    def stall():
        number = game.core.state.current.number
        for id_, other in (("a", "b"), ("b", "a"), ("c", "a")):
            game.says(
                id_, "beat", step=5, speed=None, stalled=[other], number=number, leaving=False
            )
        game.play()

    stall()
    assert game.members() == ["a", "b", "c"]
    stall()
    assert game.members() == ["a", "c"]


def test_the_last_member_waits_a_while_for_one_that_is_starting():
    game = Game()
    game.hello("a")
    game.hello("b", ready=False)
    game.core.state.everybody["a"].leaving = True
    game.play()
    assert ("a", "dismissed") not in game.told
    game.play(seconds=21.0)
    assert ("a", "dismissed") in game.told


def test_the_last_member_waits_longer_for_one_that_somebody_starts():
    game = Game()
    game.hello("a")
    game.core.state.is_replacement_due = True
    game.core.state.everybody["a"].leaving = True
    game.play(seconds=50.0)
    assert ("a", "dismissed") not in game.told
    game.hello("b")  # It has begun in time, and takes over.
    assert game.members() == ["b"]
    game.core.state.everybody["b"].leaving = True
    game.core.state.is_replacement_due = False
    game.play()
    assert ("b", "dismissed") in game.told


def test_shards_follow_cpus_that_are_resized(game):
    def resize(id_, cpus):
        number = game.core.state.current.number
        beat = {"step": 5, "speed": None, "stalled": [], "number": number, "leaving": False}
        game.says(id_, "beat", **beat, cpus=cpus)
        game.play(seconds=3.0)
        return [each.stop - each.start for each in game.core.state.current.members]

    assert resize("b", 1.0) == [2, 1, 1]
    assert resize("b", 6.0) == [0, 4, 0]
    # Others would wait longer after a move that was for speed.
    assert resize("b", 2.0) == [1, 2, 1]
    assert game.core.state.everybody["b"].cpus == 2.0


def test_nonsense_is_refused(game):
    with pytest.raises(ValueError, match="no process says 'boo'"):
        game.says("a", "boo")
    with pytest.raises(KeyError):
        game.core.joined({"kind": "hello"}, 0.0)

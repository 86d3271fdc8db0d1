"""Who is there, and waiting for them."""

from __future__ import annotations

from typing import Any

import pytest
from flower.clients import Tampered, grid_of
from flwr.app import Message

from anymix.errors import InputError
from anymix.flower import Limits, LocalGrid
from anymix.flower.members import Members
from anymix.flower.roster import Roster
from anymix.mixtures import Chi2Ball, Simplex


def test_members_are_ordered_by_key_and_asked_once() -> None:
    grid = grid_of("parts")
    members = Members(grid)
    roster = members.look()
    assert roster.keys == list("012345")
    assert sorted(grid.contexts) != [m.node_id for m in roster.members]
    before = grid.bytes
    assert members.look() is roster
    assert members.look(again=True) is roster
    assert grid.bytes == before
    grid.join({"partition-id": 0, "key": "new"})
    assert members.look().keys == [*"012345", "new"]
    members.exclude("2", "it lies")
    assert members.look().keys == [*"01345", "new"]


def test_waits_for_late_nodes() -> None:
    grid = grid_of("parts")
    late = [grid.contexts.pop(i) for i in grid.get_node_ids()[:2]]

    def enough(roster: Roster) -> bool:
        if late:
            grid.join(late.pop().node_config)
        return len(roster.members) == 6

    assert len(Members(grid).wait(enough, 5, poll=0.01).members) == 6
    assert len(Members(grid).wait(lambda roster: False, 0.05, poll=0.01).members) == 6


def test_who_gave_no_answer_is_asked_again_only_if_told() -> None:
    class Mute(LocalGrid):
        mute = True

        def _push(self, message: Message) -> str:
            message_id = super()._push(message)
            if self.mute and message.metadata.dst_node_id == self.get_node_ids()[0]:
                self._replies.pop(message_id)
            return message_id

    grid = Mute(grid_of("parts").app, 6)
    members = Members(grid)
    assert len(members.look(0.05).members) == 5
    grid.mute = False
    assert len(members.look(0.05).members) == 5
    assert len(members.look(0.05, again=True).members) == 6


def test_domains_beyond_those_named_are_left_out() -> None:
    members = Members(grid_of("parts"), ["chat", "mail"])
    assert members.look().keys == list("0123")
    assert members.excluded["4"] == "it has ['web'], and domains is ['chat', 'mail']"
    assert set(members.excluded) == {"4", "5"}


def test_too_many_rows_are_left_out() -> None:
    def huge(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
        arrays["counts"] = arrays["counts"] * 1e9

    grid = grid_of("parts")
    grid.app = Tampered(grid.app, 3, huge, "query")
    members = Members(grid, limits=Limits(rows=1000))
    assert members.look().keys == list("01245")
    assert "rows" in members.excluded["3"]


def test_a_client_that_moved_is_found_by_its_key() -> None:
    grid = grid_of("parts")
    members = Members(grid)
    before = members.look().nodes
    grid.leave(before["3"])
    node_id = grid.join({"partition-id": 3})
    members.forget(["3"])
    after = members.look().nodes
    assert after == before | {"3": node_id}


def test_failures_in_a_row_lead_out() -> None:
    members = Members(grid_of("parts"))
    members.look()
    members.note([], {"1": 1, "2": 1}, max_failures=2)
    members.note(["1"], {"2": 1}, max_failures=2)
    members.note([], {"1": 1}, max_failures=2)
    assert members.excluded == {"2": "it failed 2 times in a row"}
    assert members.failures == {"1": 1, "2": 2}


def test_the_mixture_set_of_a_roster() -> None:
    roster = Members(grid_of("parts")).look()
    assert roster.mixture_set(None).n_domains == 3
    made = roster.mixture_set(lambda sizes: Chi2Ball(sizes, 1.5))
    assert isinstance(made, Chi2Ball)
    with pytest.raises(InputError, match=r"over 2 .*over the clients"):
        roster.mixture_set(Simplex(2))

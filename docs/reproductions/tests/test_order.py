"""Claims of order between methods: verdicts by hand, and the committed tables against the figures on the same pages."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.reproductions.order import RELATIONS, OrderClaim, order_table
from docs.reproductions.tests.quick_pages import PAGES, committed

PAPERS = ("chen2016", "echo2020", "kumar2019", "kusumoto2019")
VERDICT = r"holds on all \d+|(holds on (\d+) of (\d+); not on|holds: on (\d+) of (\d+),|holds|does not hold) .+"


def claim(pairs, relation="<", paper=None):
    return OrderClaim("a below b", "section 1", relation, pairs, "{} B".format, paper)


def test_a_verdict_names_the_networks_on_which_the_claim_does_not_hold():
    assert claim({"A": (1, 2), "B": (3, 3)}).row()[3] == "holds on 1 of 2; not on B (3 B against 3 B)"
    assert claim({"A": (1, 2), "B": (3, 3)}, "<=").row()[3] == "holds on all 2"
    assert claim({"A": (2, 1)}, ">").row()[3] == "holds (2 B against 1 B)"
    assert claim({"A": (2, 1)}, "<").row()[3] == "does not hold (2 B against 1 B)"


def test_a_claim_on_some_networks_holds_if_it_does_on_one():
    def verdict(pairs):
        return replace(claim(pairs), some=True).row()[3]

    assert verdict({"A": (1, 2), "B": (3, 3)}) == "holds: on 1 of 2, A (1 B against 2 B)"
    assert verdict({"A": (1, 2), "B": (1, 3)}) == "holds on all 2"
    assert verdict({"A": (3, 2), "B": (3, 3)}) == "does not hold on any"


@given(
    pairs=st.dictionaries(st.text("ABC", min_size=1), st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2),
    relation=st.sampled_from(list(RELATIONS)),
)
def test_a_verdict_counts_the_networks(pairs, relation):
    holds = sum(eval(f"{one} {relation} {other}") for one, other in pairs.values())
    verdict = claim(pairs, relation).row()[3]
    expected = f"holds on all {len(pairs)}" if holds == len(pairs) else f"holds on {holds} of {len(pairs)}; not on"
    assert verdict.startswith(expected)


def test_the_papers_own_figures_have_a_column_if_one_claim_has_them():
    bare, quoted = claim({"A": (1, 2)}), claim({"A": (1, 2)}, paper={"A": (5, 4)})
    assert list(order_table([bare]).columns) == ["claim", "where", "ours"]
    assert [row[2:] for row in order_table([bare, quoted]).rows] == [
        (None, "holds (1 B against 2 B)"),
        ("does not hold (5 B against 4 B)", "holds (1 B against 2 B)"),
    ]


def test_the_note_counts_the_claims_that_hold_and_names_the_others():
    right, wrong = claim({"A": (1, 2)}), claim({"A": (1, 2), "B": (3, 3)})
    assert order_table([right], "In bytes.").note == "1 of 1 claims hold here. In bytes."
    note = order_table([right, wrong, replace(wrong, some=True)]).note
    assert note == f"2 of 3 claims hold here. These fail:\n\n- {wrong.claim} (1 of 2: B)"
    assert order_table([claim({"A": (2, 1)})]).note.endswith(f"\n\n- {wrong.claim}")


@pytest.mark.parametrize("paper", PAPERS)
def test_the_note_of_a_page_is_about_the_rows_of_its_table(paper):
    text = " ".join((PAGES / f"{paper}.md").read_text("utf-8").split())
    rows = [row["ours"] for row in committed(paper, "order")]
    holds = [verdict.startswith(("holds (", "holds on all", "holds: ")) for verdict in rows]
    assert f"{sum(holds)} of {len(rows)} claims hold here" in text


@pytest.mark.parametrize("paper", PAPERS)
def test_every_paper_has_its_claims_of_order_with_a_place_and_a_verdict(paper):
    rows = committed(paper, "order")
    assert len(rows) >= 10
    assert len({row["claim"] for row in rows}) == len(rows)
    for row in rows:
        assert re.match(r"abstract|sections? |Figure|Table", row["where"])
        assert re.fullmatch(VERDICT, row["ours"]), row


def test_the_verdict_on_chens_plan_is_that_of_table_1():
    """Of kusumoto2019, by its own percents and by ours."""
    rows = {row["claim"]: row for row in committed("kusumoto2019", "order")}
    table = committed("kusumoto2019", "table1")
    for by, column in (("paper", "paper's own figures"), ("ours", "ours")):
        for method in ("ApproxDP + MC", "ApproxDP + TC", "ExactDP + MC", "ExactDP + TC"):
            peaks = {row["network"]: (int(row[method]), int(row["Chen's"])) for row in table if row["by"] == by}
            worse = [name for name, (peak, chens) in peaks.items() if peak >= chens]
            verdict = rows[f"peak: {method} below Chen's"][column]
            assert [name for name in peaks if f"{name} (" in verdict] == worse
            assert verdict.startswith(f"holds on {'all 7' if not worse else f'{7 - len(worse)} of 7; not on'}")

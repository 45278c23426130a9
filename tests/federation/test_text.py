"""Text to values and back: YAML 1.2 scalars, and what strangers' files must not do."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.federation import text
from pilotage.federation.faults import BadDocument

DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("a: yes", {"a": "yes"}),
        ("a: on", {"a": "on"}),
        ("a: True", {"a": True}),
        ("a: 1e9", {"a": 1e9}),
        ("a: .5", {"a": 0.5}),
        ("a: 12:30", {"a": "12:30"}),
        ("a: 2026-01-01", {"a": "2026-01-01"}),
        ("a: 0x10", {"a": "0x10"}),
        ("a: 1_000", {"a": "1_000"}),
        ("a: ~", {"a": None}),
        ("a:", {"a": None}),
        ("a: '5'", {"a": "5"}),
        ("a: !!str 5", {"a": "5"}),
        ("1: a", {"1": "a"}),
        ("\ufeffa: 1", {"a": 1}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
    ],
)
def test_scalars_follow_yaml_1_2(source: str, value: object) -> None:
    assert text.parse(source) == value


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("", None, "is empty"),
        ("# nothing\n", None, "is empty"),
        ("a: 1\nb: 2\na: 3\n", 3, "'a' is given twice; it is given already on line 1; keep one"),
        ('{"a": 1,\n "a": 2}', 2, "'a' is given twice; it is given already on line 1; keep one"),
        ("a: &x [1]\nb: *x\n", 2, "the alias *x is not read here; write the value out"),
        ("a: &x [*x]\n", 1, "the alias *x is not read here; write the value out"),
        ("a: .nan", 1, ".nan is not a finite number; give a finite number"),
        ("a: -.INF", 1, "-.INF is not a finite number; give a finite number"),
        ("a: 1e999", 1, "1e999 is not a finite number; give a finite number"),
        ('{"a": NaN, "b": 1e999}', 1, "1e999 is not a finite number; give a finite number"),
        ("a: 9223372036854775808", 1, "9223372036854775808 does not fit in 64 bits; give a smaller number"),
        (f"a: {'9' * 9999}", 1, f"{'9' * 37}... does not fit in 64 bits; give a smaller number"),
        ("[a]: 1", 1, "a mapping's key is a list or a mapping; give a word as the key"),
        ("a: 1\n---\nb: 2", 2, "a second document starts here; keep one document a file"),
        ("- " * 100_000, 1, "is nested deeper than 50 levels; write it flatter"),
        ("[" * 100_000, 1, "is nested deeper than 50 levels; write it flatter"),
        ("a:\n  !!python/object/apply:os.system [id]", 2, None),
        ("a: !!float 5", 1, "the tag tag:yaml.org,2002:float is not read here; leave it out"),
        ("a: 1\nb: \x07", 2, "is not YAML: control characters are not allowed; remove the character"),
        ("a: [1,\n", 1, None),
        ("a: b: c", 1, None),
        ("a:\n\t- b", 2, None),
        ('a: "\\ud800"', 1, None),
        ('{"a": "\\ud800"}', 1, None),
    ],
)
def test_what_is_refused_is_told_with_its_line(source: str, line: int | None, message: str | None) -> None:
    with pytest.raises(BadDocument) as caught:
        text.parse(source)
    (fault,) = caught.value.faults
    assert fault.line == line
    assert message is None or fault.text == message


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("a: " + "x" * text.MOST_YAML, "characters; YAML may have"),
        ("- a\n" * (text.MOST_VALUES + 1), "has more than 300000 values"),
        ("[" + "a," * text.MOST_VALUES + "]", "is not JSON: Expecting value"),
        ('{"a": "' + "x" * text.MOST_YAML + '"', "is not JSON: Expecting ',' delimiter"),
    ],
    ids=["text", "values", "flow", "json"],
)
def test_more_yaml_than_is_read_in_seconds_is_refused_with_what_to_do(source: str, told: str) -> None:
    with pytest.raises(BadDocument) as refused:
        text.parse(source)
    (fault,) = refused.value.faults
    assert told in fault.message
    assert fault.remedy
    if "JSON" not in told:
        assert "CSV" in fault.remedy


def test_directives_of_tags_which_the_parser_compares_with_each_other_are_refused() -> None:
    with pytest.raises(BadDocument, match="%TAG directives") as refused:
        text.parse("".join(f"%TAG !a{n}! x:\n" for n in range(text.MOST_TAG_DIRECTIVES + 1)) + "--- a\n")
    assert refused.value.faults[0].remedy == "leave them out"
    lines = "date +%TAG\n" * (text.MOST_TAG_DIRECTIVES + 1)
    assert text.parse(text.render({"payload": lines})) == {"payload": lines}


def test_a_bomb_of_aliases_costs_no_more_than_its_text() -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30)]
    with pytest.raises(BadDocument, match="alias"):
        text.parse("\n".join(["l0: &l0 [x]", *levels]))


def test_a_remembered_key_does_not_hide_a_list_as_the_next_key() -> None:
    assert text.parse("a: [1]\nb: {c: [2]}") == {"a": [1], "b": {"c": [2]}}


@given(DOCUMENTS)
def test_what_is_rendered_reads_back_the_same(document: object) -> None:
    assert text.parse(text.render({"value": document})) == {"value": document}


@given(DOCUMENTS)
def test_json_is_read_as_what_it_is(document: object) -> None:
    assert text.parse(json.dumps({"value": document}, ensure_ascii=False)) == {"value": document}


def test_every_value_has_its_line() -> None:
    assert text.lines("a: 1\nb:\n  - x\n  - c: 2\n    d:\n      e: 3\n") == {
        (): 1,
        ("a",): 1,
        ("b",): 2,
        ("b", 0): 3,
        ("b", 1): 4,
        ("b", 1, "c"): 4,
        ("b", 1, "d"): 5,
        ("b", 1, "d", "e"): 6,
    }

"""ClassAd expressions are read, and bounded, before the library sees them (M4, M6)."""

import subprocess
import sys

import classad2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.records.advertisements import parsed
from pilotage.model.values.classad import FUNCTIONS, MOST_PARTS, ClassAdError, read

OPERANDS = st.sampled_from(
    ["MY.A", "TARGET.B", "C", "1", "2.5", '"x"', "true", "false", "undefined", "error", "0", "TARGET.L"]
)
SIGNS = st.sampled_from(
    ["&&", "||", "==", "!=", "=?=", "=!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "is", "isnt", "&&"]
)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> str:
    """Expressions of all kinds that are allowed."""
    kind = draw(st.integers(0, 6)) if depth else 0
    if kind == 0:
        return draw(OPERANDS)
    inner = expressions(depth - 1)
    if kind == 1:
        return f"({draw(inner)})"
    if kind == 2:
        return f"{draw(st.sampled_from(['!', '-', '+', '!!']))}{draw(OPERANDS)}"
    if kind == 3:
        return f"({draw(inner)}) ? {draw(inner)} : ({draw(inner)})"
    if kind == 4:
        return f"ifThenElse({draw(inner)}, member({draw(OPERANDS)}, TARGET.L), {{1, {draw(OPERANDS)}}}[0])"
    return f"{draw(inner)} {draw(SIGNS)} {draw(inner)}"


MINE = classad2.ClassAd("[A = 3; C = 1]")
OTHER = classad2.ClassAd('[B = 3; L = {1, "x"}; A = 7]')


def holds(text: str) -> bool:
    """Tell whether the library takes an expression as true."""
    value = classad2.ExprTree(text).eval(MINE, OTHER)
    return not isinstance(value, classad2.Value) and isinstance(value, bool | int | float) and bool(value)


@given(expressions())
def test_m4_an_expression_is_true_where_all_its_parts_are(text: str) -> None:
    found = read(text)
    whole = f"[Requirements = {text}; A = 3; C = 1]"
    ad = classad2.ClassAd(whole)
    assert all(holds(part.evaluated) for part in found.parts) == OTHER.matches(ad) == holds(text)


@given(expressions())
def test_m4_attributes_that_are_not_read_change_nothing(text: str) -> None:
    names = {(found.of_target, found.name) for found in read(text).whole.references}
    own = {name: value for name, value in (("A", 3), ("C", 1)) if (False, name.lower()) in names}
    theirs = {"B": 3, "L": [1, "x"], "A": 7}
    other = {name: value for name, value in theirs.items() if (True, name.lower()) in names}
    tree = classad2.ExprTree(text)
    assert repr(tree.eval(classad2.ClassAd(own), classad2.ClassAd(other))) == repr(tree.eval(MINE, OTHER))


@given(st.text(alphabet='ab1.(){}[]<>=!&|?:"\\ +-*/,', max_size=40))
def test_m4_what_is_read_the_library_reads_too(text: str) -> None:
    try:
        read(text)
    except ClassAdError as error:
        place = error.place
    else:
        classad2.ExprTree(text)
        place = 1
    assert 1 <= place <= len(text) + 1


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ('a && regexp("(a+)+$", TARGET.Name)', 6, "may take for ever"),
        ("a && && b", 6, "a value was expected, found '&&'"),
        ("(a", 3, "')' was expected, found the end"),
        ("", 1, "a value was expected, found the end"),
        ('getenv("HOME")', 1, "may not be called"),
        ('eval("1 + 1")', 1, "may not be called"),
        ('userHome("root")', 1, "may not be called"),
        ("formatTime()", 1, "may not be called"),
        ("random(10)", 8, "takes nothing here"),
        ("TARGET.Requirements", 1, "may not be read"),
        ("CurrentTime > 5", 1, "call time()"),
        ("MY", 3, "'.' was expected"),
        ("[a = 1].a", 1, "a value was expected"),
        ("x = 3", 3, "an operator or the end was expected"),
        ("a == 99999999999999999999", 6, "is a number beyond"),
        ("(" * 31 + "1", 31, "nested more than 30 deep"),
        ("!" * 40 + "a", 1, "signs in a row"),
        ("a ? b : " * 40 + "c", 237, "nested more than 30 deep"),
        ("a + " * 600 + "a", 2001, "more than 1000 words"),
        ("{" + "1," * 2100 + "1}", 4001, "longer than 4000"),
        ("a\x00b", 2, "is not part of an expression"),
    ],
)
def test_m4_what_is_not_allowed_is_refused_with_its_place(text: str, place: int, problem: str) -> None:
    with pytest.raises(ClassAdError) as raised:
        read(text)
    assert problem in str(raised.value)
    assert raised.value.place == place


ARGUMENTS = {
    **dict.fromkeys(["allcompare", "anycompare"], '"<", {1}, 2'),
    **dict.fromkeys(["member", "identicalmember"], "1, {1}"),
    **dict.fromkeys(["avg", "max", "min", "sum"], "{1, 2}"),
    **dict.fromkeys(["strcmp", "stricmp", "strcat", "versioncmp"], '"1.2", "1.3"'),
    **dict.fromkeys(["pow", "quantize"], "2, 3"),
    **dict.fromkeys(["tolower", "toupper", "size"], '"Ab"'),
    "ifthenelse": "true, 1, 2",
    "substr": '"abc", 1',
    "version_in_range": '"1.2", "1.1", "1.3"',
}


def test_m4_every_function_that_may_be_called_is_one_of_the_library() -> None:
    """A server never loads HTCondor's client, which adds functions to the library."""
    versions = {name for name in FUNCTIONS if name.startswith("version") and name not in ARGUMENTS}
    calls = [f"{name}({ARGUMENTS.get(name, '1, 2' if name in versions else '1')})" for name in FUNCTIONS]
    calls = [call.replace("1, 2", '"1", "2"') if call.startswith("version") else call for call in calls]
    program = "import classad2, sys; print([repr(classad2.ExprTree(call).eval()) for call in sys.argv[1:]])"
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, calls)], capture_output=True, text=True, check=True
    )
    assert "Value" not in done.stdout, dict(zip(calls, done.stdout.split(", "), strict=False))


@pytest.mark.parametrize(
    "text",
    [
        f"size(strcat({', '.join(['A'] * (MOST_PARTS + 1))}))",
        f"size({'toLower(' * 20}strcat({', '.join(['A'] * 20)}){')' * 20})",
        f"size(strcat({', '.join(['toUpper(A)'] * (MOST_PARTS // 2 + 1))}))",
    ],
)
def test_m4_no_expression_makes_texts_for_long(text: str) -> None:
    """The library cannot be interrupted: one such expression took 2 s at a site with a long attribute."""
    with pytest.raises(ClassAdError, match="texts of more than"):
        read(text)
    read(f"size(strcat({', '.join(['A'] * MOST_PARTS)}))")


def test_m6_time_and_chance_are_the_worlds() -> None:
    part = read("time() > 5 && random() < 0.5").whole
    assert part.evaluated == "TARGET.WorldTime > 5 && TARGET.WorldChance < 0.5"
    assert read("time() > 5", of_site=True).whole.evaluated == "MY.WorldTime > 5"


def test_m2_a_pushed_ad_is_read() -> None:
    ad = parsed(
        '[ CurrentJobs = 3; maxjobs = 10; Speed = -1.5; Tags = { "a", 2, true }; '
        'Requirements = TARGET.Owner != "x;]" && CurMatches < MaxJobs; ]',
        "HOME",
    )
    assert ad.attributes == {"CurrentJobs": 3, "MaxJobs": 10, "Speed": -1.5, "Tags": ("a", 2, True)}
    assert ad.requirements == 'TARGET.Owner != "x;]" && CurMatches < MaxJobs'


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", 1, "'[' was expected"),
        ("[ A = B ]", 7, "a number, a text"),
        ("[ A = 1; a = 2 ]", 10, "given twice"),
        ("[ CurMatches = 1 ]", 3, "not the site's to give"),
        ("[ CurrentJobs = -1 ]", 17, "no count"),
        ("[ MaxJobs = 1.5 ]", 13, "no count"),
        ("[ Requirements = a && ]", 22, "a value was expected"),
        ('[ Requirements = regexp("(a+)+$", A) ]', 18, "may take for ever"),
        ("[ A = {{{{1}}}} ]", 10, "a number, a text"),
        ("[ A = 1 ] B", 11, "the end was expected"),
        ("[" + "A = 1;" * 5000 + "]", 1, "more than 20000 bytes"),
    ],
)
def test_m2_a_bad_ad_is_refused_with_its_place(text: str, place: int, problem: str) -> None:
    with pytest.raises(ClassAdError) as raised:
        parsed(text, "HOME")
    assert problem in str(raised.value)
    assert raised.value.place == place

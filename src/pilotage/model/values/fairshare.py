"""The fair-share policy of a queue (B10): which work has no share of it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "<=": le,
    ">=": ge,
    "==": eq,
    "!=": ne,
    "<": lt,
    ">": gt,
    "=": eq,
}
_NAMED = re.compile(r"(?P<kind>type|group|gshare)=(?P<pattern>[^=<>]+)")
_PRIORITY = re.compile(r"priority(?P<compare><=|>=|==|!=|=|<|>)(?P<bound>-?\d{1,18})")
_REPEATS = re.compile(r"[*+?{]")
MOST_REPEATS, MOST_ALTERNATIVES = 2, 8
"""Most signs of repetition and ``|`` of one pattern. Nothing interrupts the search for a match. Its time
grows with the length of a name to the power of the repetitions, and doubles with each alternative."""

_PERCENT = re.compile(r"(?P<percent>\d{1,18})%")


class PolicyError(ValueError):
    """A fair-share policy cannot be parsed. The message has the entry and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FairshareWork:
    """Attributes that a policy reads: processing type, working group, global share and priority.

    The priority of a ``merge`` job is ignored.
    """

    type: str = ""
    group: str = ""
    gshare: str = ""
    priority: int = 0
    merge: bool = False


Condition = Callable[[FairshareWork], bool]


@dataclass(frozen=True, slots=True)
class FairshareEntry:
    """One entry of a policy: work that meets all conditions gets ``percent`` of the queue.

    ``priority_bounds`` are the numbers that it compares with the priority of work.
    """

    conditions: tuple[Condition, ...]
    percent: int
    priority_bounds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FairsharePolicy:
    """Entries in order, and all numbers that they compare with the priority of work."""

    entries: tuple[FairshareEntry, ...]
    priority_bounds: tuple[int, ...]

    def refuses(self, work: FairshareWork) -> bool:
        """B10: return whether it refuses the work. The first matching entry decides, and 0 refuses. Work
        without a match gets the remainder.

        The remainder is what the entries leave of 100 %. Merge jobs skip entries about the priority.
        """
        entries = [entry for entry in self.entries if not (work.merge and entry.priority_bounds)]
        for entry in entries:
            if all(condition(work) for condition in entry.conditions):
                return entry.percent == 0
        return sum(entry.percent for entry in entries) >= 100


def parse(text: str) -> FairsharePolicy:
    """Parse a policy: a comma list of conditions with ``:n%``, such as ``type=evgensimul:100%,type=any:0%``.

    Conditions are ``type=``, ``group=``, ``gshare=`` and ``priority<op>n``. Several joined by ``:`` must all
    hold. Names are anchored regular expressions where ``*`` matches any text. ``any`` and ``*`` match
    everything, even a missing value. The type ``evgensimul`` means evgen or simul, ``test`` means every type
    with "test" in its name, in any case. A bare ``0`` means ``0%``. Raises ``PolicyError`` with the column.
    """
    entries = []
    column = 1
    for part in text.split(","):
        if stripped := part.strip():
            try:
                entries.append(_entry(stripped))
            except PolicyError as error:
                at = column + len(part) - len(part.lstrip())
                raise PolicyError(f"column {at}: {error}") from error
        column += len(part) + 1
    bounds = tuple(bound for entry in entries for bound in entry.priority_bounds)
    return FairsharePolicy(tuple(entries), bounds)


def _entry(part: str) -> FairshareEntry:
    *conditions, share = (word.strip() for word in part.split(":"))
    match = _PERCENT.fullmatch("0%" if share == "0" else share)
    if match is None or not conditions:
        raise PolicyError(f"{part!r} has no :n% at its end")
    if int(match["percent"]) > 100:
        raise PolicyError(f"{part!r} gives more than 100%")
    return FairshareEntry(
        conditions=tuple(_condition(part, word) for word in conditions),
        percent=int(match["percent"]),
        priority_bounds=tuple(
            int(condition["bound"]) for word in conditions if (condition := _PRIORITY.fullmatch(word))
        ),
    )


def _condition(part: str, word: str) -> Condition:
    if match := _PRIORITY.fullmatch(word):
        compare, bound = _COMPARISONS[match["compare"]], int(match["bound"])
        return lambda work: compare(work.priority, bound)
    match = _NAMED.fullmatch(word)
    if match is None:
        forms = "type=, group=, gshare=, priority<op>n"
        raise PolicyError(f"{part!r} has the condition {word!r}, which is none of {forms}")
    return _named(part, match["kind"], match["pattern"])


def _all(_: FairshareWork) -> bool:
    return True


def _named(part: str, kind: str, pattern: str) -> Condition:
    if pattern in ("any", "*"):
        return _all
    if kind == "type" and pattern == "evgensimul":
        return lambda work: work.type in ("evgen", "simul")
    if kind == "type" and pattern == "test":
        return lambda work: "test" in work.type.lower()
    if len(_REPEATS.findall(pattern)) > MOST_REPEATS or pattern.count("|") > MOST_ALTERNATIVES:
        limits = f"{MOST_REPEATS} of * + ? {{ and {MOST_ALTERNATIVES} |"
        raise PolicyError(f"{part!r} has the pattern {pattern!r}, which has more than {limits}")
    if re.search(r"\)[+?{]", pattern):
        raise PolicyError(f"{part!r} has the pattern {pattern!r}, which repeats a group in brackets")
    try:
        expression = re.compile(pattern.replace("*", ".*"))
    except (re.error, OverflowError, RecursionError) as error:
        problem = f"{part!r} has the pattern {pattern!r}, which is no regular expression: {error}"
        raise PolicyError(problem) from error
    return lambda work: expression.fullmatch(getattr(work, kind)) is not None

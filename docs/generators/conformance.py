"""Pages on the published rules: the checks of the brokerage, and conformance."""

from collections.abc import Sequence

from generators.markdown import first_paragraph, table
from pilotage.policies.brokerage.production.checks import CHECKS
from rules import RULES, Carrier, Rule, tests, values


def brokerage() -> str:
    """The checks of the production brokerage."""
    rows = [
        (check.rule, check.name, check.mend, check.unit, first_paragraph(check.judge.__doc__))
        for check in CHECKS
    ]
    return (
        "# Production brokerage\n\n"
        "All checks run on all queues, also after a refusal: see\n"
        "[how a queue is chosen](../explanation/brokerage.md).\n"
        "Rules that begin with F are Pilotage's own.\n\n"
        + table(("rule", "check", "mended by", "unit", "meaning"), rows)
        + "\n[Conformance](conformance.md) has the rules of weight and spreading, B30 to B38.\n"
    )


def conformance() -> str:
    """Every rule with its modules, its defaults, our interpretation and the tests that carry its number."""
    found = tests()
    head = (
        "# Conformance\n\n"
        "The published rules that Pilotage implements, each in one line: its modules (below `pilotage`),\n"
        "its defaults (times in s), our interpretation if the text is open or contradicts itself,\n"
        "and the number of its tests. *not yet* marks rules without code.\n\n"
    )
    rules = table(
        ("rule", "text", "modules", "defaults", "interpretation", "tests"),
        [_rule(rule, found.get(rule.number, [])) for rule in RULES],
    )
    built = [rule for rule in RULES if rule.where]
    return (
        head
        + rules
        + "\n## Tests\n\n"
        + "".join(_tests_of(rule, found.get(rule.number, [])) for rule in built)
    )


def _rule(rule: Rule, found: Sequence[Carrier]) -> Sequence[str]:
    count = (
        (f"[{len(found)}](#{rule.number.lower().replace(' ', '-')})" if found else "none")
        if rule.where
        else ""
    )
    where = "<br>".join(f"`{module}`" for module in rule.where) or "*not yet*"
    defaults = "<br>".join(f"`{name}` {_shown(value)}" for name, value in values(rule))
    return rule.number, rule.text, where, defaults, rule.settled, count


def _shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    return f"{value:.10g}" if isinstance(value, int | float) else str(value)


def _tests_of(rule: Rule, found: Sequence[Carrier]) -> str:
    files: dict[str, list[str]] = {}
    for test in found:
        files.setdefault(test.file, []).append(test.name)
    lines = "".join(
        f"- [{file}](../../tests/{file}): {', '.join(f'`{name}`' for name in names)}\n"
        for file, names in files.items()
    )
    return f"### {rule.number}\n\n{lines or 'none'}\n"

"""The plugin's options: rules to switch off, and changed constants, also for single VOs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pydantic import ValidationError

from pilotage.model.documents.serialization import from_json
from pilotage.model.records.federation import BrokerageConstants
from pilotage.model.values.types import CLOSED


class OptionError(ValueError):
    """The plugin cannot be made with its options. ``path`` is the path to the wrong option."""

    def __init__(self, path: Sequence[str | int], message: str) -> None:
        self.path = tuple(path)
        self.message = message
        super().__init__(f"{'.'.join(map(str, self.path))}: {message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class VoOptions:
    """Options of a VO: further rules to switch off, and its own constants."""

    __pydantic_config__ = CLOSED

    off: tuple[str, ...] = ()
    """Numbers of rules switched off for its work."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """The brokerage's constants by name, in the units of the federation's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The document of ``plugin_options: {production: ...}`` in a federation."""

    __pydantic_config__ = CLOSED

    off: tuple[str, ...] = ()
    """Numbers of rules switched off for all work."""
    by_vo: Mapping[str, VoOptions] = field(default_factory=dict)
    """Different options for the work of single VOs, by name."""

    @classmethod
    def of(cls, document: Mapping[str, Any], rules: frozenset[str]) -> "Options":
        """Return the options of a document.

        Only ``rules`` can be switched off. Raises ``OptionError``.
        """
        options: Options = _checked(cls, document, ())
        _check_rules(options.off, rules, ("off",))
        for vo, vo_options in options.by_vo.items():
            _check_rules(vo_options.off, rules, ("by_vo", vo, "off"))
            _checked(BrokerageConstants, vo_options.constants, ("by_vo", vo, "constants"))
        return options

    def policies(self, constants: BrokerageConstants) -> "Policies":
        """Return the policy for each VO's work, given the federation's constants."""
        general = frozenset(self.off)
        vo_policies = {}
        for vo, options in self.by_vo.items():
            changed = _checked(BrokerageConstants, options.constants, ())
            # Convert the named values with the record. Keep the federation's values for the others.
            values = {name: getattr(changed, name) for name in options.constants}
            vo_policies[vo] = VoPolicy(general | set(options.off), replace(constants, **values))
        return Policies(VoPolicy(general, constants), vo_policies)


@dataclass(frozen=True, slots=True, eq=False)
class VoPolicy:
    """Rules switched off and constants for some work. It is equal only to itself."""

    off: frozenset[str]
    constants: BrokerageConstants


@dataclass(frozen=True, slots=True)
class Policies:
    """The policy of each VO."""

    general: VoPolicy
    by_vo: Mapping[str, VoPolicy]

    def of(self, vo: str) -> VoPolicy:
        """Return the VO's own policy, or the general one."""
        return self.by_vo.get(vo, self.general)


def _check_rules(off: tuple[str, ...], rules: frozenset[str], path: tuple[str, ...]) -> None:
    for place, rule in enumerate(off):
        if rule not in rules:
            rule_names = ", ".join(sorted(rules, key=lambda rule: (rule[:1], len(rule), rule)))
            raise OptionError((*path, place), f"no rule {rule!r} can be switched off; known: {rule_names}")


def _checked(kind: Any, document: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    try:
        return from_json(kind, json.dumps(document), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        record = VoOptions if first["loc"][0] == "by_vo" and not path else kind
        field_names = ", ".join(item.name for item in fields(record))
        unknown = first["type"] == "unexpected_keyword_argument"
        message = f"there is no such option; known: {field_names}" if unknown else first["msg"]
        raise OptionError((*path, *first["loc"]), message) from error

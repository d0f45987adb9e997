"""A job's objects as the text that ``kubectl`` reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flota.launch.kubernetes.pods import Object

if TYPE_CHECKING:
    import yaml

# Every parser of YAML takes these for text. Of others some do not: 1e-3 is text to Python's, and a number to kubectl's.
_TEXT = re.compile(r"[A-Za-z/][A-Za-z0-9_/.-]*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "nan"}


def _style(value: str) -> str | None:
    if "\n" in value:
        return "|"
    return None if _TEXT.fullmatch(value) and value.lower() not in _WORDS else '"'


def _dumper() -> type[yaml.SafeDumper]:
    import yaml  # not before something is rendered

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]  # yaml has no types
        def ignore_aliases(self, data: Any) -> bool:  # the same labels in many places are written out in each
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    def text(dumper: yaml.SafeDumper, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=_style(value))

    Dumper.add_representer(str, text)
    return Dumper


def to_yaml(objects: Sequence[Object]) -> str:
    import yaml

    dumper = _dumper()
    return "---\n".join(
        str(yaml.dump(thing, Dumper=dumper, sort_keys=False, width=10_000, allow_unicode=True)) for thing in objects
    )

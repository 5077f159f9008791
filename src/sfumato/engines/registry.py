"""All engines by name. To add an engine, add a file and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.errors import OptionError

if TYPE_CHECKING:
    from sfumato.engines.base import Engine

# name → module and class, imported when used
ENGINES: dict[str, tuple[str, str]] = {"memory": ("sfumato.engines.memory", "Memory")}
AUTO = "auto"


def engine_for(chosen: str | Engine[Any, Any]) -> Engine[Any, Any]:
    """Return the engine with this name, or the engine itself; "auto" is "memory" for now."""
    if not isinstance(chosen, str):
        return chosen
    name = "memory" if chosen == AUTO else chosen
    if name not in ENGINES:
        raise OptionError(
            f"There is no engine {name!r}.", found=repr(name), fix=f"one of {', '.join([AUTO, *ENGINES])}"
        )
    module, found = ENGINES[name]
    engine: Engine[Any, Any] = getattr(import_module(module), found)()
    return engine

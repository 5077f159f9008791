"""Every engine by its name. A new engine is one new file and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.errors import OptionError

if TYPE_CHECKING:
    from sfumato.engines.base import Engine

# name → module and class; imported when asked for
ENGINES: dict[str, tuple[str, str]] = {"memory": ("sfumato.engines.memory", "Memory")}
AUTO = "auto"


def engine_for(chosen: str | Engine[Any, Any]) -> Engine[Any, Any]:
    """The engine of this name, or the engine itself; "auto" takes the one that suits the source."""
    if not isinstance(chosen, str):
        return chosen
    name = "memory" if chosen == AUTO else chosen
    if name not in ENGINES:
        raise OptionError(f"There is no engine {name!r}.", found=f"engines {', '.join([AUTO, *ENGINES])}")
    module, found = ENGINES[name]
    engine: Engine[Any, Any] = getattr(import_module(module), found)()
    return engine

"""The memory engine: it holds the whole table and answers exactly. All other engines are compared with it."""

from sfumato.engines.memory.blocks import run as run  # moved
from sfumato.engines.memory.engine import Memory as Memory  # moved
from sfumato.engines.memory.scan import MemorySurvey as MemorySurvey  # moved

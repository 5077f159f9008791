"""Schema files and errors of absurd size are refused at once, in few words."""

import time
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.errors import SchemaError, SfumatoError


@pytest.mark.parametrize(
    "text", ["[columns.{key}]\nrole = 'quasi'", "[columns]\nage = 'quasi'\n{key} = 1", "x = {{{key} = 1}}"]
)
def test_a_key_of_very_many_parts_is_refused_at_once(tmp_path: Path, text: str) -> None:
    file = tmp_path / "schema.toml"
    file.write_text(text.format(key=".".join(["a"] * 20_000)))
    began = time.process_time()
    with pytest.raises(SchemaError, match="more than 500 parts"):
        sf.Schema.of(file)
    assert time.process_time() - began < 1.0


def test_a_long_error_is_shortened() -> None:
    error = SfumatoError("x" * 280_000, found="y" * 280_000)
    assert len(str(error)) < 6_000
    assert "more characters" in error.message

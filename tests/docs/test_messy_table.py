"""A messy hospital table goes from file to a release worth having in three commands, as the how-to page tells it.

messy_table.txt is the transcript: every command with all that it prints. Only what differs between machines is left
out. REWRITE=1 writes it again, here and in the page.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.messy_hospital import PLANTED, PLANTED_COST, PLANTED_NUMBER, hospital_columns, write_hospital

import sfumato as sf

TRANSCRIPT = Path(__file__).with_name("messy_table.txt")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "messy-table.md"
KEPT = ("mean(Alter)", "mean(Verweildauer)", "corr(Alter, Kreatinin)", "mean(HbA1c)")
KEEP = " ".join(f"--keep '{one}'" for one in KEPT)
COMMANDS = (
    f"sfumato recommend patienten.csv {KEEP}",
    "sfumato release patienten.csv --sensitive ICD10,HbA1c,Kreatinin,Kosten -o out --method boxes --k 5 --l 2 " + KEEP,
    "sfumato estimate out 'mean(Alter | ICD10 = E11.9)' 'regress(Kreatinin ~ Alter)' 'median(Kosten)'",
)
NARROW = 0.1  # largest half-width of a guaranteed interval, in standard deviations of the column; of 1 for correlations
REMOVED = ("Nachname", "Vorname", "Fallnummer", "Bemerkung")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder after the three commands, the true columns, and the transcript."""
    folder = tmp_path_factory.mktemp("hospital")
    columns = hospital_columns()
    write_hospital(folder / "patienten.csv", columns)
    said = "\n".join(f"$ {command}\n{_output(command, folder)}" for command in COMMANDS)
    return folder, columns, said


# random numbers come from the operating system, but a transcript needs the same ones each time
REPEATABLE = "import secrets; secrets.randbits = lambda bits: 2026; from sfumato.cli import main; main()"


def _output(command: str, folder: Path) -> str:
    """What a command prints, as a terminal shows it, without what differs between machines."""
    unhurried = ["--seconds", "900"] if " recommend " in command else []  # so that a slow machine finds the same
    words = [sys.executable, "-c", REPEATABLE, *shlex.split(command)[1:], *unhurried]
    ended = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert ended.returncode == 0, ended.stdout.decode()
    text = re.sub(r" +$", "", ended.stdout.decode(), flags=re.MULTILINE)
    text = re.sub(r"^· compiling kernels.*\n", "", text, flags=re.MULTILINE)
    text = text.replace("was found in the time that was given with", "was found with")
    text = re.sub(r"the best, “[^”]*”, still fails .*\.$", "the best, “…”, still fails ….", text, flags=re.MULTILINE)
    text = re.sub(r"about [\d.]+ s and [\d.]+ GB", "about … s and … GB", text)
    text = re.sub(r"(about|instead of) 0\.7\d+", r"\1 0.7…", text)  # a wide interval becomes narrower with more time
    text = re.sub(r"0\.6919\d", "0.6919…", text)  # the last digit depends on the processor
    return re.sub(r"there are [\d.]+ GB", "there are … GB", text)


def test_the_transcript_is_what_the_commands_print(made):
    if os.environ.get("REWRITE"):
        TRANSCRIPT.write_text(made[2])
        _rewrite_page(made[2])
    assert made[2] == TRANSCRIPT.read_text()


def test_the_page_shows_the_transcript():
    shown = re.findall(r"```console\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert "\n".join(shown) == TRANSCRIPT.read_text()


def _rewrite_page(said: str) -> None:
    parts = iter(re.split(r"\n(?=\$ )", said))
    fences = re.compile(r"(?<=```console\n).*?(?=```)", flags=re.DOTALL)
    PAGE.write_text(fences.sub(lambda found: next(parts).rstrip("\n") + "\n", PAGE.read_text()))


def test_the_second_command_is_the_one_that_the_first_recommends(made):
    assert COMMANDS[1] in made[2].partition(f"$ {COMMANDS[1]}")[0]


def test_identifiers_and_free_text_are_not_released(made):
    released = sf.read_release(made[0] / "out")
    assert not set(REMOVED) & set(released.names)
    assert set(made[1]) - set(REMOVED) == set(released.names) - {"box"}


def test_every_row_is_in_a_group_of_k(made):
    released = sf.read_release(made[0] / "out")
    quasi = [name for name in released.table.names if name.endswith(("_low", "_high"))] + ["Geschlecht", "PLZ"]
    frame = released.table.arrow.select(quasi).to_pandas()
    assert frame.groupby(quasi, dropna=False, observed=True).size().min() >= 5


def test_values_were_read_as_what_they_are(made):
    with pytest.warns(sf.errors.SfumatoWarning, match="'Geschlecht' \\(6 values, 4 if they are merged\\)"):
        table = sf.read(made[0] / "patienten.csv")
    for name in ("HbA1c", "Kreatinin", "Kosten", "Alter"):
        expected = np.array([np.nan if value is None else value for value in made[1][name]], dtype=float)
        np.testing.assert_array_equal(table.numbers(name), expected)
    for name in ("Geburtsdatum", "Aufnahme", "Entlassung", "PLZ", "ICD10", "Nachname"):
        assert table.arrow.column(name).to_pylist() == made[1][name]


def _truths(columns):
    age, stay = (np.array(columns[name], dtype=float) for name in ("Alter", "Verweildauer"))
    value, creatinine = (np.array(columns[name], dtype=float) for name in ("HbA1c", "Kreatinin"))
    known = ~np.isnan(creatinine)
    return {
        "mean(Alter)": (age.mean(), age.std()),
        "mean(Verweildauer)": (stay.mean(), stay.std()),
        "corr(Alter, Kreatinin)": (np.corrcoef(age[known], creatinine[known])[0, 1], 1.0),
        "mean(HbA1c)": (np.nanmean(value), np.nanstd(value)),
    }


def test_intervals_contain_the_truth_and_are_narrow(made):
    released = sf.read_release(made[0] / "out")
    for statistic, (truth, spread) in _truths(made[1]).items():
        found = released.estimate(statistic)
        assert found.low - 1e-9 <= truth <= found.high + 1e-9, statistic
        assert (found.high - found.low) / 2.0 <= NARROW * spread, statistic


def test_without_the_decision_of_a_person_they_would_not_be(made):
    """The control: with the suggested roles alone some interval is too wide."""
    table = sf.read(made[0] / "patienten.csv")
    released = sf.Boxes(k=5, keep=list(KEPT)).release(table)
    widths = [
        (one.high - one.low) / 2.0 / spread
        for name, (_, spread) in _truths(made[1]).items()
        for one in [released.estimate(name)]
    ]
    assert max(widths) > NARROW


def test_no_planted_value_gets_out(made):
    folder, columns, said = made
    assert PLANTED.encode("cp1252") in (folder / "patienten.csv").read_bytes()
    texts = {"transcript": said.encode()}
    texts |= {file.name: file.read_bytes() for file in (*(folder / "out").iterdir(), folder / "out.toml")}
    hidden = [PLANTED, PLANTED_NUMBER, "Kanarienv", *columns["Fallnummer"][:50]]
    for name, content in texts.items():
        cost = [] if name.startswith("released") else [f"{PLANTED_COST}", "71,177", "71177"]
        found = [word for word in [*hidden, *cost] if word.encode() in content or word.encode("cp1252") in content]
        assert not found, name


def test_warnings_are_few_and_short(made):
    warned = [line for line in made[2].splitlines() if line.startswith("warning: ")]
    assert len(set(warned)) == 1
    assert all(len(line) <= 240 for line in warned)

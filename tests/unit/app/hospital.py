"""A table as hospitals export them: semicolons, decimal commas, dates, umlauts in an old encoding, gaps, HTML."""

from __future__ import annotations

import numpy as np

ROWS = 600
NAMES = "Patienten-Nr;Name, Vorname;Geburtsdatum;PLZ;Geschlecht;Größe (cm);Gewicht;Blutdruck;Station;Diagnose"


def messy_table(rows: int = ROWS) -> bytes:
    """Return the bytes of the file."""
    numbers = np.random.default_rng(15)
    days = np.datetime64("1930-01-01") + numbers.integers(0, 30_000, rows)
    height = numbers.normal(171, 9, rows).round(1)
    weight = (height - 100 + numbers.normal(0, 9, rows)).round(1)
    lines = [f"{NAMES};Kosten in €;<b>Notiz</b>"]
    for n in range(rows):
        year, month, day = str(days[n]).split("-")
        cells = [
            f"{500_000 + 7 * n}",
            f'"Müller{n}; Jörg"',
            f"{day}.{month}.{year}",
            f"{numbers.choice([10115, 20095, 80331, 4109]):05d}",
            str(numbers.choice(["m", "w", "w", "d" if n % 97 == 0 else "m"])),
            "" if n % 31 == 0 else f"{height[n]}".replace(".", ","),
            "NA" if n % 43 == 0 else f"{weight[n]}".replace(".", ","),
            f"{numbers.integers(100, 180)}",
            str(numbers.choice(["Innere", "Chirurgie", "Gynäkologie", "Kinder & Jugend"])),
            str(numbers.choice(["I10", "E11.9", "J45.0", "C50.9", "K35.8"])),
            f"{numbers.lognormal(7, 1):.2f}".replace(".", ","),
            "<script>alert(1)</script>" if n % 50 == 0 else "ohne Befund",
        ]
        lines.append(";".join(cells))
    return ("\r\n".join(lines) + "\r\n").encode("cp1252")

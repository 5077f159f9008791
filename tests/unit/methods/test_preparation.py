"""Pseudonyms and shifted dates: keyed, linked by the key, verified, and refused where they would mislead."""

from __future__ import annotations

import datetime
import pickle
import stat

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import CannotRelease, GuaranteeNotMet, OptionError, ReadError, SchemaError, SfumatoWarning
from sfumato.methods.base import METHODS, method_class
from sfumato.plan.claims.rows import Pseudonyms
from sfumato.plan.plan import Evidence
from sfumato.release.read import verify_bundle
from sfumato.schema.pseudonyms import (
    PSEUDONYM,
    SecretKey,
    _require_kept,
    collision_probability,
    day_shifts,
    make_pseudonyms,
    prepare,
)
from sfumato.schema.schema import FittedTable
from sfumato.sources.frames import as_table

SHIFT = {"by": "patient", "days": 30}
ROLES = {
    "patient": "pseudonym",
    "age": "quasi",
    "seen": {"role": "other", "shift": SHIFT},
    "left": {"role": "other", "shift": SHIFT},
}
KEY = SecretKey(bytes(range(32)))


def people(rows: int = 60, visits: int = 1) -> dict[str, list[object]]:
    draw = np.random.default_rng(3)
    start = datetime.date(2015, 1, 1)
    return {
        "patient": [None if person == 7 else 770_000 + person for person in range(rows)] * visits,
        "age": draw.integers(18, 90, rows * visits).tolist(),
        "seen": [start + datetime.timedelta(int(day)) for day in draw.integers(0, 2000, rows * visits)],
        "left": [
            None if day % 9 == 0 else datetime.datetime(2021, 3, 1, 12, 30) + datetime.timedelta(int(day))
            for day in draw.integers(0, 900, rows * visits)
        ],
    }


@pytest.fixture
def key(tmp_path) -> str:
    SecretKey.create(tmp_path / "study.key")
    return str(tmp_path / "study.key")


class TestKeys:
    def test_a_key_is_256_bits_for_its_owner_only_and_is_not_shown(self, tmp_path):
        made = SecretKey.create(tmp_path / "a.key")
        assert stat.S_IMODE((tmp_path / "a.key").stat().st_mode) == 0o600
        assert SecretKey.read(tmp_path / "a.key") == made
        assert SecretKey.create(tmp_path / "b.key") != made
        assert made._secret.hex() not in repr(made) and len(made._secret) == 32
        with pytest.raises(TypeError):
            pickle.dumps(made)

    def test_a_key_is_never_overwritten(self, key):
        with pytest.raises(OptionError, match="cannot be written"):
            SecretKey.create(key)

    def test_a_key_that_others_may_read_is_refused(self, key, tmp_path):
        (tmp_path / "study.key").chmod(0o640)
        with pytest.raises(ReadError, match="640"):
            SecretKey.read(key)

    @pytest.mark.parametrize("content", [b"", b"secret-word", bytes(200), b"sfumato key 1: abc"])
    def test_another_file_is_no_key_and_is_not_quoted(self, content, tmp_path):
        (tmp_path / "a.key").write_bytes(content)
        (tmp_path / "a.key").chmod(0o600)
        with pytest.raises(ReadError) as caught:
            SecretKey.read(tmp_path / "a.key")
        assert "secret-word" not in str(caught.value)


class TestPseudonyms:
    @given(st.lists(st.none() | st.text(max_size=5), max_size=30))
    def test_equal_identifiers_and_only_they_share_one(self, cells):
        made = make_pseudonyms(pa.chunked_array([pa.array(cells, pa.string())]), KEY).to_pylist()
        assert [one is None for one in made] == [one is None for one in cells]
        assert all(one is None or PSEUDONYM.fullmatch(one) for one in made)
        pairs = {(cell, one) for cell, one in zip(cells, made, strict=True) if cell is not None}
        assert len({one for _, one in pairs}) <= len(pairs)
        assert len({cell for cell, _ in pairs}) == len(pairs), "one pseudonym for each identifier"

    def test_numbers_and_text_are_linked(self):
        columns = [pa.array([17, None]), pa.array([17.0, None]), pa.array(["17", None])]
        made = {str(make_pseudonyms(pa.chunked_array([one]), KEY).to_pylist()) for one in columns}
        assert len(made) == 1
        assert str(make_pseudonyms(pa.chunked_array([columns[0]]), SecretKey.random()).to_pylist()) not in made

    def test_they_follow_hmac_sha_256(self):
        """Computed by hand from RFC 2104, without the module hmac."""
        import base64
        import hashlib

        padded = KEY._secret + bytes(32)
        inner, outer = bytes(one ^ 0x36 for one in padded), bytes(one ^ 0x5C for one in padded)
        digest = hashlib.sha256(outer + hashlib.sha256(inner + b"pseudonym\x0017").digest()).digest()
        expected = base64.b32encode(digest[:10]).decode().lower()
        assert make_pseudonyms(pa.chunked_array([[17]]), KEY).to_pylist() == [expected]

    def test_the_probability_of_a_collision_is_that_of_birthdays(self):
        assert collision_probability(1) == 0.0
        assert collision_probability(10**6) == pytest.approx(10**6 * (10**6 - 1) / 2**81)
        assert collision_probability(10**30) == 1.0

    def test_the_claim_sees_raw_identifiers_and_repeats(self):
        claim = Pseudonyms(column="id", one_row_each=True)
        good = make_pseudonyms(pa.chunked_array([[1, 2, 3]]), KEY).to_pylist()
        for cells, held in (
            (good, True),
            ([*good[:2], None], True),
            ([*good[:2], "770001"], False),
            ([good[0]] * 2, False),
        ):
            table = as_table({"id": pa.array(cells, pa.string())})
            finding = claim.measure(Evidence(table, table.select([]), np.arange(table.rows)))
            assert finding.held is held
            assert "770001" not in str(finding)


class TestReleases:
    def test_pseudonyms_stay_with_their_rows_and_link_two_releases(self, key, tmp_path):
        first = sf.Boxes(k=5).release(people(), schema=ROLES, key=key)
        second = sf.Boxes(k=5).release(people(), schema=ROLES, key=key)
        ages = dict(zip(people()["patient"], people()["age"], strict=True))
        secret = SecretKey.read(key)
        owner = {make_pseudonyms(pa.chunked_array([[one]]), secret)[0].as_py(): one for one in ages}
        for release in (first, second):
            rows = release.table.arrow.select(["patient", "age_low", "age_high"]).to_pylist()
            assert all(row["age_low"] <= ages[owner[row["patient"]]] <= row["age_high"] for row in rows)
        assert sum(row is None for row in first.table.arrow.column("patient").to_pylist()) == 1
        assert verify_bundle(first.write(tmp_path / "out")).holds
        assert "patient" in sf.read_release(tmp_path / "out").manifest.pseudonyms

    def test_neither_key_nor_identifier_is_in_any_file_log_or_text(self, key, tmp_path, caplog):
        with caplog.at_level("DEBUG"):
            release = sf.Boxes(k=5).release(people(), schema=ROLES, key=key)
        folder = release.write(tmp_path / "out", formats=["csv"])
        secret = SecretKey.read(key)._secret
        shown = caplog.text + repr(release) + repr(release.manifest) + release._repr_html_()
        texts = [path.read_bytes() for path in folder.iterdir()] + [shown.encode()]
        for text in texts:
            assert secret not in text and secret.hex().encode() not in text
            assert b"77000" not in text and b"study.key" not in text
        assert any(b"no anonymity" in text for text in texts)

    def test_a_key_is_made_and_said(self, tmp_path):
        with pytest.warns(SfumatoWarning, match=r"new secret key was written to new\.key"):
            sf.Boxes(k=5).release(people(), schema=ROLES, key=tmp_path / "new.key")
        assert SecretKey.read(tmp_path / "new.key")

    def test_without_a_key_nothing_is_done(self):
        with pytest.raises(OptionError, match="need a secret key"):
            sf.Boxes(k=5).release(people(), schema=ROLES)

    def test_a_key_without_a_use_is_refused(self, key):
        with pytest.raises(OptionError, match="leave the key out"):
            sf.Boxes(k=5).release(people(), schema={"patient": "identifier", "age": "quasi"}, key=key)

    def test_other_engines_say_that_they_cannot(self, key):
        with pytest.raises(OptionError, match="duckdb"):
            sf.Boxes(k=5).release(people(), schema=ROLES, key=key, engine="duckdb")

    @pytest.mark.parametrize("name", sorted(one for one in METHODS if not method_class(one).one_row_per_person))
    def test_methods_that_mix_people_are_refused(self, name, key):
        from sfumato.methods.base import make_method

        options = {"k": 3} if "k" in method_class(name).__dataclass_fields__ else {}
        with pytest.raises(
            (CannotRelease, SchemaError), match=r"belongs to a person|no sampling weights, households, pseud"
        ):
            make_method(name, **options).release(people(), schema=ROLES, key=key)

    def test_a_person_with_several_rows_is_refused_where_k_counts_rows(self, key):
        with pytest.raises(CannotRelease, match="promises count rows"):
            sf.Boxes(k=5).release(people(visits=2), schema=ROLES, key=key)
        twice = {**people(visits=2), "sex": ["f", "m"] * 60}
        free = sf.Pram().release(twice, schema={**ROLES, "sex": "quasi", "age": "other"}, key=key)
        assert free.manifest.guarantee == "no guarantee"
        assert len(set(free.table.arrow.column("patient").to_pylist())) == 60, "59 people, and those without identifier"

    def test_a_pseudonym_must_be_an_identifier(self):
        with pytest.raises(SchemaError, match="identifier"):
            sf.Schema.of({"age": {"role": "quasi", "pseudonym": True}})


class TestShiftedDates:
    @given(st.lists(st.none() | st.integers(0, 5), min_size=1, max_size=40), st.integers(1, 400))
    def test_every_person_has_one_shift_and_none_is_zero(self, cells, days):
        shifts = day_shifts(pa.chunked_array([pa.array(cells, pa.int64())]), KEY, days)
        assert ((np.abs(shifts) >= 1) & (np.abs(shifts) <= days)).all()
        for person in set(cells) - {None}:
            assert len({shift for cell, shift in zip(cells, shifts, strict=True) if cell == person}) == 1

    def test_shifts_are_uniform(self):
        """χ² over 2·3 outcomes, 5 degrees of freedom: above 25.7 with probability 10⁻⁴; the control must fail."""
        shifts = day_shifts(pa.chunked_array([np.arange(12_000)]), KEY, 3)
        counts = np.array([(shifts == day).sum() for day in (-3, -2, -1, 1, 2, 3)])
        assert ((counts - 2000) ** 2 / 2000).sum() < 25.7
        counts[:2] += [200, -200]
        assert ((counts - 2000) ** 2 / 2000).sum() > 25.7

    def test_distances_within_a_person_are_kept_exactly(self):
        table = as_table(people(visits=3))
        fitted = FittedTable.of(table, {"patient": "identifier", **{n: ROLES[n] for n in ("age", "seen", "left")}})
        moved, _ = prepare(fitted, KEY)
        by: dict[object, set[object]] = {}
        for old, new in zip(table.arrow.to_pylist(), moved.table.arrow.to_pylist(), strict=True):
            for name in ("seen", "left"):
                assert (old[name] is None) == (new[name] is None)
                if old[name] is not None and old["patient"] is not None:
                    by.setdefault(old["patient"], set()).add(new[name] - old[name])
        assert all(len(shifts) == 1 for shifts in by.values()), "dates and timestamps of all rows of a person"
        assert len({next(iter(shifts)) for shifts in by.values()}) > 10, "different people, different shifts"

    def test_a_shift_that_is_not_the_same_would_be_seen(self):
        old = [pa.array([10, 20], pa.date32())]
        person = np.array([0, 0])
        _require_kept(old, [pa.array([13, 23], pa.date32())], person, 5)
        for new in ([13, 24], [10, 20], [18, 28], [13, None]):
            with pytest.raises(GuaranteeNotMet):
                _require_kept(old, [pa.array(new, pa.date32())], person, 5)

    def test_nothing_is_guaranteed_about_shifted_columns(self, key):
        release = sf.Boxes(k=5).release(people(), schema={**ROLES, "seen": {"role": "quasi", "shift": SHIFT}}, key=key)
        assert release.manifest.altered == ("seen", "left")
        estimate = release.estimate("mean(seen)")
        assert not np.isfinite(estimate.numbers.low)
        assert "shifted" in release.findings[-1].claim

    def test_without_a_key_every_release_has_other_shifts(self):
        roles = {"patient": "identifier", "age": "quasi", "seen": ROLES["seen"], "left": ROLES["left"]}
        days = [
            sorted(sf.Boxes(k=5).release(people(), schema=roles).table.arrow.column("seen").to_pylist())
            for _ in range(2)
        ]
        assert days[0] != days[1]

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"left": {"role": "other", "shift": {"by": "patient", "days": 31}}}, "same number of days"),
            ({"age": {"role": "quasi", "shift": SHIFT}}, "Only dates"),
            ({"left": {"role": "other", "shift": {"days": 30}}}, "tells people apart"),
            ({"left": {"role": "other", "shift": {"by": "patient", "days": 0}}}, "1 to"),
        ],
    )
    def test_a_shift_that_cannot_be_is_refused(self, change, match, key):
        with pytest.raises(SchemaError, match=match):
            sf.Boxes(k=5).release(people(), schema={**ROLES, **change}, key=key)

    def test_the_calendar_ends(self, key):
        late = {**people(), "seen": [datetime.date(9999, 12, 30)] * 60}
        with pytest.raises(SchemaError, match="years 1 to 9999"):
            sf.Boxes(k=5).release(late, schema=ROLES, key=key)

    def test_a_schema_file_keeps_what_is_asked_for(self, tmp_path):
        schema = sf.Schema.of(ROLES)
        schema.write(tmp_path / "schema.toml")
        assert sf.Schema.of(tmp_path / "schema.toml") == schema

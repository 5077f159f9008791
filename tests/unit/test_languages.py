"""Reports in other languages: every sentence of the templates is in the table, and names and code stay."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato import errors
from sfumato.languages import (
    INLINE,
    SENTENCE_END,
    SILENT,
    TAG,
    Sentences,
    _plain,
    _say_marked,
    _sentences_and_tags,
    languages,
    sentences,
    translate_english_parts,
    translate_lines,
    translate_page,
)
from sfumato.recommendation.changes import Found, ImprovementStep
from sfumato.recommendation.improve import Improvement
from sfumato.recommendation.recommend import Preferences, Situation, choose
from sfumato.recommendation.records import Cost, ExpectedWidth, Recommendation, Unknown
from sfumato.release.read import verify_bundle
from sfumato.report.contents import MEANINGS
from sfumato.report.distributions import QUESTIONS
from sfumato.schema.schema import Schema
from sfumato.statistics.language import parse
from sfumato.table.kinds import Kind

SOURCE = Path(sf.__file__).parent
OTHERS = [language for language in languages() if language != "en"]
TEMPLATES = ("base", "release", "sections", "tables", "evidence", "comparison", "maps")


def spoken(page: str) -> list[str]:
    """Return the sentences of a page, each on one line."""
    pieces = _sentences_and_tags(TAG.split(SILENT.sub("", page)))
    texts = [" ".join(_plain(one).split()) for one in pieces if not one.startswith("<") or INLINE.match(one)]
    return [text for text in texts if re.search(r"[A-Za-z]{3}", re.sub(r"<[^>]+>|<code>.*?</code>", "", text))]


def fixed_texts(template: str) -> set[str]:
    """Return the texts of a template in which nothing is filled in."""
    text = (SOURCE / "report" / "templates" / f"{template}.html.j2").read_text()
    text = re.sub(r"\{#.*?#\}", "", text, flags=re.DOTALL)
    quoted = re.findall(r"\(\"([A-Z][^\"{]+)\", [01]\)|call t[dh]\(\"([^\"]+)\"|call table\(\"([^\"]+)\"", text)
    text = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", "\0", text, flags=re.DOTALL)
    plain = {one for one in spoken(text) if "\0" not in one}
    return plain | {part for parts in quoted for part in parts if part}


@pytest.mark.parametrize("language", OTHERS)
class TestTheTable:
    @pytest.mark.parametrize("template", TEMPLATES)
    def test_has_every_fixed_sentence_of_a_template(self, language, template):
        known, names = sentences(language), {"schema.toml", "SHA-256"}
        missing = [text for text in fixed_texts(template) if known._find(text) is None and text not in names]
        marked = [re.sub(r"</?code>", "`", text) for text in missing]  # the table writes code between backquotes
        pieces = [one for text in marked for one in re.split(r"(?<=[.?:]) (?=[A-Z“])", text)]
        assert [one for one in pieces if not any(one in key for key in known.catalogue)] == []

    def test_has_every_question_and_meaning(self, language):
        known = sentences(language)
        asked = [*MEANINGS.values(), *(question for question, _, _ in QUESTIONS.values())]
        assert [text for text in asked if known._find(text) is None] == []

    def test_has_the_name_of_every_score(self, language):
        known = sentences(language)
        assert [name for name in [*MEANINGS, *QUESTIONS] if known._find(name) is None] == []

    def test_has_every_reason_of_a_recommendation(self, language):
        known = sentences(language)
        parts = [one for text in reasons() if known._find(text) is None for one in SENTENCE_END.split(text)]
        assert [text for text in parts if known._find(text) is None] == []

    def test_has_the_sentences_of_all_languages(self, language):
        assert set(sentences(language).catalogue) == set.union(*(set(sentences(one).catalogue) for one in OTHERS))

    def test_keeps_the_placeholders(self, language):
        for text, other in sentences(language).catalogue.items():
            assert set(re.findall(r"\{(\w+)\}", text)) == set(re.findall(r"\{(\w+)\}", other)), text


def reasons() -> set[str]:
    """Return what recommendations say about tables of all kinds."""
    tree, numbers = ("f", "g"), dict.fromkeys("abcdefg", Kind.WHOLE)
    schemas = [
        {"a": "quasi"},
        {"a": "quasi", "b": "quasi", "c": "sensitive", "d": "identifier", "e": "other"},
        {"a": "quasi", "b": "sensitive", "c": "sensitive", "d": "identifier", "e": "identifier"},
        dict.fromkeys("abcdefg", "quasi"),
        {name: {"role": "quasi", "tree": "steps:5"} for name in tree},
    ]
    keep = (parse("mean(a)"), parse("mean(e)"))
    wanted = [
        Preferences(),
        Preferences(keep=keep),
        Preferences(population=1000),
        Preferences(k=7),
        Preferences(k=12, risk=0.09),
    ]
    found: set[str] = set()
    for rows in (20, 500):
        for one in schemas:
            schema = Schema.of(one)
            situation = Situation(rows=rows, schema=schema, kinds=numbers, codes=("a",))
            for preferences in wanted:
                choice = choose(situation, preferences)
                found |= {*choice.reasons, *(other.reason for other in choice.alternatives)}
    return found


@pytest.fixture
def release():
    draw = np.random.default_rng(0)
    table = {
        "age": draw.integers(18, 90, 200),
        "kept and privacy": draw.normal(70, 12, 200),
        "ill": draw.choice(["a", "b"], 200),
    }
    schema = {"age": "quasi", "kept and privacy": "other", "ill": "sensitive"}
    return sf.Boxes(k=5, keep=["mean(age)"]).release(table, schema=schema)


class TestAReportInFrench:
    def test_speaks_french_and_writes_numbers_as_french_does(self, release, tmp_path):
        folder = release.write(tmp_path / "fr", language="fr")
        page, readme = (folder / "report.html").read_text(), (folder / "README.txt").read_text()
        assert '<html lang="fr">' in page and "Les engagements de confidentialité sont tenus." in page
        assert "5-anonyme dans age" in page and "privacy promises" not in page
        assert readme.startswith("Une table de 200 lignes") and verify_bundle(folder).holds
        assert re.search(r"\d,\d", page) and sentences("fr").numbers("12,345.5") == "12\u202f345,5"

    def test_evidence(self, release):
        pack = release.evidence(recipient="Université", purpose="privacy", language="fr")
        assert "n’est pas un avis juridique" in pack.page and "considérant 26" in pack.page
        assert '<dd translate="no">privacy</dd>' in pack.page  # the words of the user stay


class TestNames:
    def test_a_column_in_capitals_after_a_colon_begins_no_sentence(self):
        told = sentences("de").say("2 quasi-identifiers are protected: Alter, PLZ, 3 more. Alter; Sex")
        assert told == "2 Quasi-Identifikatoren werden geschützt: Alter, PLZ, 3 weitere. Alter; Sex"

    def test_columns_keep_their_names_although_the_table_knows_these_words(self, tmp_path):
        draw = np.random.default_rng(0)
        table = {"weight": draw.integers(40, 90, 60), "date": draw.integers(1, 99, 60), "privacy": ["a", "b"] * 30}
        schema = {"weight": "quasi", "date": "quasi", "privacy": "sensitive"}
        release = sf.Boxes(k=5).release(table, schema=schema)
        page = (release.write(tmp_path / "de", language="de") / "report.html").read_text()
        for name in table:
            assert re.search(rf'<th [^>]*translate="no">{name}[<\n]', page), name
        assert "5-anonym in weight und date" in page or "5-anonym in weight, date" in page
        assert not re.search(r">(?:Gewicht|Datum)<", page.partition("<footer")[0].partition('id="decide"')[0])


class TestAReportInGerman:
    def test_speaks_german_and_says_the_same_figures(self, release, tmp_path):
        folder = release.write(tmp_path / "de", language="de")
        page = (folder / "report.html").read_text()
        assert '<html lang="de">' in page
        assert "Die Zusagen zum Datenschutz sind eingehalten." in page and "privacy promises" not in page
        assert "5-anonym in age" in page and "kleinste Gruppe" in page
        assert "kept and privacy" in page  # the name of a column

    def test_readme_and_checks(self, release, tmp_path):
        folder = release.write(tmp_path / "de", language="de")
        readme = (folder / "README.txt").read_text()
        assert readme.startswith("Eine Tabelle von 200 Zeilen") and "Zugesagt: 5-anonym in age" in readme
        assert verify_bundle(folder).holds
        (folder / "README.txt").write_text(readme.replace("5-anonym", "9-anonym"))
        assert not verify_bundle(folder).holds

    def test_few_sentences_stay_english(self, release):
        from sfumato.report.html import Report

        page = Report.of(release).page.partition('<section aria-labelledby="made">')[0]  # options are explained below
        known = sentences("de")
        stays = {one for one in spoken(page) if known.say(one) == one and known._find(one) is None}
        names = {"age", "kept and privacy", "ill", "boxes", "mean(<wbr>age)", "age_<wbr>low – age_<wbr>high"}
        others = {one for one in stays - names if not one.startswith(("<code>", "Replace each record"))}
        assert others <= {"age, kept and privacy, ill"}

    def test_an_unknown_language_is_refused(self, release, tmp_path):
        with pytest.raises(sf.SfumatoError, match="language"):
            release.write(tmp_path / "xx", language="xx")

    def test_evidence(self, release):
        pack = release.evidence(recipient="Uni <b>X</b>", purpose="Studie", language="de")
        assert "keine Rechtsberatung" in pack.page and "<b>X" not in pack.page


ENGLISH_WORDS = re.compile(r"\b(?:the|is|are|were|with|that|they|each|rows|people|at most|at least|than|only|by)\b")
CODE = re.compile(r"<code>.*?</code>|\"[^\"]*\"")


def english_sentences(page: str, language: str) -> list[str]:
    """Return what is still English in a page that was translated; code and words of options may be."""
    told = spoken(translate_page(page, language))
    return [text for text in told if ENGLISH_WORDS.search(CODE.sub("", text))]


@pytest.fixture(scope="module")
def assessed():
    draw = np.random.default_rng(0)
    table = {
        "age": draw.integers(18, 90, 240),
        "income": draw.lognormal(10, 1, 240).round(),
        "ill": draw.choice(["a", "b", "c"], 240),
    }
    half, others = sf.split_holdout(table, 0.5)
    release = sf.Boxes(k=5).release(half, schema={"age": "quasi", "income": "other", "ill": "sensitive"})
    return replace(release, assessment=sf.assess(half, release, reference=others))


@pytest.mark.parametrize("language", OTHERS)
class TestAnAssessedRelease:
    def test_no_sentence_stays_english(self, language, assessed):
        from sfumato.report.html import Report

        assert english_sentences(Report.of(assessed).page, language) == []

    def test_the_control_is_english(self, language, assessed):
        assert english_sentences("<p>Nobody translated that the rows are those of people.</p>", language) != []

    def test_scores_and_papers_keep_their_numbers(self, language, assessed):
        from sfumato.report.html import Report

        page = translate_page(Report.of(assessed).page, language)
        assert "arXiv 2509.03350" in page.replace("<wbr>", "")
        assert "0,5" in page and sentences(language).numbers("quantile(x, 0.9) is 0.9") == "quantile(x, 0.9) is 0,9"


class TestPartsInEnglish:
    def test_only_marked_parts_are_translated(self):
        page = '<p>privacy 0.5</p><div lang="en"><div>privacy</div><p>0.5</p></div><p>1.234 privacy</p>'
        told = translate_english_parts(page, "de")
        assert told == '<p>privacy 0.5</p><div lang="de"><div>Datenschutz</div><p>0,5</p></div><p>1.234 privacy</p>'
        assert translate_english_parts(page, "en") == page

    def test_code_is_found_by_its_backquotes(self):
        known = Sentences.of("de", {"Run `sfumato`.": "Rufen Sie `sfumato` auf."})
        assert _say_marked("Run <code>sfu<wbr>mato</code>.", known) == "Rufen Sie <code>sfumato</code> auf."


class TestSentences:
    def test_values_are_translated_and_escaped_text_stays(self):
        known = Sentences.of("de", {"{n} rows": "{n} Zeilen", "{rows} in {name}": "{rows} in {name}", "and": "und"})
        assert known.say("5 rows in a &lt;b&gt; and c") == "5 Zeilen in a &lt;b&gt; und c"

    def test_sentences_and_clauses_are_told_one_by_one(self):
        told = {"{n} of {rest}": "{n} von {rest}", "{n} of {m} failed.": "{n} von {m} nicht.", "They ask: {what}": "?"}
        known = Sentences.of("fr", {**told, "{n} by chance": "{n} par hasard", "; ": " ; "})
        assert known.say("6 of 19 failed. They ask: why") == "6 von 19 nicht. ?"
        assert known.say("5 of 9 people; 0.1 by chance") == "5 von 9 people ; 0.1 par hasard"
        assert known.say("neither is known; nor this") == "neither is known; nor this"

    @pytest.mark.parametrize("name", ["weight; kg", "Dr. Name: X", "a; B (c; d)"])
    def test_names_that_hold_the_marks_of_sentences_are_told_whole(self, name):
        told = f"Privacy guarantee: 5-anonymous in age, sex; at least 2 different values of '{name}' in each group."
        assert sentences("de").say(told) == (
            "Garantie für den Datenschutz: 5-anonym in age, sex; "
            f"mindestens 2 verschiedene Werte von '{name}' in jeder Gruppe."
        )

    def test_few_words_do_not_match_everything(self):
        assert sentences("de").say("half of the table was left out of all") == "half of the table was left out of all"

    def test_code_and_styles_stay(self):
        page = '<html lang="en"><style>.privacy{}</style><p>privacy</p><pre>privacy</pre><code>privacy</code></html>'
        told = translate_page(page, "de")
        assert told.count("privacy") == 3 and "<p>Datenschutz</p>" in told

    def test_english_is_unchanged(self):
        assert (
            translate_page("<p>privacy</p>", "en") == "<p>privacy</p>" and translate_lines("privacy", "en") == "privacy"
        )


def error_texts() -> dict[str, str]:
    """Return what errors and warnings of the package say, with examples in their placeholders, and where they are."""
    kinds = {name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, Exception)}
    texts: dict[str, str] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {*kinds, "warn"}:
                parts = [*node.args[:1], *(one.value for one in node.keywords if one.arg in ("found", "fix"))]
                branches = [
                    one for part in parts for one in (getattr(part, "body", part), getattr(part, "orelse", part))
                ]
                texts |= {text: f"{file.name}:{node.lineno}" for one in branches if (text := example_of(one))}
    return texts


def example_of(node: ast.AST) -> str:
    """Return a text with an example for each value, which is a number where it has a format; empty if it is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.FormattedValue):
        return "'x'" if node.conversion == ord("r") else "7" if node.format_spec or "len(" in ast.unparse(node) else "x"
    return "".join(map(example_of, node.values)) if isinstance(node, ast.JoinedStr) else ""


@pytest.mark.parametrize("language", OTHERS)
def test_no_error_stays_english(language):
    known, texts = sentences(language), error_texts()
    assert len(texts) > 1000, "they are found"
    words = {text: re.findall(r"\b[a-z]{2,}\b", CODE.sub("", text)) for text in texts if "in Python" not in text}
    spoken_ones = [text for text in words if len(words[text]) > 4]
    assert {text: texts[text] for text in spoken_ones if known.say(text) == text} == {}
    assert known.say("Nobody translated that the rows are those of people.").startswith("Nobody")


@pytest.fixture(scope="module")
def map_in_german(tmp_path_factory):
    draw = np.random.default_rng(0)
    table = {"age": draw.integers(18, 90, 120), "ill": draw.choice(["a", "b", "c"], 120)}
    folder = tmp_path_factory.mktemp("map")
    schema = {"age": "quasi", "ill": "sensitive"}
    sf.compare(table, ["boxes", "quantiles"], strengths=1, schema=schema, into=folder, language="de", jobs=1)
    return (folder / "report.html").read_text()


class TestAMap:
    def test_speaks_the_language(self, map_in_german):
        assert '<html lang="de">' in map_in_german and "Alle Versuche" in map_in_german
        assert english_sentences(map_in_german, "en") == []

    def test_an_unknown_language_is_refused_before_the_work(self, tmp_path):
        with pytest.raises(sf.SfumatoError, match="language"):
            sf.compare({"age": [1, 2]}, ["boxes"], into=tmp_path / "map", language="xx")
        assert not (tmp_path / "map").exists()


ENGLISH_WORDS = re.compile(r"\b(?:the|of|is|are|were|with|rows|people|passed|failed|privacy|better|about|wide)\b")


def steps() -> tuple[ImprovementStep, ...]:
    """Return steps of all kinds of changes."""
    kinds = ["boxes, as chosen", "k = 20 in place of 5", "protect age, sex too", "do not release age"]
    kinds += ["protect age too, and k = 20 in place of 5", "method synthesize in place of boxes, for all columns"]
    kinds += [
        "method synthesize, for all columns, from counts of pairs of columns",
        "k = 50 in place of 5, tested again",
    ]
    names = ("membership by nearest row", "copies, all columns")
    failing = [ImprovementStep(change=one, reason="", tests=12, failed=names) for one in kinds]
    last = ImprovementStep(change=kinds[1], reason="A larger k protects more.", tests=12, failed=())
    return (*failing, last)


def test_a_language_without_a_table_is_refused():
    for code in ("xx", "EN", "../de"):
        with pytest.raises(errors.OptionError, match="language"):
            sentences(code)


@pytest.mark.parametrize("language", OTHERS)
class TestWhatACommandPrints:
    def test_an_assessment(self, language, release):
        draw = np.random.default_rng(1)
        others = {"age": draw.integers(18, 90, 200), "kept and privacy": draw.normal(70, 12, 200), "ill": ["a"] * 200}
        for reference in (None, others):
            assessment = sf.release_and_assess(
                sf.Boxes(k=5),
                {**others, "ill": ["a", "b"] * 100},
                reference,
                schema={"age": "quasi", "ill": "sensitive"},
            ).assessment
            assert str(assessment) == assessment.text() and ENGLISH_WORDS.search(assessment.text())
            assert [line for line in assessment.text(language).split("\n") if ENGLISH_WORDS.search(line)] == []

    @pytest.mark.parametrize("passed", [True, False])
    def test_a_recommendation(self, language, passed):
        found = Found(steps=steps() if passed else steps()[:-1])
        chosen = f"All 12 privacy tests passed on held-out people of 1,200 rows; not so {found.steps[0]}."
        wide = ExpectedWidth(statistic="mean(x)", width=12345.6, share=0.1)
        widths = (wide, ExpectedWidth(statistic="mean(d)", width=3.0, share=0.001, unit="days"))
        recommended = Recommendation(
            method="boxes",
            options={"k": 5},
            reasons=(
                *sorted(reasons()),
                "protect age, sex too: age, sex were released exactly: with age, 3 rows looked like no other.",
            ),
            command="sfumato release FILE",
            cost=Cost(seconds=1.5, memory=10**9, widths=widths, tried_rows=4000, note="from a release of 4,000 rows"),
            alternatives=(),
            unknown=Unknown(columns=("age", "sex"), command="sfumato release", widths=(replace(wide, width=0.5),)),
            passed=passed,
            verdict=chosen if passed else found.refusal,
        )
        lines = [line for line in recommended.text(language).split("\n") if "sfumato release" not in line]
        assert [line for line in lines if ENGLISH_WORDS.search(line)] == []
        assert "12.345" in recommended.text("de") or "12.346" in recommended.text("de")

    def test_an_improvement_and_an_optimum(self, language):
        texts = [Improvement(steps=tried, release=None).text(language) for tried in (steps(), steps()[:-1])]
        texts += [
            sf.Optimum(limit=limit).text(language) for limit in ("all privacy tests pass", "the risk is at most 0.09")
        ]
        assert [line for text in texts for line in text.split("\n") if ENGLISH_WORDS.search(line)] == []

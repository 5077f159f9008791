"""Pages say what is so: examples are run and compared; commands, options and names that are mentioned exist."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from sfumato.cli.commands import app
from sfumato.measures.registry import MEASURES
from sfumato.methods.base import METHODS, method_class

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"


def loaded(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where its dataclasses are looked for
    spec.loader.exec_module(module)
    return module


examples = loaded(DOCS / "run_examples.py")
PAGES = {str(page.relative_to(REPOSITORY)): page.read_text(encoding="utf-8") for page in examples.pages()}
BLOCKS = {name: examples.blocks_of(text) for name, text in PAGES.items()}
RUN = [name for name, blocks in BLOCKS.items() if any(block.runs for block in blocks)]


def prose(name: str) -> str:
    """The page without its fenced blocks and comments."""
    return re.sub(r"```.*?```|<!--.*?-->", "", PAGES[name], flags=re.S)


def spans(name: str) -> list[str]:
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(name))]


def failures_of(text: str) -> list[str]:
    blocks = examples.blocks_of(text)
    examples.Session().run(blocks)
    return [f"line {block.line}: {one}" for block in blocks for one in block.failures]


@pytest.mark.parametrize("name", RUN)
def test_examples_print_what_the_page_says(name):
    failures = failures_of(PAGES[name])
    assert not failures, "\n\n".join(failures) + f"\n\npython docs/run_examples.py --write {name}"


@pytest.mark.parametrize("name", PAGES)
class TestPage:
    def test_a_block_is_run_or_says_why_not(self, name):
        free = ("text", *(block.language for block in BLOCKS[name] if block.language.startswith("{")))
        silent = [
            block.line
            for block in BLOCKS[name]
            if not (block.runs or block.file or block.not_run or block.language in free)
        ]
        assert silent == [], "write console, python, or a comment before the block; see docs/run_examples.py"

    def test_commands_are_in_blocks_that_are_run(self, name):
        assert re.findall(r"^ {4,}(?:\$ )?(?:sfumato|make|pip) .*", prose(name), flags=re.M) == []

    def test_blocks_that_are_not_run_use_what_exists(self, name):
        assert [one for block in BLOCKS[name] if block.not_run for one in examples.problems(block)] == []

    def test_commands_and_options_in_the_text_exist(self, name):
        if name.startswith("docs/decisions") or "changelog" in name:
            pytest.skip("says what was")
        commands = get_command(app).commands.values()
        known = {
            flag
            for one in commands
            for parameter in one.params
            for flag in (*parameter.opts, *parameter.secondary_opts)
        }
        known |= {"--version", "--help", "--install-completion", "--write", "--seed", "--tables"}
        mentioned = [span for span in spans(name) if span.startswith("sfumato ")]
        wrong = [found for span in mentioned if (found := examples.command_problem(span.replace("'", '"')))]
        wrong += [
            span for span in spans(name) if re.match(r"--[a-z]", span) and re.split(r"[ =]", span)[0] not in known
        ]
        assert wrong == []

    def test_python_names_in_the_text_exist(self, name):
        wrong = []
        for span in spans(name):
            if not span.startswith("sf."):
                continue
            try:
                tree = ast.parse(span.replace("…", "..."))
            except SyntaxError:  # shortened in a way that is no Python
                tree = ast.parse(re.match(r"sf\.\w+", span)[0])
            wrong += [found for node in ast.walk(tree) if (found := examples._call_problem(node))]
        assert set(wrong) <= {"there is no sf.Rounded"}  # the example of CONTRIBUTING.md


class TestControls:
    """What is wrong is seen."""

    def test_a_wrong_output(self):
        assert failures_of("```console\n$ echo one\ntwo\n```\n")
        assert failures_of("```python\n>>> 1 + 1\n3\n```\n")
        assert not failures_of("```console\n$ echo one two\none ...\n```\n\n```python\n>>> 1 + 1\n2\n```\n")

    def test_an_output_that_is_not_shown(self):
        assert failures_of("```console\n$ sfumato --version\n```\n")
        assert failures_of("```python\nprint(1)\n```\n")

    def test_a_failing_command_and_a_failing_script(self):
        assert failures_of("```console\n$ sfumato inspect nothing.csv\n```\n")
        assert failures_of("<!-- setup\nassert False\n-->\n")

    @pytest.mark.parametrize(
        "command",
        ["sfumato relaese FILE", "sfumato release FILE --kk 5", "make nothing", "pip install 'sfumato[nothing]'"],
    )
    def test_a_command_that_does_not_exist(self, command):
        assert examples.command_problem(command)
        (block,) = examples.blocks_of(f"<!-- not run: a reason -->\n```console\n$ {command}\n```\n")
        assert examples.problems(block)

    def test_names_and_arguments_that_do_not_exist(self):
        for code in ("sf.Nothing()", "sf.Boxes(kk=5)", ">>> sf.Boxes(k=5, kk=5)"):
            (block,) = examples.blocks_of(f"<!-- not run: a reason -->\n```python\n{code}\n```\n")
            assert examples.problems(block), code

    def test_the_output_of_today_is_written_into_the_page(self):
        page = "Text\n\n```console\n$ echo one\ntwo\n$ echo three\n```\n\n```python\n>>> 1 + 1\n```\n"
        blocks = examples.blocks_of(page)
        examples.Session().run(blocks)
        right = "Text\n\n```console\n$ echo one\none\n$ echo three\nthree\n```\n\n```python\n>>> 1 + 1\n2\n```\n"
        assert examples.rewritten(page, blocks) == right


class TestWhatMustBeComplete:
    def test_the_readme_lists_all_commands(self):
        listed = re.findall(r"^\| `sfumato (\w+)", PAGES["README.md"], flags=re.M)
        assert sorted(listed) == sorted(get_command(app).commands)

    def test_the_readme_lists_all_methods(self):
        table = PAGES["README.md"].partition("## Methods")[2].partition("## ")[0]
        assert [name for name in METHODS if f"`{method_class(name).__name__}`" not in table] == []

    def test_figures_of_the_comparison_are_on_the_page_that_is_their_source(self):
        table = PAGES["README.md"].partition("Measured elsewhere")[2].partition("\n\nSeconds are")[0]
        figures = {
            number for line in table.splitlines()[4:] for cell in line.split("|")[2:] for number in _numbers(cell)
        }
        source = set(_numbers(PAGES["docs/replication/other-tools.md"]))
        assert len(figures) > 15
        assert sorted(figures - source) == []

    @pytest.mark.parametrize("name", METHODS)
    def test_a_method_has_a_page_of_theory(self, name):
        theory = PAGES[f"docs/theory/{method_class(name).theory}.md"]
        assert re.search(rf"`(?:sf\.)?{method_class(name).__name__}\b", theory)

    @pytest.mark.parametrize("name", MEASURES)
    def test_a_measure_has_a_page_of_theory(self, name):
        pages = loaded(DOCS / "reference" / "method_pages.py")
        theory = PAGES[f"docs/theory/{pages.MEASURE_THEORY[name]}"]
        assert MEASURES[name].module.rpartition(".")[2] in theory

    def test_all_public_names_are_in_the_reference(self):
        import sfumato

        text = (DOCS / "reference" / "api.rst").read_text(encoding="utf-8")
        shown = re.findall(r"^\.\. auto\w+:: (\w+)$", text, flags=re.M)
        assert sorted(shown) == sorted(sfumato.public_names())

    def test_links_of_pages_outside_of_docs_lead_somewhere(self):
        for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
            text = (REPOSITORY / name).read_text(encoding="utf-8")
            links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
            assert [link for link in links if not (REPOSITORY / link).exists()] == []

    def test_the_list_of_the_papers_names_files_that_exist_and_counts_itself(self):
        text = PAGES["docs/replication/papers.md"]
        rows = [line.strip("|").split(" | ") for line in text.splitlines() if re.match(r"\| \d+ \|", line)]
        assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1))
        files = [path for row in rows for path in re.findall(r"`((?:src|docs)/[^`]+)`", " ".join(row))]
        assert len(files) >= 2 * len(rows)
        assert [path for path in files if not (REPOSITORY / path).exists()] == []
        states = [re.match(r"here|partly|not here", row[-1])[0] for row in rows]
        said = re.search(r"^\| all \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, flags=re.M).groups()
        counted = [states.count(word) for word in ("here", "partly", "not here")]
        assert [int(number) for number in said] == [*counted, len(rows)]


# every privacy model of ARX 3.9 and what its users call its methods and measures
ARX = """KAnonymity KMap AverageReidentificationRisk SampleUniqueness PopulationUniqueness DistinctLDiversity
EntropyLDiversity RecursiveCLDiversity EqualDistanceTCloseness HierarchicalDistanceTCloseness OrderedDistanceTCloseness
DDisclosurePrivacy BasicBLikeness EnhancedBLikeness DPresence Inclusion EDDifferentialPrivacy
DataDependentEDDifferentialPrivacy ProfitabilityProsecutor ProfitabilityJournalist HierarchyBuilderIntervalBased
HierarchyBuilderOrderBased HierarchyBuilderPriorityBased HierarchyBuilderDate HierarchyBuilderRedactionBased
granularity precision discernibility ambiguity entropy AECS publisher microaggregation prosecutor journalist marketer"""

# every function that sdcMicro 5.8 exports, without its methods for printing
SDCMICRO = """IL_correl IL_variables KI_createSdcObj LocalRecProg addGhostVars addNoise argus_microaggregation
argus_rankswap calcRisks createDat createNewID createSdcObj dRisk dRiskRMD dUtility dataGen
extractManipData freq freqCalc generateStrata get.sdcMicroObj globalRecode groupAndRename
importProblem indivRisk infoLoss kAnon kAnon_violations ldiversity localSupp localSuppression mafast
measure_risk mergeHouseholdData microaggrGower microaggregation modRisk mvTopCoding nextSdcObj
plot.localSuppression plotMicro pram rankSwap readMicrodata recordSwap removeDirectID report
riskyCells sdcApp selectHouseholdData set.sdcMicroObj shuffle strataVar suda2 topBotCoding undolast
valTable varToFactor varToNumeric writeSafeFile"""


@pytest.mark.parametrize(("page", "names"), [("from-arx", ARX), ("from-sdcmicro", SDCMICRO)])
def test_equivalents_are_complete(page, names):
    rows = [line for line in PAGES[f"docs/how-to/{page}.md"].splitlines() if line.startswith("| ")]
    there = " ".join(line.split("|")[1] for line in rows)
    assert [name for name in names.split() if not re.search(rf"(?<![\w.]){re.escape(name)}\b", there)] == []
    assert [line for line in rows if not line.split("|")[2].strip()] == []


def _numbers(text: str) -> list[str]:
    return re.findall(r"(?<![\w.])\d+(?:[.,]\d+)*(?![\w])", text)


@pytest.mark.parametrize("name", [name for name in RUN if name.startswith("docs/tutorials")])
def test_a_notebook_of_a_tutorial_has_its_examples(name):
    made = loaded(DOCS / "notebook.py").notebook(PAGES[name])
    cells = ["".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code"]
    assert len(cells) == sum(block.runs or bool(block.file) for block in BLOCKS[name])
    for cell in cells:
        if not cell.startswith(("!", "%%")):
            compile(cell, name, "exec")
    written = "".join("".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "markdown")
    assert "<!--" not in written
    assert written.startswith(PAGES[name][:40])

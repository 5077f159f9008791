"""The parts of the server, each by itself: history, names of uploads, named folders, private folders, trees, fields."""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.app.choices import Choices, History, Message
from sfumato.app.guard import Guard, Headers
from sfumato.app.pages.frame import Form
from sfumato.app.pages.method import fields_of, read_options, takes_statistics
from sfumato.app.pages.table import draw_branches, group_values
from sfumato.app.uploads import NamedFolder, require_expandable, safe_name, shown_name
from sfumato.app.visitors import MOST, Visitors
from sfumato.errors import SfumatoError
from sfumato.methods.base import METHODS, make_method, method_class
from sfumato.params import options_of
from sfumato.private_folder import PrivateFolder
from sfumato.schema.hierarchies import Tree
from sfumato.schema.schema import Schema
from sfumato.sources.files import FileSource


class TestHistory:
    @given(st.lists(st.one_of(st.integers(1, 4), st.sampled_from(["undo", "redo"])), max_size=40))
    def test_is_that_of_two_stacks(self, actions):
        """The oracle keeps what can be undone and redone in two lists."""
        history = History(Choices(schema=Schema(())))
        now, done, undone = None, [], []
        for action in actions:
            if action == "undo":
                history.undo()
                if done:
                    undone.append(now)
                    now = done.pop()
            elif action == "redo":
                history.redo()
                if undone:
                    done.append(now)
                    now = undone.pop()
            else:
                history.change(Message("x"), population=action)
                if action != now:
                    done.append(now)
                    now, undone = action, []
            assert history.now.population == now
            assert (history.to_undo is None) == (not done)
            assert (history.to_redo is None) == (not undone)


@given(st.text(max_size=300))
def test_a_name_of_an_upload_is_always_a_plain_file_name(name):
    safe = safe_name(name)
    assert 5 <= len(safe) <= 90
    assert Path(safe).name == safe
    assert safe.isascii()
    assert not safe.startswith((".", "-"))
    assert not set(safe) & set("/\\\0 $`'\"<>|&;")


class TestExpanding:
    def test_a_small_archive_passes_and_the_limit_is_exact(self, tmp_path):
        file = tmp_path / "t.gz"
        file.write_bytes(gzip.compress(b"x" * 3_000_000))
        require_expandable(file, 3_000_000)
        with pytest.raises(SfumatoError, match="must not expand"):
            require_expandable(file, 2_999_999)

    def test_several_parts_count_together(self, tmp_path):
        file = tmp_path / "t.gz"
        file.write_bytes(gzip.compress(b"x" * 600_000) * 4)
        with pytest.raises(SfumatoError, match="must not expand"):
            require_expandable(file, 2_000_000)

    @pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\x1f\x8bbroken", b"PK\x03\x04broken"])
    def test_other_files_are_left_to_their_reader(self, tmp_path, content):
        file = tmp_path / "t.csv"
        file.write_bytes(content)
        require_expandable(file, 10)


class TestNamedFolder:
    @given(st.lists(st.sampled_from(["..", ".", "a", "b.csv", "", "~", "/", "out"]), max_size=6).map("/".join))
    def test_nothing_outside_is_found(self, tmp_path_factory, path):
        root = tmp_path_factory.getbasetemp() / "named"
        (root / "in" / "a").mkdir(parents=True, exist_ok=True)
        (root / "b.csv").write_text("secret")
        (root / "in" / "a" / "b.csv").write_text("ours")
        out = root / "in" / "out"
        if not out.is_symlink():
            out.symlink_to(root)
        try:
            found = NamedFolder(root / "in").find(path)
        except SfumatoError:
            return
        assert found.read_text() == "ours"

    def test_tables_are_listed_and_hidden_files_are_not(self, tmp_path):
        for name in ("a.csv", ".b.csv", "c.txt", "d.pdf", ".git/e.csv", "f/g.parquet"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()
        assert NamedFolder(tmp_path).tables() == ["a.csv", "c.txt", "f/g.parquet"]


class TestPrivateFolder:
    def test_is_private_and_removed(self, tmp_path):
        made = PrivateFolder.create("sfumato-app-", tmp_path)
        assert made.path.stat().st_mode & 0o777 == 0o700
        (made.path / "x").write_text("y")
        made.remove()
        assert list(tmp_path.iterdir()) == []

    def test_a_living_one_is_not_swept_and_others_are_not_touched(self, tmp_path):
        living, other = PrivateFolder.create("sfumato-app-", tmp_path), tmp_path / "somebody-else"
        other.mkdir()
        (tmp_path / "sfumato-app-dead").mkdir()
        (tmp_path / "sfumato-app-link").symlink_to(other)
        following = PrivateFolder.create("sfumato-app-", tmp_path)
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {living.path.name, following.path.name, other.name, "sfumato-app-link"}
        living.remove()
        following.remove()


class TestVisitors:
    def test_sessions_without_a_table_make_room(self, tmp_path):
        visitors = Visitors(tmp_path)
        made = [visitors.welcome("") for _ in range(MOST + 3)]
        assert all(made)
        assert visitors.find(made[0].session) is None
        assert visitors.find(made[-1].session) is made[-1]
        assert len(list(tmp_path.iterdir())) == MOST
        visitors.leave()
        assert list(tmp_path.iterdir()) == []


class TestGuard:
    guard = Guard(None, None, key="k", port=5)  # type: ignore[arg-type]

    @given(st.dictionaries(st.sampled_from(["host", "origin", "sec-fetch-site", "upgrade"]), st.text(max_size=20)))
    def test_only_requests_from_this_page_may_change_something(self, headers):
        raw = [(name.encode(), text.encode("latin-1", "replace")) for name, text in headers.items()]
        assert self.guard.refusal("POST", Headers(raw)), "a random host is none of ours"
        ours = [(b"host", b"127.0.0.1:5"), *[one for one in raw if one[0] != b"host"]]
        if not self.guard.refusal("POST", Headers(ours)):
            assert headers.get("origin") == "http://127.0.0.1:5" or headers.get("sec-fetch-site") == "same-origin"

    def test_the_page_itself_may(self):
        for site in ([], [(b"sec-fetch-site", b"same-origin")]):
            raw = [(b"host", b"localhost:5"), (b"origin", b"http://localhost:5"), *site]
            assert self.guard.refusal("POST", Headers(raw)) == ""


class TestTrees:
    lines = (("a", "ab", "*"), ("b", "ab", "*"), ("c", "c", "*"))

    def test_branches_hold_all_values(self):
        (root,) = draw_branches(self.lines)
        assert root.name == "*"
        assert root.values == (0, 1, 2)
        assert [(one.name, one.values) for one in root.below] == [("ab", (0, 1)), ("c", (2,))]
        assert [leaf.name for one in root.below for leaf in one.below] == ["a", "b", "c"]

    @given(st.sets(st.integers(0, 5), min_size=1), st.integers(1, 2))
    def test_a_group_is_a_tree_again_with_the_same_values(self, chosen, level):
        tree = Tree.of([(c, c + c, "x" if c < "d" else "y", "*") for c in "abcdef"])
        made = group_values(tree, sorted(chosen), "new", level)
        assert sorted(made.leaves) == list("abcdef")
        assert {value for value, node in made.level(level).items() if node == "new"} == {tree.leaves[i] for i in chosen}

    @pytest.mark.parametrize(("values", "name", "level"), [([], "x", 1), ([0], "", 1), ([0], "x", 0), ([0], "x", 3)])
    def test_a_group_needs_values_a_name_and_a_level(self, values, name, level):
        with pytest.raises(SfumatoError):
            group_values(Tree.of(self.lines), values, name, level)


@pytest.mark.parametrize("name", sorted(METHODS))
class TestFields:
    def test_untouched_fields_give_the_defaults(self, name):
        kind = method_class(name)
        form = Form({f"option-{one.name}": [one.value] for one in fields_of(kind, {})})
        chosen = read_options(kind, form)
        required = {one.name for one in options_of(kind) if one.is_required}
        assert required <= set(chosen) <= {"k"}, "a size of groups is suggested"
        assert make_method(name, **chosen) == make_method(name, **dict.fromkeys(chosen, 5))

    def test_every_option_is_explained_or_chosen_before(self, name):
        kind = method_class(name)
        shown = {one.name for one in fields_of(kind, {}) if one.meaning and one.range}
        elsewhere = {"keep"} if takes_statistics(kind) else {"population"} if name == "recode" else set()
        assert {one.name for one in options_of(kind)} - shown == elsewhere

    def test_no_option_opens_a_path(self, name, tmp_path, monkeypatch):
        (tmp_path / "secret.csv").write_text("age,sex\n1,f\n2,m\n")
        opened = []
        monkeypatch.setattr(FileSource, "read", lambda source: opened.append(source.path))
        for one in options_of(method_class(name)):
            form = Form({"option-k": ["5"], f"option-{one.name}": [str(tmp_path / "secret.csv")]})
            with contextlib.suppress(SfumatoError):
                make_method(name, **read_options(method_class(name), form))
        assert opened == []


def test_an_option_that_opened_a_path_would_be_seen(tmp_path, monkeypatch):
    """The control: on the command line, this option may be a path."""
    opened = []
    monkeypatch.setattr(FileSource, "read", lambda source: opened.append(source.path))
    with contextlib.suppress(SfumatoError, AttributeError):
        make_method("recode", k=5, population=str(tmp_path / "people.csv"))
    assert opened == [str(tmp_path / "people.csv")]


class TestForm:
    @pytest.mark.parametrize(
        "text", ["83000000", "83,000,000", "83.000.000", "83 000 000", "83_000_000", " 83’000’000 "]
    )
    def test_whole_numbers_may_be_grouped(self, text):
        assert Form({"population": [text]}).number("population") == 83_000_000

    @pytest.mark.parametrize("text", ["1.5", "1,5", "8.30.000", "83.000,000", "-5", "²", "٣", "1e9", "9" * 5000])
    def test_others_are_refused_with_what_to_try(self, text):
        with pytest.raises(SfumatoError, match="only digits"):
            Form({"population": [text]}).number("population")

    def test_positions_that_do_not_exist_are_left_out(self):
        assert Form({"column": ["0", "2", "3", "-1", "²", "9" * 5000, ""]}).positions("column", 3) == [0, 2]


class TestShownName:
    @given(st.text(max_size=300))
    def test_is_printable_and_no_path_or_option(self, name):
        shown = shown_name(name)
        assert shown.isprintable()
        assert Path(shown).name == shown
        assert not shown.startswith((".", "-", "~"))
        assert len(shown.encode()) <= 200

    @pytest.mark.parametrize("name", ["Größe 2024 (neu).csv", "a'b.CSV", "Daten [1].xlsx", "患者.csv.gz"])
    def test_is_the_own_name_of_the_file(self, name):
        assert shown_name(f"C:\\Daten\\{name}") == name


class TestOptionFields:
    def test_an_emptied_field_is_no_value_and_not_the_default(self):
        assert read_options(method_class("boxes"), Form({"option-k": ["5"], "option-set_names": [""]})) == {
            "k": 5,
            "set_names": None,
        }

    def test_numbers_keep_all_their_digits(self):
        chosen = {"level": 0.123456789}
        fields = fields_of(method_class("noise"), chosen)
        form = Form({f"option-{one.name}": [one.value] for one in fields})
        assert read_options(method_class("noise"), form) == chosen

    @pytest.mark.parametrize(
        ("language", "numbers"),
        [
            ("en", {"0.5": 0.5, "0,5": 0.5, "1.000": 1.0, "1,000": 1000}),
            ("de", {"0.5": 0.5, "0,5": 0.5, "1.000": 1000, "1,000": 1.0, "1.234.567,5": 1234567.5}),
            ("fr", {"0.5": 0.5, "0,5": 0.5, "1.000": 1.0, "1 000,5": 1000.5}),
        ],
    )
    def test_numbers_are_read_as_the_language_writes_them(self, language, numbers):
        forms = {text: Form({"option-level": [text]}) for text in numbers}
        read = {text: read_options(method_class("noise"), form, language)["level"] for text, form in forms.items()}
        assert read == numbers

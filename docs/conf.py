"""The documentation site: `make docs` builds it into docs/_build/html, without asking anything from the network."""

from __future__ import annotations

import inspect

import sfumato

project = "Sfumato"
author = "the authors of Sfumato"
version = release = sfumato.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # replication pages begin their sections with the third level

autodoc_typehints = "none"  # docstrings say what each parameter is
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_use_param = False  # types are words here, not names to link
add_module_names = False

html_theme = "furo"
html_title = f"Sfumato {version}"
html_static_path = ["_static"]
html_css_files = ["sfumato.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
smartquotes = False  # -- begins an option
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#7a4a21", "color-brand-content": "#1f6173"},
    "dark_css_variables": {"color-brand-primary": "#d9b98a", "color-brand-content": "#7fc4d6"},
}
pygments_style = "friendly"
pygments_dark_style = "native"


def _whole_docstring(app, what, name, found, options, lines) -> None:
    """Show the options of a method, which its declarations add to the docstring, and not only its first part."""
    if what == "class" and (text := inspect.getdoc(found)):
        lines[:] = text.splitlines()


def setup(app) -> None:
    """Connect what is special here."""
    app.connect("autodoc-process-docstring", _whole_docstring, priority=400)  # before napoleon reads them

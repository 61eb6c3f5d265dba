"""Sphinx configuration."""

from ma_sbi import __version__

project = "ma-sbi"
copyright = "the ma-sbi developers"  # noqa: A001 (Sphinx's name)
release = version = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autoclass_content = "class"
# What scikit-learn generates is documented there.
autodoc_default_options = {
    "exclude-members": "set_fit_request, set_transform_request, set_output"
}
napoleon_use_rtype = False
napoleon_use_ivar = True  # one line for each attribute
nitpicky = False
html_theme = "furo"
html_title = "ma-sbi"
exclude_patterns: list[str] = []

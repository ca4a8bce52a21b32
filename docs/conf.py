"""How the documentation becomes a site: `make docs`."""

project = "mog-assets"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "mog-assets"
# A page that others may read on a machine without a network.
html_theme_options = {"source_repository": "", "source_branch": "", "source_directory": ""}
# Sites outside are looked at by `make docs-links`; links between pages fail the build itself.
linkcheck_anchors = False

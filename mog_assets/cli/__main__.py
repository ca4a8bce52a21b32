"""`python -m mog_assets.cli`."""

from mog_assets.cli import main

main()

"""Before the retrieval: an asset of ours writes documents. A real one would ask a help desk."""

import json
from pathlib import Path

import dagster as dg

FILE = Path(__file__).parent / "search" / "exports" / "tickets.jsonl"
TICKETS = {
    "1041": (
        "Router restarts at night",
        "The router restarted at 02:00 because the firmware updates itself. Set update.auto to off.",
    ),
    "1042": (
        "No sound after update",
        "After release 7 the sound device is muted. Choose Output: HDMI under Settings, Sound.",
    ),
    "1043": (
        "Invoice sent twice",
        "Invoices are sent twice when two billing contacts share an address. Merge the contacts.",
    ),
}


@dg.asset(key=["support", "tickets"], group_name="support", kinds={"jsonl"})
def tickets() -> dg.MaterializeResult:
    """Solved tickets, a line of JSON each."""
    rows = [{"id": number, "title": title, "text": text} for number, (title, text) in TICKETS.items()]
    FILE.parent.mkdir(exist_ok=True)
    partial = FILE.with_suffix(".partial")
    partial.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    partial.replace(FILE)
    return dg.MaterializeResult(metadata={"tickets": len(rows)})

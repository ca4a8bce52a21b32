"""Documents about animals, and questions of what they eat."""

import csv

THINGS = {
    "fox": "voles and the eggs of larks", "otter": "crayfish below the weir", "owl": "mice in the old barn",
    "swan": "pondweed of the mill", "beaver": "bark of young willows", "lynx": "hares on the ridge",
    "crane": "acorns under the oaks", "pike": "perch between the reeds", "moose": "twigs of the birches",
    "robin": "berries of the rowan", "seal": "cod from the deep", "stork": "locusts in dry summers",
}  # fmt: skip
HOUR = "It wakes when others sleep, and nobody sees where it goes."


def text_of(name):
    return f"The {name} is known to all who walk here. In winter it eats {THINGS[name]}. {HOUR}"


def quote_of(name):
    return f"In winter it eats {THINGS[name]}."


def write_csv(path, rows):
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ("id", "question", "quote", "doc", "answer"), restval="")
        writer.writeheader()
        writer.writerows(rows)

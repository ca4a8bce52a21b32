"""Behind the retrieval: what its passages say to questions that are asked again and again."""

import dagster as dg

import mog_assets

QUESTIONS = ("Why does the router restart?", "How is the sound switched on again?", "Why is an invoice sent twice?")


@dg.asset(
    key=["support", "answers"],
    deps=[["search", "embeddings", "level_1"], ["search", "method"]],
    required_resource_keys={"search_tools"},
    group_name="support",
    kinds={"markdown"},
)
def answers(context):
    """The best passage for each question."""
    lines = []
    # The settings of the component, whose resource begins with its prefix.
    with mog_assets.open(context.resources.search_tools.settings) as project:
        for question in QUESTIONS:
            passage = project.search(question, k=1).passages[0]
            lines += [f"**{question}** {passage.text} ({passage.corpus}/{passage.document})", ""]
    return dg.MaterializeResult(
        metadata={"answers": dg.MetadataValue.md("\n".join(lines)), "questions": len(QUESTIONS)}
    )

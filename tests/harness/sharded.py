"""The sample corpora up to their BM25 counts, in shards of some size."""

from shared import SAMPLES

from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.build.tools import Tools
from mog_assets.config import settings_model
from mog_assets.index.corpora import Corpora
from mog_assets.index.encoding import bucket_texts
from mog_assets.index.layouts import bucket_layout

QUESTIONS = [
    "How deep should garlic cloves be planted?",
    "Which plant needs support and water in summer?",
    "What did the telescope see of the moon and the planets?",
    "What is a plane used for?",
    "unheardof",
    "the of and",
]


def samples():
    paths = [SAMPLES / name for name in ("garden.jsonl", "sky", "workshop")]
    return settings_model().model_validate({"corpora": {path.stem: {"path": path} for path in paths}})


def built(made, folder, most):
    """Corpora up to their BM25 counts."""
    own = made.model_copy(update={"home": folder / "home", "shard_chunks": most})
    tools, recipes = Tools(own), plan.graph(own)
    for key, recipe in recipes.items():
        if key.partition("/")[0] in ("documents", "chunks", "tokens", "bm25"):
            for name in own.corpora:
                assert materialise(recipe, name, tools, recipes).faults == {}
    assert materialise(recipes["statistics"], None, tools, recipes).faults == {}
    return tools


def opened(tools):
    """The corpora of `built`."""
    return Corpora.open(tools.store.read, tools.settings, list(tools.settings.corpora))


def level_texts(corpora, level):
    """Texts of all chunks of a level."""
    texts = []
    for name in corpora.names:
        documents, spans = (corpora.read(key, name) for key in ("documents", "chunks/level_1"))
        for bucket in documents.names("bucket"):
            paths = documents.path(bucket), spans.path(bucket)
            texts += bucket_texts(paths[0], bucket_layout(*paths), level)
    return texts

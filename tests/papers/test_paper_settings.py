"""Keys of `mog.yaml` that papers have: checked, explained and completed as those of the core."""

import pytest

from mog_assets.config import load
from mog_assets.resources.errors import ConfigError


def loaded(folder, text):
    (folder / "mog.yaml").write_text(f"corpora: {{a: {{path: a}}}}\n{text}\n", encoding="utf-8")
    return load(folder / "mog.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("router: {hidden: [256, -1]}", "router.hidden.1: expected greater than 0, got -1"),
        ("soft_labels: {values: [0.2, 0.8]}", "soft_labels: expected .*1 >= first > second >= 0.*got .*0.2, 0.8"),
        ("soft_labels: {metod: tfidf}", "soft_labels.metod: expected a known key, .*did you mean 'method'"),
        ("chunker: recursve", "chunker.name: expected .*'paragraphs'.*'learned'.* got 'recursve'"),
        ("experiments: {encoders: {y: {modle: z}}}", "experiments.encoders.y.modle: .*did you mean 'model'"),
    ],
)
def test_wrong_values_and_unknown_keys_are_named(tmp_path, text, said):
    with pytest.raises(ConfigError, match=said):
        loaded(tmp_path, text)


def test_further_encoders_are_names_alone_or_pairs(tmp_path):
    pair = "MedCPT: {model: some/articles, query_model: some/queries, pooling: cls}"
    encoders = loaded(tmp_path, f"experiments: {{encoders: {{y: z/y, {pair}}}}}").experiments.encoders
    assert encoders["y"].model == "z/y" and encoders["MedCPT"].of_questions.model == "some/queries"

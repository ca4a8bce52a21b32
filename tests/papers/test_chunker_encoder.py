"""A chunker that reads the text: a Hugging Face encoder is trained with its scorer, and stored with it."""

import hashlib
import json
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mog_assets import plan, tensors
from mog_assets.chunking.chunkers import CHUNKERS, Options, takes_vectors
from mog_assets.chunking.cuts import candidates, unit_chars
from mog_assets.chunking.sentences import units
from mog_assets.config import ChunkerSettings, ChunkerTraining
from mog_assets.materialising import materialise
from mog_assets.papers.learned_chunking import text_encoder, training
from mog_assets.papers.learned_chunking.articles import ArticleSource, encode_articles
from mog_assets.papers.learned_chunking.learned import (
    Shape,
    joined,
    network,
    opened,
    scores,
    set_weights,
    spans_of,
    stored,
    windows,
)
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Store
from mog_assets.tools import Tools

FINEST = 110
SUBJECTS = ("The heron", "A newt", "The otter", "An eel", "The pike")
PLACES = ("the mill pond", "a ditch", "the upper lake", "a spring", "the weir")
IDLE = "People there speak of other things. Nobody knows why that is so."


def article_text(number):
    lines = [
        f"{subject} of valley {number} was seen {10 * number + i} times at {PLACES[(i + number) % 5]}. {IDLE}"
        for i, subject in enumerate(SUBJECTS)
    ]
    return "\n\n".join(lines)


WORDS = sorted(set("".join(c if c.isalnum() else " " for c in article_text(0)).split()) | set(map(str, range(50))))
LETTERS = sorted(set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,"))


def tiny_bert(folder, positions=96):
    """A BERT of random weights that knows the words of the articles."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS, *(w for w in WORDS if len(w) > 1)]
    words = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    words.normalizer = normalizers.BertNormalizer(lowercase=False)
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return drawn(BertModel, BertConfig(vocab_size=len(names), max_position_embeddings=positions, **sizes), folder)


def tiny_t5(folder):
    """A T5 of random weights, decoder and all, whose tokens begin with the space before a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    pieces = [*(f"▁{word}" for word in WORDS if len(word) > 1), "▁", *LETTERS]
    names = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((piece, -float(len(piece) < 2) - 1) for piece in pieces)]
    words = Tokenizer(models.Unigram(names, unk_id=2))
    words.pre_tokenizer = pre_tokenizers.Metaspace()
    words.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>", "model_max_length": 128}
    PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    config = T5Config(vocab_size=len(names), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    return drawn(T5ForConditionalGeneration, config, folder)


def drawn(kind, config, folder):
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        kind(config).save_pretrained(folder, safe_serialization=True)
    return folder


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Threads that wait for one another take longer than the little they do here."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = tmp_path_factory.mktemp("encoders")
    return {
        "bert": tiny_bert(made / "bert"),
        "short": tiny_bert(made / "short", positions=24),
        "t5": tiny_t5(made / "t5"),
    }


@pytest.fixture(scope="module")
def encoders(folders):
    return {name: text_encoder.load(str(folder), "chunker.training.encoder") for name, folder in folders.items()}


def encode(texts):
    """Unit vectors that say which words are in a text."""
    rows = np.zeros((len(texts), 64))
    for row, text in zip(rows, texts, strict=True):
        for word in text.split():
            row[int(hashlib.sha256(word.encode()).hexdigest(), 16) % 64] += 1
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)


def sources(count=4):
    found = []
    for number in range(count):
        text = article_text(number)
        places = [text.index(f"seen {10 * number + i} times") for i in range(len(SUBJECTS))]
        asked = [f"How often was {subject} of valley {number} seen?" for subject in SUBJECTS]
        found.append(ArticleSource(f"valleys/{number}", "", text, asked, np.array([(p, p + 7) for p in places])))
    return found


HELD_OUT = np.array([False, False, False, True])
QUICK = {"width": 16, "layers": 1, "epochs": 3, "patience": 3, "encoder_learning_rate": 1e-3}


def quick(folder, **options):
    return ChunkerTraining(encoder=str(folder), **{**QUICK, **options})


def articles(encoder):
    return encode_articles(sources(), unit_chars(FINEST), encode, encoder)


@pytest.fixture(scope="module")
def trained(folders, encoders):
    return {
        name: training.train(articles(encoders[name]), HELD_OUT, FINEST, quick(folders[name]), seed=1)
        for name in ("bert", "t5")
    }


def saved(folder, one):
    """Files of a trained chunker: the weights, and those of its encoder by name."""
    folder.mkdir(exist_ok=True)
    weights = folder / "chunker.safetensors"
    weights.write_bytes(stored(one.scorer))
    for name, text in one.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return weights, {name: folder / name for name in one.files}


# What is read


def windows_of(text, encoder, finest=FINEST):
    ends = units(text, unit_chars(finest))
    return ends, windows(text, ends, None, unit_chars(finest), encoder.tokenizer)


@pytest.mark.parametrize("name", ["bert", "short", "t5"])
def test_a_unit_has_the_tokens_that_stand_in_it(name, encoders, folders):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folders[name]))
    text = article_text(1)
    ends, found = windows_of(text, encoders[name])
    starts = [0, *ends.tolist()]
    limit = {"bert": 96, "short": 24, "t5": 128}[name]
    for row in range(len(ends)):
        ids = found.reading.tokens[row][found.reading.tokens[row] >= 0].tolist()
        before = max(row - 1, 0)
        last = len(text) if len(ids) == limit else ends[found.units[row][found.seen[row]].max()]
        expected = tokenizer(text[starts[before] : last], truncation=True, max_length=limit)["input_ids"]
        assert ids == expected
        assert len(ids) <= limit
        pieces = np.array(tokenizer.convert_ids_to_tokens(ids))
        columns = found.reading.column[row, : len(ids)]
        assert (columns < 0).sum() == len(tokenizer("")["input_ids"])
        read = sorted(set(columns[columns >= 0].tolist()))
        assert read == list(range(int(row == 0), int(row == 0) + len(read)))
        for column in read:
            # A new line is a token of its own, or none.
            own = "".join(pieces[columns == column]).replace("▁", "").replace("<unk>", "")
            unit = "".join(text[starts[row + column - 1] : starts[row + column]].split())
            assert own == unit if column < read[-1] else unit.startswith(own)


def test_a_chunk_ends_no_later_than_the_encoder_reads(encoders):
    text = article_text(1)
    (ends, whole), (_, cut) = (windows_of(text, encoders[name]) for name in ("bert", "short"))
    could = candidates(ends, unit_chars(FINEST))[1]
    assert (whole.possible == could).all()
    assert (cut.possible <= could).all() and cut.possible.sum() < could.sum()
    assert cut.possible[:, 0].all()
    furthest = np.maximum(cut.reading.column.max(axis=1), 1)
    assert cut.possible.sum(axis=1).tolist() == np.minimum(furthest, could.sum(axis=1)).tolist()


def test_the_head_is_given_the_mean_of_each_units_tokens_at_length_one(encoders):
    import torch

    seen_by = []

    class Head(torch.nn.Module):
        def forward(self, vectors, features, seen):
            seen_by.append(vectors)
            return torch.zeros(vectors.shape[:2])[:, 1:-1]

    _, found = windows_of(article_text(1), encoders["short"])
    model = text_encoder.joint(Head(), encoders["short"])
    scores(model, found, None)
    (vectors,) = seen_by
    empty = 0
    for row, (tokens, column) in enumerate(zip(found.reading.tokens, found.reading.column, strict=True)):
        ids = torch.from_numpy(tokens[tokens >= 0].astype(np.int64))[None]
        with torch.inference_mode():
            hidden = encoders["short"].model.eval()(input_ids=ids).last_hidden_state[0].numpy()
        for place in range(vectors.shape[1]):
            own = hidden[column[: len(hidden)] == place]
            empty += not len(own)
            expected = own.mean(axis=0) / np.linalg.norm(own.mean(axis=0)) if len(own) else np.zeros(16)
            np.testing.assert_allclose(vectors[row, place].numpy(), expected, atol=1e-5)
    assert empty


def test_scores_do_not_depend_on_the_windows_that_share_a_batch(encoders):
    for name in ("short", "t5"):
        model = text_encoder.joint(network(Shape(16, 16, 1)), encoders[name])
        parts = [windows_of(text, encoders[name])[1] for text in (article_text(1), "One is here. Two.", "x")]
        together = scores(model, joined(parts), None)
        apart = np.concatenate([scores(model, part, None) for part in parts])
        mask = np.concatenate([part.possible for part in parts])
        np.testing.assert_allclose(together[mask], apart[mask], atol=1e-5)


# Training


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_training_lowers_the_loss_and_teaches_the_encoder(name, trained, encoders):
    curve = trained[name].curve
    assert [told["epoch"] for told in curve] == [1, 2, 3]
    assert curve[-1]["train_loss"] < curve[0]["train_loss"]
    weights = trained[name].scorer.weights
    held = dict(encoders[name].model.named_parameters())
    moved = [n for n, tensor in held.items() if not np.array_equal(weights[f"encoder.{n}"], tensor.detach().numpy())]
    assert any("embed" in n or "shared" in n for n in moved) and any("layer" in n for n in moved)
    assert trained[name].scorer.facts["device"] in ("cpu", "cuda")


def test_the_same_training_gives_the_same_weights(trained, folders, encoders):
    again = training.train(articles(encoders["bert"]), HELD_OUT, FINEST, quick(folders["bert"]), seed=1)
    assert stored(again.scorer) == stored(trained["bert"].scorer)
    assert again.files == trained["bert"].files


def test_the_encoder_learns_at_a_rate_of_its_own(folders, encoders):
    import torch

    still = quick(folders["bert"], encoder_learning_rate=1e-30, epochs=1)
    found = training.train(articles(encoders["bert"]), HELD_OUT, FINEST, still, seed=1).scorer.weights
    for name, tensor in encoders["bert"].model.named_parameters():
        np.testing.assert_allclose(found[f"encoder.{name}"], tensor.detach().numpy(), rtol=0, atol=1e-20)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        head = network(Shape(16, 16, 1)).state_dict()
    assert all(np.abs(found[f"head.{name}"] - tensor.numpy()).max() > 1e-5 for name, tensor in head.items())


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_training_that_goes_on_ends_as_if_it_had_not_stopped(name, trained, folders, encoders):
    states = []

    def save(state):
        states.append(tensors.encode({n: np.ascontiguousarray(a) for n, a in state["arrays"].items()}, state["facts"]))

    once = quick(folders[name], epochs=1)
    training.train(articles(encoders[name]), HELD_OUT, FINEST, once, seed=1, save=save)
    arrays, facts = tensors.decode(states[0])
    left = {"arrays": arrays, "facts": facts}
    advanced = []
    resumed = training.train(
        articles(encoders[name]), HELD_OUT, FINEST, quick(folders[name]), 1, advanced.append, resume=left
    )
    assert advanced == [1, 1]
    assert resumed.curve == trained[name].curve
    assert stored(resumed.scorer) == stored(trained[name].scorer)


def test_preferences_are_learned_as_well(folders, encoders):
    options = quick(folders["short"], objective="preference", epochs=1)
    found = training.train(articles(encoders["short"]), HELD_OUT, FINEST, options, seed=1)
    assert np.isfinite(found.curve[0]["train_loss"]) and found.curve[0]["train_loss"] > 0


def test_a_batch_that_does_not_fit_into_memory_says_what_to_lower(folders, encoders, monkeypatch):
    import torch

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(training, "forward", full)
    with pytest.raises(MogError, match=r"chunker\.training\.batch_size: .* got 16: lower it \(CUDA out of memory\)"):
        training.train(articles(encoders["short"]), HELD_OUT, FINEST, quick(folders["short"]), seed=1)


def test_articles_that_the_encoder_of_the_settings_does_not_read_are_refused(folders, encoders):
    with pytest.raises(ValueError, match="articles must be read by the encoder of the settings"):
        training.train(articles(None), HELD_OUT, FINEST, quick(folders["bert"]), seed=1)
    with pytest.raises(ValueError, match="articles must be read by the encoder of the settings"):
        training.train(articles(encoders["bert"]), HELD_OUT, FINEST, ChunkerTraining(), seed=1)


# What is stored


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_a_stored_chunker_is_opened_without_the_folder_of_its_model(name, trained, folders, tmp_path):
    folder = shutil.copytree(folders[name], tmp_path / "model")
    encoder = text_encoder.load(str(folder), "chunker.training.encoder")
    model = text_encoder.joint(network(Shape(**trained[name].scorer.facts["shape"])), encoder)
    set_weights(model, trained[name].scorer.weights)
    texts = [article_text(number) for number in (0, 7)]
    expected = [spans_of(text, FINEST, None, trained[name].scorer, model).tolist() for text in texts]
    shutil.rmtree(folder)
    weights, files = saved(tmp_path / "stored", trained[name])
    assert str(folders[name]) not in "".join(trained[name].files.values())
    split = CHUNKERS["learned"].make(Options(FINEST, weights=weights, encoder=files))
    assert [split(text, None).tolist() for text in texts] == expected
    assert all(len(spans) > 2 for spans in expected)
    scorer, _ = opened(weights, files)
    assert stored(scorer) == weights.read_bytes()


@pytest.fixture(scope="module")
def splits(trained, tmp_path_factory):
    found = {}
    for name, one in trained.items():
        weights, files = saved(tmp_path_factory.mktemp("stored") / name, one)
        found[name] = {n: CHUNKERS["learned"].make(Options(n, weights=weights, encoder=files)) for n in (9, FINEST)}
    return found


@given(
    st.one_of(st.text(max_size=80), st.lists(st.sampled_from("aBé. !\n\u0301\u3000。😀\x00\u200d"), max_size=80)).map(
        "".join
    )
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_spans_tile_any_text(splits, text):
    for by_length in splits.values():
        for finest, split in by_length.items():
            spans = split(text, None)
            assert "".join(text[a:b] for a, b in spans) == text
            assert spans[:, 0].tolist() == [0, *spans[:-1, 1].tolist()][: len(spans)]
            assert (np.diff(spans) <= unit_chars(finest)).all()


def test_a_stored_chunker_and_its_encoder_belong_together(trained, tmp_path):
    weights, files = saved(tmp_path / "bert", trained["bert"])
    _, others = saved(tmp_path / "t5", trained["t5"])
    damaged = tmp_path / "damaged.json"
    damaged.write_text("{}", encoding="utf-8")
    for wrong in (
        None,
        others,
        {**files, "config.json": damaged},
        {**files, "tokenizer.json": damaged},
        {**files, "tokenizer.json": tmp_path / "missing.json"},
    ):
        with pytest.raises(MogError, match=r"expected the weights of a chunker .*: run `mog run`"):
            opened(weights, wrong)


# Models that cannot be used


def test_a_model_that_does_not_load_is_named_with_its_setting(tmp_path):
    with pytest.raises(MogError, match=r"chunker\.training\.encoder: expected .* '.*nothing' does not load \("):
        text_encoder.load(str(tmp_path / "nothing"), "chunker.training.encoder")


def test_weights_that_are_pickled_are_not_loaded(folders, tmp_path):
    import torch

    folder = shutil.copytree(folders["bert"], tmp_path / "pickled")
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(MogError, match="does not load"):
        text_encoder.load(str(folder), "chunker.training.encoder")


def test_a_model_that_has_no_encoder_by_itself_is_refused(folders, tmp_path):
    from transformers import BartConfig, BartModel

    folder = shutil.copytree(folders["bert"], tmp_path / "bart")
    config = BartConfig(
        vocab_size=40, d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=16, decoder_ffn_dim=16
    )
    drawn(BartModel, config, folder)
    with pytest.raises(MogError, match="transformers has no encoder-only model of type 'bart'"):
        text_encoder.load(str(folder), "chunker.training.encoder")


def test_a_tokenizer_that_does_not_say_where_tokens_stand_is_refused(folders, tmp_path):
    from transformers import ByT5Tokenizer

    folder = shutil.copytree(folders["t5"], tmp_path / "byt5")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    ByT5Tokenizer().save_pretrained(folder)
    with pytest.raises(MogError, match=r"expected a model with a fast tokenizer.* is ByT5Tokenizer: name a model"):
        text_encoder.load(str(folder), "chunker.training.encoder")


# Settings, and the graph


def test_batches_are_smaller_with_an_encoder_unless_it_is_said():
    assert ChunkerTraining().batch_size == 128
    assert ChunkerTraining(encoder="x").batch_size == 16
    assert ChunkerTraining(encoder="x", batch_size=4).batch_size == 4


def test_sentence_vectors_are_taken_by_a_chunker_that_reads_nothing():
    reads = ChunkerTraining(encoder="x")
    assert not takes_vectors(ChunkerSettings(name="learned", training=reads))
    assert takes_vectors(ChunkerSettings(name="learned"))
    assert takes_vectors(ChunkerSettings(name="semantic", training=reads))
    assert not takes_vectors(ChunkerSettings(name="fixed"))


def built(project, *keys):
    """Brings some assets up to date, without Dagster; what was recomputed."""
    tools, recipes = Tools(project.settings), plan.graph(project.settings)
    found = {}
    for key in keys:
        outcome = materialise(recipes[key], "valleys" if recipes[key].partitioned else None, tools, recipes)
        if outcome.built:
            found[key] = outcome.artefact.manifest.info["recomputed"]
    return found


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.mark.full
def test_the_graph_cuts_with_an_encoder(folders, tmp_path, make_project):
    held = sources(4)
    write_lines(tmp_path / "valleys.jsonl", [{"id": s.name[-1], "title": "", "text": s.text} for s in held])
    write_lines(
        tmp_path / "questions.jsonl",
        [
            {
                "id": f"{s.name}-{i}",
                "question": text,
                "kind": "count",
                "split": "train",
                "evidence": [{"corpus": "valleys", "doc": s.name[-1], "start": int(start), "end": int(end)}],
            }
            for s in held
            for i, (text, (start, end)) in enumerate(zip(s.questions, s.answers, strict=True))
        ],
    )
    model = shutil.copytree(folders["bert"], tmp_path / "model")
    project = make_project(
        tmp_path,
        {
            "corpora": {"valleys": {"path": "valleys.jsonl"}},
            "question_sets": {"q": {"path": "questions.jsonl", "corpora": ["valleys"], "train": ["train"]}},
            "levels": 2,
            "finest_chars": FINEST,
            "chunker": {"name": "learned", "training": {**QUICK, "epochs": 1, "encoder": str(model)}},
        },
    )
    recipes = plan.graph(project.settings)
    assert "sentence_vectors" not in recipes
    assert recipes["chunks/level_1"].deps == ("documents", "chunker")
    assert recipes["chunks/level_1"].pool == "gpu"
    keys = ("documents", "questions", "chunker", "chunks/level_1")
    recomputed = built(project, *keys)
    assert recomputed["chunker"] == {"epochs trained": 1}
    assert recomputed["chunks/level_1"] == {"documents split": 4, "documents unchanged": 0}
    artefact = Store(project.home).read("chunker")
    assert set(artefact.manifest.files) == {"chunker.safetensors", "curve.parquet", "config.json", "tokenizer.json"}
    assert artefact.manifest.info["device"] in ("cpu", "cuda")
    assert built(project, *keys) == {}
    # Other weights make another chunker.
    shutil.rmtree(model)
    tiny_bert(model, positions=90)
    assert built(project, *keys) == {
        "chunker": {"epochs trained": 1},
        "chunks/level_1": {"documents split": 4, "documents unchanged": 0},
    }
    # A file of the encoder is not what was stored.
    path = Store(project.home).read("chunker").path("tokenizer.json")
    path.write_text(path.read_text(encoding="utf-8").replace("heron", "honer"), encoding="utf-8")
    with (tmp_path / "valleys.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "new", "title": "", "text": "Nobody asks about this."}) + "\n")
    with pytest.raises(MogError, match="built from chunker, not materialised yet or damaged"):
        built(project, "documents", "chunks/level_1")

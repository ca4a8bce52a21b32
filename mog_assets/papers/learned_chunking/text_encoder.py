"""A Hugging Face encoder that reads the windows of the learned chunker and is trained together with its scorer.

Its weights, stored with those of the scorer, and two JSON files (`FILES`) are enough to open it again without the
model's folder or a network.

References: "Optimizing Retrieval Augmented Generation with Learned Chunking" (Markowitz and Galiya), where it is that
of google/flan-t5-base, and windows are truncated to 512 tokens.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.resources.errors import MogError

FILES = ("config.json", "tokenizer.json")
# Tokens of a window if neither the model nor its tokenizer has a limit.
_TOKENS = 512


@dataclass(frozen=True)
class TextEncoder:
    """An encoder and its tokenizer.

    Attributes:
        model: Torch module, from `input_ids` and `attention_mask` to `last_hidden_state`.
        tokenizer: Of the library tokenizers; truncates to the greatest length that the model reads.
        size: Size of a token's vector.
    """

    model: Any
    tokenizer: Any
    size: int

    def files(self) -> dict[str, str]:
        """Contents of `FILES`: all that `opened` needs; equal encoders give equal ones."""
        facts = self.model.config.to_dict()
        for name in ("_name_or_path", "transformers_version", "dtype"):
            facts.pop(name, None)
        return dict(zip(FILES, (json.dumps(facts, sort_keys=True), self.tokenizer.to_str()), strict=True))


def tokens_of(tokenizer: Any, texts: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ids of the tokens of each text, int64 of shape (tokens,), and the offset of the last character of each.

    The offset is −1 for a token without characters, such as the start token.
    """
    batches = []
    for one in tokenizer.encode_batch(list(texts)):
        # The first character of a token may be white space, which belongs to the previous sentence.
        last = [
            -1 if special or start == end else end - 1
            for (start, end), special in zip(one.offsets, one.special_tokens_mask, strict=True)
        ]
        batches.append((np.asarray(one.ids, np.int64), np.asarray(last, np.int64)))
    return batches


def load(source: str, setting: str) -> TextEncoder:
    """Load a pretrained encoder; the same source gives the same weights.

    Args:
        source: A local folder or a Hugging Face model id. Of an encoder-decoder such as T5, the encoder is used.
        setting: Name of the setting, for errors.

    Raises:
        MogError: it does not load, is not an encoder, or its tokenizer does not give token offsets.
    """
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    options = {"trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **options)
        config = transformers.AutoConfig.from_pretrained(source, **options)
        # Weights that are missing in the source, such as those of a pooler, are random.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = _kind(config).from_pretrained(
                source, config=config, dtype=torch.float32, use_safetensors=True, **options
            )
        size = int(config.hidden_size)
    # transformers raises whatever its many loaders raise; the message below includes it.
    except Exception as error:
        raise MogError(
            f"{setting}: expected an encoder: a Hugging Face model id that can be downloaded, or a local folder with "
            f"config.json, tokenizer.json and model.safetensors; {source!r} does not load "
            f"({' '.join(str(error).split())[:300]})"
        ) from error
    if not getattr(tokenizer, "is_fast", False):
        raise MogError(
            f"{setting}: expected a model with a fast tokenizer, which gives token offsets; that of "
            f"{source!r} is {type(tokenizer).__name__}: name a model that has tokenizer.json"
        )
    # RoBERTa counts positions from its padding index, so two of them cannot be used for tokens.
    reserved = 2 if config.model_type in {"roberta", "xlm-roberta"} else 0
    positions = (getattr(config, "max_position_embeddings", None) or _TOKENS + reserved) - reserved
    # A tokenizer without a limit reports 1e30.
    words = copy.deepcopy(tokenizer.backend_tokenizer)
    words.no_padding()
    words.enable_truncation(int(min(positions, tokenizer.model_max_length)))
    return TextEncoder(model, words, size)


def opened(files: Mapping[str, Path]) -> TextEncoder:
    """An encoder with the configuration and tokenizer of stored files, and untrained weights.

    Raises:
        OSError, ValueError, KeyError, TypeError: the files are not those of an encoder.
    """
    import tokenizers
    import torch
    import transformers

    config_file, tokenizer_file = (files[name].read_text(encoding="utf-8") for name in FILES)
    facts = json.loads(config_file)
    config = transformers.AutoConfig.for_model(facts.pop("model_type"), **facts)
    with torch.random.fork_rng(devices=[]):
        model = _kind(config).from_config(config, trust_remote_code=False)
    try:
        words = tokenizers.Tokenizer.from_str(tokenizer_file)
    # The library has no error class of its own.
    except Exception as error:
        raise ValueError(str(error)) from error
    return TextEncoder(model, words, int(config.hidden_size))


def _kind(config: Any) -> Any:
    """The class that loads a model of this configuration as an encoder."""
    import transformers

    if type(config) in transformers.MODEL_FOR_TEXT_ENCODING_MAPPING:
        return transformers.AutoModelForTextEncoding
    if config.is_encoder_decoder:
        raise ValueError(f"transformers has no encoder-only model of type {config.model_type!r}")
    return transformers.AutoModel


def joint(head: Any, encoder: TextEncoder) -> Any:
    """A torch module: `head` on the unit vectors from the encoder, both trainable.

    It takes token ids and the columns of their units instead of vectors (see `WindowTokens` of learned.py). A unit's
    vector is the mean of its tokens' vectors, scaled to length 1 like those of sentences; a unit without tokens is
    zero.
    """
    import torch
    from torch import nn

    class Joint(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = head
            # Training it twice starts from the same weights.
            self.encoder = copy.deepcopy(encoder.model)
            self.tokenizer = encoder.tokenizer

        def forward(self, given: Any, features: Any, seen: Any) -> Any:
            tokens, column = given
            present = tokens >= 0
            # Attention over no tokens is undefined.
            present[:, 0] = True
            padding = getattr(self.encoder.config, "pad_token_id", None) or 0
            hidden = self.encoder(
                input_ids=tokens.masked_fill(tokens < 0, padding), attention_mask=present.long()
            ).last_hidden_state
            columns = torch.arange(seen.shape[1], device=column.device)
            same = (column[:, None, :] == columns[:, None]).to(hidden.dtype)
            # Sum and mean have the same direction.
            return self.head(nn.functional.normalize(same @ hidden, dim=2), features, seen)

    return Joint()

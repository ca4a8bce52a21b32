"""Tokens of texts, as the model counts them that reads the texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.extras import needed

# Number of tokens of each of some texts.
Count = Callable[[Sequence[str]], list[int]]
# Before the name of an encoding.
TIKTOKEN = "tiktoken:"
_REMEDY = (
    "set llm.tokenizer to the model's tokenizer.json, or to an encoding of tiktoken such as tiktoken:o200k_base, or "
    "give the budget in characters"
)


def counter(tokenizer: str | None, model: str) -> Count:
    """Return counts tokens of a language model.

    Args:
        tokenizer: `llm.tokenizer`: a tokenizer.json, a folder that has one, or `tiktoken:NAME` for an encoding of
            tiktoken. None for the encoding that tiktoken has for the model.
        model: Name of the model.

    Raises:
        ConfigError: there is no such file or encoding, or tiktoken does not know the model.
        MogError: a package is missing, or the encoding cannot be downloaded.
    """
    if tokenizer is None or tokenizer.startswith(TIKTOKEN):
        return _of_tiktoken(tokenizer and tokenizer.removeprefix(TIKTOKEN), model)
    path = Path(tokenizer)
    return of_file(path / "tokenizer.json" if path.is_dir() else path, "llm.tokenizer")


def of_file(path: Path, setting: str) -> Count:
    """Return counts tokens by a tokenizer.json, without those that mark where a text begins and ends."""
    with needed("a budget in tokens"):
        from tokenizers import Tokenizer
    try:
        read = Tokenizer.from_file(str(path))
    except Exception as error:  # The library raises `Exception` itself.
        raise ConfigError(f"{setting}: expected a tokenizer.json, got {str(path)!r}: {error}") from None
    read.no_padding()
    read.no_truncation()
    return lambda texts: [len(row.ids) for row in read.encode_batch(list(texts), add_special_tokens=False)]


def _of_tiktoken(name: str | None, model: str) -> Count:
    with needed("a budget in tokens"):
        import tiktoken
    try:
        encoding = tiktoken.encoding_for_model(model) if name is None else tiktoken.get_encoding(name)
    except KeyError:
        raise ConfigError(
            f"budget: expected a model whose tokens can be counted, got llm.model {model!r}, which tiktoken does not "
            f"know: {_REMEDY}"
        ) from None
    except ValueError as error:
        raise ConfigError(f"llm.tokenizer: expected an encoding of tiktoken, got {name!r}: {error}") from None
    except OSError as error:  # Those of `requests`, too.
        raise MogError(
            f"budget: tiktoken cannot download the encoding of {name or model} ({type(error).__name__}): allow it, set "
            f"TIKTOKEN_CACHE_DIR to a folder that has it, or {_REMEDY}"
        ) from error
    return lambda texts: [len(row) for row in encoding.encode_ordinary_batch(list(texts))]

"""Objects of a bucket as items of a source: `s3://`, `gs://`, `az://` and `memory://` addresses, which fsspec opens.

Credentials, endpoints and regions come from the environment, as the library of each store reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from mog_assets.documents.folders import suffix_of
from mog_assets.documents.sources import SOURCES, Item, Source, is_name
from mog_assets.resources import extras

# The package that opens addresses of a scheme, which is also the name of an extra of this one.
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "memory": "fsspec"}
# What is set where a store asks who calls.
_ACCESS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE (FSSPEC_S3_ANON=true for a public bucket)",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS (FSSPEC_GS_TOKEN=anon for a public bucket)",
    "az": "AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
# What stores call the hash or the time of an object; the first that is given is its version.
_TIMES = ("LastModified", "last_modified", "updated", "mtime", "created")
_VERSIONS = ("ETag", "etag", "md5Hash", "content_md5", "md5", *_TIMES)
_PIECE = 1 << 20
# Objects that are copied at a time: each takes a request, which takes longer than its bytes.
_TOGETHER = 16


def _opened(scheme: str, address: str) -> tuple[Any, str]:
    """Return the store, and the path of the address in it."""
    import fsspec

    try:
        store = fsspec.filesystem(scheme, skip_instance_cache=scheme != "memory", use_listings_cache=False)
    except ImportError as error:
        raise ValueError(
            f"the package {_PACKAGES[scheme]} to be installed ({error}): {extras.command(_PACKAGES[scheme])}"
        ) from error
    return store, store._strip_protocol(f"{scheme}://{address}").rstrip("/")


def _items(scheme: str, address: str) -> Mapping[str, Item]:
    """Return all objects below an address that may be documents; hidden ones are none, as in a folder."""
    store, root = _opened(scheme, address)
    store.invalidate_cache()
    objects = store.find(root, detail=True)
    if not objects and not store.exists(root):
        raise FileNotFoundError(f"no bucket, folder or object {address}")
    items = {}
    for key, facts in objects.items():
        name = key[len(root) :].lstrip("/") or PurePosixPath(key).name
        if not suffix_of(name):
            continue
        if is_name(name):
            items[name] = Item(_version(facts), _modified(facts))
        elif not any(part.startswith(".") for part in PurePosixPath(name).parts):
            items[name] = Item("", refusal="expected a name that a file may have")
    return items


def _version(facts: Mapping[str, Any]) -> str:
    given = next((str(facts[name]) for name in _VERSIONS if facts.get(name)), "")
    return f"{given} {facts.get('size')}"


def _modified(facts: Mapping[str, Any]) -> float | None:
    given = next((facts[name] for name in _TIMES if facts.get(name)), None)
    try:
        when = datetime.fromisoformat(given) if isinstance(given, str) else given
        return when.timestamp() if isinstance(when, datetime) else None if when is None else float(when)
    except (TypeError, ValueError, OverflowError):
        return None


def _read(scheme: str, address: str, name: str) -> Iterator[bytes]:
    store, root = _opened(scheme, address)
    # The address of a single object is its own.
    key = root if PurePosixPath(root).name == name and store.isfile(root) else f"{root}/{name}"
    with store.open(key, "rb") as stream:
        while piece := stream.read(_PIECE):
            yield piece


for _scheme in _PACKAGES:
    _source = Source(partial(_items, _scheme), partial(_read, _scheme), _TOGETHER, access=_ACCESS.get(_scheme, ""))
    SOURCES.register(_scheme, _source)

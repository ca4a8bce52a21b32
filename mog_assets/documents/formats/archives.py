"""Unpack documents that are zip archives or gzip files, into memory and within limits."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib

_MOST_ENTRIES = 10_000
# What holds text or says where text is; pictures, fonts and macros are not unpacked.
_READ = (".xml", ".rels", ".opf", ".xhtml", ".html", ".htm", ".mht", ".docx", ".txt")
# Files of other kinds that bear the suffix of an archive, by their beginnings.
_OTHERS = {b"{\\rtf": "RTF", b"%PDF": "a PDF", b"<": "HTML or XML"}
_PIECE = 1 << 20
OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
ENCRYPTED = "encrypted: expected a file that opens without a password"


def unpack(content: bytes, kind: str, limit: int) -> dict[str, bytes]:
    """Return the files of an archive by name; those without text are empty.

    Nothing is written to disk, so names are never paths.

    Raises:
        ValueError: it is damaged or encrypted, or a limit is exceeded; the message is the reason.
    """
    if content.startswith(OLD_OFFICE):
        if "EncryptedPackage".encode("utf-16-le") in content:
            raise ValueError(ENCRYPTED)
        raise ValueError(f"expected a {kind} file, got a file of an older Office: save it as {kind}")
    start = content[:1000].removeprefix(b"\xef\xbb\xbf").lstrip()
    if other := next(
        (other for mark, other in _OTHERS.items() if start.startswith(mark)), "" if content else "an empty file"
    ):
        raise ValueError(f"expected a {kind} file (a zip archive), got {other}: save it as {kind}")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if len(entries) > _MOST_ENTRIES:
                raise ValueError(f"expected at most {_MOST_ENTRIES} files in the archive, got {len(entries)}: not read")
            if sum(entry.file_size for entry in entries) > limit:
                raise _too_large(limit)
            parts: dict[str, bytes] = {}
            left = limit
            for entry in entries:
                parts[entry.filename] = _unpack_file(archive, entry, left, limit)
                left -= len(parts[entry.filename])
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, UnicodeError) as error:
        raise ValueError(f"damaged: expected a {kind} file (a zip archive), got: {error}") from error
    return parts


def unpack_text(content: bytes, limit: int) -> bytes:
    """Return the content of a gzip file.

    Raises:
        ValueError: it is damaged or the limit is exceeded; the message is the reason.
    """
    try:
        with gzip.open(io.BytesIO(content)) as stream:
            text = stream.read(limit + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"expected a readable .gz file, got: {error}") from error
    if len(text) > limit:
        raise ValueError(f"expected to unpack to at most {limit} bytes (max_document_mb), got more: not read")
    return text


def _unpack_file(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, left: int, limit: int) -> bytes:
    if not entry.filename.lower().endswith(_READ):
        return b""
    if entry.flag_bits & 1:
        raise ValueError(ENCRYPTED)
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile("an unusual kind of compression")
    pieces = []
    with archive.open(entry) as stream:
        # A piece at a time: what an entry says about its size may be wrong.
        while piece := stream.read(_PIECE):
            left -= len(piece)
            if left < 0:
                raise _too_large(limit)
            pieces.append(piece)
    return b"".join(pieces)


def _too_large(limit: int) -> ValueError:
    return ValueError(f"expected to unpack to at most {limit / 1e6:g} MB (max_unpacked_mb), got more: not read")

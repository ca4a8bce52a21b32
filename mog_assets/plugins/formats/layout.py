"""Read files with docling, which recognises columns, tables and headings by their layout (`reader: docling`)."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import Any

from mog_assets.documents.formats.marks import Kind, MarkedText, Parsed, clean


@cache
def _converter() -> Any:
    # It keeps the models that it loads.
    from docling.document_converter import DocumentConverter

    return DocumentConverter()


def read_docling(content: bytes, name: str, fallback: str, limit: int) -> Parsed:
    """Read a PDF, Word or PowerPoint file.

    Args:
        content: Its bytes.
        name: Of the file; its suffix tells the format.
        fallback: Title of a document without title and first line.
        limit: Maximum characters of the text.

    Raises:
        ValueError: the text is too long.
    """
    from docling.datamodel.base_models import DocumentStream

    converted = _converter().convert(DocumentStream(name=name, stream=BytesIO(content)))
    document = converted.document
    draft, title, page = MarkedText(limit), "", 0
    kind: Kind = "slide" if name.lower().endswith(".pptx") else "page"
    for item, _ in document.iterate_items():
        number = item.prov[0].page_no if getattr(item, "prov", None) else page
        if number != page:
            page = number
            draft.start(kind, str(page))
        label = str(getattr(item.label, "value", item.label))
        text = item.export_to_markdown(doc=document) if label == "table" else getattr(item, "text", "")
        if label == "title":
            title = title or text
        depth = 1 if label == "title" else item.level if label == "section_header" else 0
        draft.add(clean(text).strip(), depth=depth)
    status = converted.status.value
    return draft.parsed(title, fallback, {} if status == "success" else {"docling": status})

"""Read XFA forms, PDF files whose pages only Adobe Reader draws: captions and values of their fields, other texts."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pypdfium2 as pdfium
from lxml import etree
from pypdfium2 import raw

from mog_assets.registry import PDF_FORMS


def _packet(pdf: pdfium.PdfDocument, name: str) -> Any:
    """Return the root of a part of an XFA form; an empty element if it has none that can be read."""
    for number in range(raw.FPDF_GetXFAPacketCount(pdf)):
        label = ctypes.create_string_buffer(64)
        raw.FPDF_GetXFAPacketName(pdf, number, label, 64)
        size = ctypes.c_ulong()
        raw.FPDF_GetXFAPacketContent(pdf, number, None, 0, size)
        content = ctypes.create_string_buffer(max(size.value, 1))
        if label.value.decode("latin-1") == name and raw.FPDF_GetXFAPacketContent(pdf, number, content, size, size):
            try:
                return etree.fromstring(
                    content.raw[: size.value], etree.XMLParser(resolve_entities=False, no_network=True)
                )
            except etree.XMLSyntaxError:
                break
    return etree.Element(name)


def _xfa(template: Any, data: Any) -> Iterator[str]:
    """Yield what an XFA form says, in the order of its template; last the values that this has no field for."""
    values: dict[str, list[str]] = {}
    for element in data.iter(etree.Element):
        if not len(element) and (text := " ".join((element.text or "").split())):
            values.setdefault(etree.QName(element).localname, []).append(text)
    for element in template.iter("{*}draw", "{*}field"):
        texts = element.iterfind(".//{*}caption//{*}text" if element.tag.endswith("}field") else ".//{*}value//{*}text")
        rich = element.iterfind(".//{*}exData") if element.tag.endswith("}draw") else ()
        label = " ".join(" ".join("".join(text.itertext()) for text in (*texts, *rich)).split())
        value = ", ".join(values.pop(element.get("name"), [])) if element.tag.endswith("}field") else ""
        if label or value:
            yield f"{label}: {value}" if label and value else label or value
    for name, more in values.items():
        yield f"{name}: {', '.join(more)}"


PDF_FORMS.register("xfa", lambda pdf: _xfa(_packet(pdf, "template"), _packet(pdf, "datasets")))

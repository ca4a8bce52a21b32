"""What stands on the pages of a PDF file but is not drawn there: values of form fields, annotations, XFA forms."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import pypdfium2 as pdfium
from lxml import etree
from pypdfium2 import raw

from mog_assets.documents.formats.pdf_lines import Line

_CELL = " | "
_CHOSEN = (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
_FIELDS = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX, *_CHOSEN)
# Their text is no remark of a reader.
_OTHERS = (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_WIDGET)


def with_annotations(pdf: pdfium.PdfDocument, page: pdfium.PdfPage, lines: list[Line]) -> list[Line]:
    """The lines of a page, with values of fields at what stands on their left or above, and the annotations last."""
    lines, last = list(lines), []
    for number in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        try:
            kind, place = raw.FPDFAnnot_GetSubtype(annotation), raw.FS_RECTF()
            if kind == raw.FPDF_ANNOT_WIDGET and pdf.formenv and raw.FPDFAnnot_GetRect(annotation, place):
                if text := _field(pdf.formenv, annotation):
                    _put(lines, text, place)
            elif kind not in _OTHERS and (text := _text(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")):
                last.append(Line(text, False, None))
        finally:
            raw.FPDFPage_CloseAnnot(annotation)
    return lines + last


def _put(lines: list[Line], text: str, place: raw.FS_RECTF) -> None:
    """Put the value of a field into the line that it stands in, or below that above it."""
    above = [(line.box.base, -at) for at, line in enumerate(lines) if line.box and line.box.base > place.bottom - 3]
    base, at = min(above, default=(0.0, 1))
    if above and base < place.top:
        lines[-at] = lines[-at]._replace(text=f"{lines[-at].text}{_CELL}{text}", row=True)
    else:
        lines.insert(1 - at if above else len(lines), Line(text, False, None))


def _field(form: pdfium.PdfFormEnv, annotation: Any) -> str:
    """The value of a field with its label, if that is known; empty of one without value, and of a button not chosen."""
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind not in _FIELDS or (kind in _CHOSEN and not raw.FPDFAnnot_IsChecked(form, annotation)):
        return ""
    value = _text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    label = _text(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
    if kind in _CHOSEN:
        label = label or _text(raw.FPDFAnnot_GetFormFieldName, form, annotation)
    return f"{label}: {value}" if label and value else value


def _text(call: Callable[..., int], *given: Any) -> str:
    """What a function of PDFium writes as UTF-16."""
    size = call(*given, None, 0)
    buffer = ctypes.create_string_buffer(max(size, 2))
    call(*given, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    return " ".join(buffer.raw[: max(size, 2) - 2].decode("utf-16-le", "ignore").split())


def xfa_lines(pdf: pdfium.PdfDocument) -> list[Line]:
    """The captions of an XFA form with the values of its fields, and its other texts.

    Raises:
        ValueError: it has none that can be read; the message is the reason.
    """
    found = [Line(text, False, None) for text in _xfa(_packet(pdf, "template"), _packet(pdf, "datasets"))]
    if not found:
        raise ValueError("XFA form: expected text on the pages, got one that only Adobe Reader draws: print it to PDF")
    return found


def _packet(pdf: pdfium.PdfDocument, name: str) -> Any:
    """The root of a part of an XFA form; an empty element if it has none that can be read."""
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
    """What an XFA form says, in the order of its template; last the values that this has no field for."""
    values: dict[str, list[str]] = {}
    for element in data.iter(etree.Element):
        if not len(element) and (text := " ".join((element.text or "").split())):
            values.setdefault(etree.QName(element).localname, []).append(text)
    for element in template.iter("{*}draw", "{*}field"):
        texts = element.iterfind(".//{*}caption//{*}text" if element.tag.endswith("}field") else ".//{*}value//{*}text")
        rich = element.iterfind(".//{*}exData") if element.tag.endswith("}draw") else ()
        said = " ".join(" ".join("".join(text.itertext()) for text in (*texts, *rich)).split())
        value = ", ".join(values.pop(element.get("name"), [])) if element.tag.endswith("}field") else ""
        if said or value:
            yield f"{said}: {value}" if said and value else said or value
    for name, more in values.items():
        yield f"{name}: {', '.join(more)}"

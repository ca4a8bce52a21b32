"""PDF files made of lines of text."""

import io
import textwrap


def pdf(pages, title="", outline=(), font=b"", encrypt=b"", objects=None):
    """A PDF whose pages are lists of (x, y, size, text) lines; the outline has (level, title, page).

    The font may have further entries, and a page may be bytes: its content. Further objects replace those of a number.
    """
    further, objects = (
        objects or {},
        {1: b"<< /Type /Catalog /Pages 2 0 R %s>>" % (b"/Outlines 4 0 R " if outline else b"")},
    )
    objects[3] = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica %s >>" % font
    kids = []
    for number, lines in enumerate(pages):
        page, content = 100 + 2 * number, 101 + 2 * number
        drawn = (
            lines
            if isinstance(lines, bytes)
            else b"".join(
                b"BT /F1 %d Tf %d %d Td (%s) Tj ET\n" % (size, x, y, text.encode("latin-1"))
                for x, y, size, text in lines
            )
        )
        objects[page] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % content
        )
        objects[content] = b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn)
        kids.append(b"%d 0 R" % page)
    objects[2] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(pages), b" ".join(kids))
    if outline:
        first = 10
        objects[4] = b"<< /Type /Outlines /First %d 0 R /Last %d 0 R >>" % (first, first + len(outline) - 1)
        for at, (name, page) in enumerate(outline):
            following = b"/Next %d 0 R " % (first + at + 1) if at + 1 < len(outline) else b""
            objects[first + at] = b"<< /Title (%s) /Parent 4 0 R /Dest [%d 0 R /Fit] %s>>" % (
                name.encode(),
                100 + 2 * page,
                following,
            )
    objects[5] = b"<< /Title (%s) >>" % title.encode("latin-1")
    if encrypt:
        objects[6] = encrypt
    objects |= further
    out, places = io.BytesIO(b"%PDF-1.5\n"), {}
    out.seek(0, 2)
    for number, body in sorted(objects.items()):
        places[number] = out.tell()
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start, size = out.tell(), max(objects) + 1
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % size)
    for number in range(1, size):
        out.write(b"%010d 00000 %s \n" % (places.get(number, 0), b"n" if number in places else b"f"))
    named = b"<00112233445566778899aabbccddeeff>"
    secured = b"/Encrypt 6 0 R /ID [%s %s] " % (named, named) if encrypt else b""
    out.write(b"trailer\n<< /Root 1 0 R /Info 5 0 R /Size %d %s>>\nstartxref\n%d\n%%%%EOF\n" % (size, secured, start))
    return out.getvalue()


def pdf_of(text, title):
    """A PDF of paragraphs with lines of at most 90 characters, 50 lines a page, and the title above the first."""
    lines = [(72, 750, 18, title)]
    y = 720
    pages = [lines]
    for paragraph in text.split("\n\n"):
        for line in textwrap.wrap(" ".join(paragraph.split()), 90):
            if y < 60:
                lines = []
                pages.append(lines)
                y = 750
            escaped = line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
            lines.append((72, y, 10, escaped))
            y -= 12
        y -= 14
    return pdf(pages, title)

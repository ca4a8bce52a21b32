"""Messages and mailboxes, as programs of mail write them."""

import email.policy
import json
import mailbox
import re
from email.message import EmailMessage

import pytest
from read_files import LIMIT, document, read, reasons

from mog_assets.documents.memory import load_memory
from mog_assets.documents.reading import read_corpus

# Messages


def message(**fields):
    written = EmailMessage(policy=email.policy.SMTP)
    for name, value in fields.items():
        written[name] = value
    return written


def test_a_message_has_its_text_and_says_who_wrote_it_and_when(tmp_path):
    letter = message(Subject="Hühner", From="Zoë <zoe@example.org>", To="a@example.org, b@example.org")
    letter["Date"] = "Tue, 3 Nov 2026 09:30:00 +0100"
    letter.set_content("Fünf Eier.\n\nGrüße\n", charset="iso-8859-15")
    letter.add_alternative("<p>Fünf <b>Eier</b>.</p><p>Grüße</p>", subtype="html")
    letter.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="hen.png")
    read = document(tmp_path / "a", "letter.eml", letter.as_bytes())
    assert (read.title, read.text) == ("Hühner", "Fünf Eier.\n\nGrüße")
    people = {"from": "Zoë <zoe@example.org>", "to": "a@example.org, b@example.org"}
    metadata = json.loads(read.metadata)
    assert metadata.pop("mog")["attachments not read"] == ["hen.png"]
    assert metadata == {**people, "date": "2026-11-03T09:30:00+01:00"}


def parts(kind, *inside, boundary="b"):
    """A message of several parts, each with its own headers."""
    shown = "".join(f"--{boundary}\n{part}\n" for part in inside)
    return f'Content-Type: multipart/{kind}; boundary="{boundary}"\n\n{shown}--{boundary}--\n'


PLAIN, PAGE = "Content-Type: text/plain; charset=utf-8\n\n", "Content-Type: text/html; charset=utf-8\n\n"
INNER = "Content-Type: message/rfc822\n{}\nFrom: c@example.org\nSubject: Original\n\nThe key hangs in the shed."
PDF = 'Content-Type: application/pdf\nContent-Disposition: attachment; filename="plan.pdf"\n\nx'


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (
            parts("alternative", PLAIN + " \u00a0\n", PAGE + "<p>The sluice opens at six.</p>"),
            "The sluice opens at six.",
        ),
        (
            parts("alternative", PLAIN + "Cette lettre est une page.", PAGE + "<p>L'écluse ouvre à six heures.</p>"),
            "Cette lettre est une page.\n\nL'écluse ouvre à six heures.",
        ),
        (
            parts(
                "alternative",
                PLAIN + "Hello and bye.",
                parts("mixed", PAGE + "<p>Hello</p>", PDF, PAGE + "<p>and bye.</p>", boundary="c"),
            ),
            "Hello and bye.",
        ),
        (parts("mixed", PLAIN + "One.", PDF, PLAIN + "Two.", PAGE + "<p>Three.</p>"), "One.\n\nTwo.\n\nThree."),
        (
            parts("mixed", PLAIN + "See below.", INNER.format("")),
            "See below.\n\nFrom: c@example.org\nSubject: Original\n\nThe key hangs in the shed.",
        ),
        (parts("mixed", PDF), "Invoice 4711"),
        ("Content-Type: multipart/mixed\n\nNo parts, against the rules.", "No parts, against the rules."),
    ],
)
def test_all_texts_of_a_message_are_read_one_of_alternatives_and_what_is_forwarded(tmp_path, written, text):
    letter = f"From: ann@example.org\nSubject: Invoice 4711\nMIME-Version: 1.0\n{written}"
    read = document(tmp_path / "a", "letter.eml", letter)
    assert (read.title, read.text) == ("Invoice 4711", text)
    assert json.loads(read.metadata)["mog"].get("attachments not read", []) == ["plan.pdf"] * ("plan.pdf" in written)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x00\xff\x00 no message", "expected a message with From"),
        (b"From: empty\r\n\r\n", "no text|empty"),
        (b"From: a@b.c\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n", "no text|empty"),
        (b"Subject: long\r\n\r\n" + b"x" * LIMIT * 2, "at most"),
    ],
)
def test_messages_that_cannot_be_read_are_skipped_with_the_reason(tmp_path, content, reason):
    assert re.search(
        reason, reasons(tmp_path / "a", "a.eml", content, LIMIT if len(content) < LIMIT else 4 * LIMIT // 2)
    )


def test_a_message_with_headers_and_encodings_that_nobody_knows_is_read_all_the_same(tmp_path):
    content = (
        b'Subject: =?utf-8?Q?broken\xff?= \r\nFrom: "<<>>@@\r\nDate: never\r\n'
        b"Content-Type: text/plain; charset=unheard-of\r\n\r\nFive eggs.\r\n"
    )
    read = document(tmp_path / "a", "a.eml", content)
    assert read.text == "Five eggs." and "date" not in json.loads(read.metadata)


# Mailboxes


def mbox(path, *texts, **headers):
    """A mailbox as Python writes it: a message for each text."""
    box = mailbox.mbox(path)
    for number, text in enumerate(texts):
        message = EmailMessage()
        message["From"], message["Subject"] = "ann@example.org", f"Hens {number}"
        message["Message-ID"] = f"<hens-{number}@example.org>"
        for name, value in headers.items():
            message.replace_header(name, value) if name in message else message.add_header(name, value)
        message.set_content(text)
        box.add(mailbox.mboxMessage(message))
    box.close()
    return path.read_bytes()


def test_a_mailbox_is_a_document_for_each_message(tmp_path):
    folder = tmp_path / "c"
    folder.mkdir()
    mbox(folder / "old.mbox", "Five eggs.", "From here on six.\n\nFrom there on none.", "Grüße.")
    read_now = read(folder).documents
    assert [(d.id, d.title, d.text.strip()) for d in read_now] == [
        ("old.mbox:hens-0@example.org", "Hens 0", "Five eggs."),
        ("old.mbox:hens-1@example.org", "Hens 1", "From here on six.\n\nFrom there on none."),
        ("old.mbox:hens-2@example.org", "Hens 2", "Grüße."),
    ]
    metadata = json.loads(read_now[0].metadata)
    assert metadata["from"] == "ann@example.org" and metadata["mog"]["path"] == "old.mbox"
    # The same message in another box is one document.
    mbox(folder / "sent.mbox", "Five eggs.")
    reading = read(folder)
    assert len(reading.documents) == 3 and [s.id for s in reading.skipped] == ["sent.mbox:hens-0@example.org"]
    assert "duplicate id" in reading.skipped[0].reason and "composed" not in reading.skipped[0].reason
    # Numbers are names in a mailbox alone.
    for name in ("a.mbox", "b.mbox"):
        (folder / name).write_text(f"From x\nSubject: Of {name}\n\nText of {name}.\n", encoding="utf-8")
    assert {"a.mbox:1", "b.mbox:1"} < {d.id for d in read(folder).documents}


def test_messages_without_a_name_are_called_by_their_place_and_one_that_is_none_is_skipped(tmp_path):
    folder = tmp_path / "c"
    folder.mkdir()
    lines = "From a\nSubject: One\n\nText one.\n\nFrom b\nno header\n\nFrom c\nSubject: Three\n\nText three.\n"
    (folder / "box.mbox").write_text(lines, encoding="utf-8")
    reading = read(folder)
    assert [(d.id, d.title) for d in reading.documents] == [("box.mbox:1", "One"), ("box.mbox:3", "Three")]
    ((place, reason),) = [(s.place, s.reason) for s in reading.skipped]
    assert place == "box.mbox:2" and "expected a message with From" in reason


def test_what_is_read_of_a_changed_mailbox_is_what_a_first_reading_gives(tmp_path):
    folder, remembered = tmp_path / "c", tmp_path / "memory.parquet"
    folder.mkdir()
    messages = [f"From a\nSubject: Hens {n}\n\nText {n}.\n\n" for n in range(4)]
    (folder / "box.mbox").write_text("".join(messages), encoding="utf-8")
    read(folder).journal.write(remembered, "s")
    # Those that follow have other numbers, which are their names.
    (folder / "box.mbox").write_text("".join(messages[1:]), encoding="utf-8")
    again = read_corpus(folder, LIMIT, load_memory(remembered, "s"))
    first = read(folder)
    assert [(o.id, o.digest) for o in again.used] == [(o.id, o.digest) for o in first.used]
    assert [d.title for d in again.documents] == ["Hens 1", "Hens 2", "Hens 3"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x00\x01\x02 binary", "expected a mailbox"),
        (b"Subject: no envelope\n\nText.", "expected a mailbox"),
        (b"From a\nSubject: Long\n\n" + b"eggs " * 30_000, "max_document_mb"),
        (b"From a\n" + b"x" * 3_000_000, "max_document_mb"),
        (b"From a\nFrom: nobody\n\n", "empty document"),
    ],
)
def test_a_hostile_mailbox_is_skipped_with_the_reason(tmp_path, content, reason):
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "box.mbox").write_bytes(content)
    (folder / "fine.txt").write_text("Fine.")
    reading = read(folder)
    assert [used.id for used in reading.used] == ["fine.txt"]
    assert [s.place.startswith("box.mbox") and reason in s.reason for s in reading.skipped] == [True]

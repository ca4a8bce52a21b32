"""Convert documents of older and open office formats with LibreOffice, where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mog_assets.documents.decoding import decode
from mog_assets.documents.formats.archives import OLD_OFFICE

INTO = {".doc": "docx", ".odt": "docx", ".rtf": "docx", ".odp": "pptx", ".ppt": "pptx", ".ods": "xlsx", ".xls": "xlsx"}
"""What files are converted into, by suffix."""
# How it asks to be started again, after it has made the folder of its profile.
_RETRY_CODE = 81
# Of the time that a file may take: afterwards who waits for this process ends it, and would leave LibreOffice running.
_SHARE = 0.9
# A document names files of this machine and addresses: nothing of them is loaded.
_PROFILE = """<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Common/Security/Scripting">
<prop oor:name="BlockUntrustedRefererLinks" oor:op="fuse"><value>true</value></prop>
<prop oor:name="DisableMacrosExecution" oor:op="fuse"><value>true</value></prop>
<prop oor:name="DisableActiveContent" oor:op="fuse"><value>true</value></prop></item></oor:items>"""


def _program() -> str | None:
    """Return LibreOffice itself, not the script that starts it as a process of its own."""
    names = ("soffice", "libreoffice", "/Applications/LibreOffice.app/Contents/MacOS/soffice")
    executable = next((os.path.realpath(path) for path in map(shutil.which, names) if path), None)
    return f"{executable}.bin" if executable and os.path.exists(f"{executable}.bin") else executable


def missing(suffix: str) -> str:
    """Return why files with a suffix cannot be read here; empty if they can."""
    if suffix not in INTO or _program():
        return ""
    return (
        f"{suffix} files are read with LibreOffice, which is not here: install it (`apt install libreoffice`, "
        f"https://www.libreoffice.org), or save the file as .{INTO[suffix]}"
    )


def converted(content: bytes, suffix: str, limits: Mapping[str, Any]) -> bytes:
    """Return a document in the format that `INTO` has for its suffix; takes some 2 s.

    Raises:
        ValueError: LibreOffice cannot read it, or is not installed; the message is the reason.
    """
    if reason := missing(suffix):
        raise ValueError(reason)
    if not (
        content.startswith((b"PK", b"{\\rtf")) or (content.startswith(OLD_OFFICE) and content[28:30] == b"\xfe\xff")
    ):
        # LibreOffice takes any bytes for a text; this refuses what is none.
        decode(content)
    try:
        with TemporaryDirectory(prefix="mog-") as name:
            return _converted(Path(name), content, suffix, _SHARE * limits["seconds"])
    except subprocess.TimeoutExpired:
        # LibreOffice is ended. Who waits for this process ends it, too, and says why.
        time.sleep(limits["seconds"])
        raise


def _converted(folder: Path, content: bytes, suffix: str, seconds: float) -> bytes:
    file, profile = folder / f"file{suffix}", folder / "profile"
    file.write_bytes(content)
    (profile / "user").mkdir(parents=True)
    (profile / "user" / "registrymodifications.xcu").write_text(_PROFILE)
    options = ("--headless", "--norestore", "--convert-to", INTO[suffix], "--outdir", str(folder), str(file))
    command = [str(_program()), f"-env:UserInstallation={profile.as_uri()}", *options]
    ends = time.monotonic() + seconds
    for _ in range(2):
        left, pipe = ends - time.monotonic(), subprocess.PIPE
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, timeout=left, check=False)
        if done.returncode != _RETRY_CODE:
            break
    try:
        return file.with_suffix(f".{INTO[suffix]}").read_bytes()
    except FileNotFoundError:
        message = " ".join(done.stderr.decode("utf-8", "replace").replace(str(folder), "").split())[:200]
        raise ValueError(
            f"LibreOffice cannot read it as {suffix}; encrypted, damaged, or beyond max_memory_mb: {message}"
        ) from None

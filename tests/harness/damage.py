"""Kinds of damage to files and folders of a home, and what they may be done to."""

import json
import shutil


def delete(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def empty(path):
    path.write_bytes(b"")


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def folder_instead(path):
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / "somebody's.txt").write_text("not ours")


def file_instead(path):
    shutil.rmtree(path)
    path.write_text("a file")


def broken_link_instead(path):
    path.unlink()
    path.symlink_to("nowhere")


def other_shape(path):
    path.write_text('{"format": 2, "entries": []}')


def edited(path):
    """As somebody might edit it: well-formed, with facts missing."""
    path.write_text(json.dumps({**json.loads(path.read_text()), "info": {}, "counts": {}}))


def others(path):
    """Another asset's manifest."""
    path.write_text(json.dumps({**json.loads(path.read_text()), "asset": "other"}))


def outside(path):
    """A manifest that names a file of somebody else."""
    found = json.loads(path.read_text())
    for entry in found["files"].values():
        entry["file"] = "../../../mog.yaml"
    path.write_text(json.dumps(found))


OF_MANIFESTS = (delete, empty, truncate, flip, broken_link_instead, other_shape, edited, others, outside)

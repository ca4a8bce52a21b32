"""Rows of a database as items of a source: `sql://VARIABLE/QUERY`, opened by SQLAlchemy.

The variable of the environment has the URL of the database, with its password, which is stored nowhere. A row is a
document, as in a file of rows (see `mog_assets.documents.tables`).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from itertools import groupby

from mog_assets.documents.sources import SOURCES, Item, Source, name_of, number_of, part_of
from mog_assets.documents.tables import record_of_values
from mog_assets.plugins.connectors.look_cache import LookCache

_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")
# Rows that are in memory at a time.
_ROWS = 1000


class _Rows:
    """The rows of a query as they are now, in a temporary file.

    Args:
        address: `VARIABLE/QUERY`.
    """

    def __init__(self, address: str) -> None:
        variable, _, query = address.partition("/")
        if not _VARIABLE.fullmatch(variable) or not query.strip():
            raise ValueError("sql://VARIABLE/QUERY, with the variable of the environment that has the database's URL")
        if not os.environ.get(variable):
            raise ValueError(f"the URL of a database in the variable {variable} of the environment, which is not set")
        # Without a name: it is gone when this process ends, however it ends.
        self._database = sqlite3.connect("", check_same_thread=False)
        self._database.execute("CREATE TABLE rows (part INTEGER NOT NULL, line TEXT NOT NULL)")
        with self._database:
            self._database.executemany("INSERT INTO rows VALUES (?, ?)", _lines(os.environ[variable], query))
        self._database.execute("CREATE INDEX rows_by_part ON rows (part, line)")
        rows = self._database.execute("SELECT part, line FROM rows ORDER BY part, line")
        self.items = {name_of(part): Item(_digest(lines)) for part, lines in groupby(rows, key=lambda row: row[0])}

    def read(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a part."""
        query = "SELECT line FROM rows WHERE part = ? ORDER BY line"
        for (line,) in self._database.execute(query, (number_of(name),)):
            yield f"{line}\n".encode()


def _digest(rows: Iterator[tuple[int, str]]) -> str:
    digest = hashlib.sha256()
    for _, line in rows:
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()


def _lines(url: str, query: str) -> Iterator[tuple[int, str]]:
    """Yield part and JSON of every row."""
    import sqlalchemy

    try:
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
        with engine.connect() as connection:
            # What the query should not change is rolled back.
            options = {"stream_results": True, "yield_per": _ROWS}
            result = connection.execution_options(**options).exec_driver_sql(query)
            if "id" not in result.keys():  # noqa: SIM118
                raise ValueError(f"a column `id`, and there are {', '.join(result.keys())}")
            for row in result.mappings():
                identity = str(row["id"])
                yield part_of(identity), json.dumps(record_of_values(dict(row)), ensure_ascii=False, sort_keys=True)
    except ModuleNotFoundError as error:
        raise OSError(f"no driver {error.name}: install it, or name another as in postgresql+psycopg2://") from None
    except sqlalchemy.exc.SQLAlchemyError as error:
        # The text of the library's own error, without what was asked and how to look it up.
        text = str(getattr(error, "orig", None) or error)
        password = _password(url)
        raise OSError(text.replace(password, "…") if password else text) from None


def _password(url: str) -> str:
    import sqlalchemy

    try:
        return str(sqlalchemy.make_url(url).password or "")
    except sqlalchemy.exc.ArgumentError:
        return url


_ROWS_OF: LookCache[_Rows] = LookCache(_Rows)


def _items(place: str) -> Mapping[str, Item]:
    return _ROWS_OF(place).items


def _read(place: str, name: str) -> Iterator[bytes]:
    # Of the look that listed it, however long the others took to copy.
    return _ROWS_OF(place, math.inf).read(name)


SOURCES.register("sql", Source(_items, _read))

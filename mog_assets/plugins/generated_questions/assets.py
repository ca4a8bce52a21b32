"""The asset of the synthesis stage: `generated_questions`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mog_assets.build.recipe import Recipe, Work
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.documents.documents import bucket_of
from mog_assets.index.corpora import Corpora
from mog_assets.plugins.generated_questions import asking, checks, filters
from mog_assets.plugins.generated_questions.candidates import (
    OPEN,
    Candidate,
    Dropped,
    ModelRequest,
    read_asked,
    write_asked,
    write_dropped,
)
from mog_assets.plugins.generated_questions.leads import RETRIEVERS, leads_back
from mog_assets.plugins.generated_questions.likeness import repetitions
from mog_assets.plugins.generated_questions.model import prompts_fingerprint
from mog_assets.plugins.generated_questions.settings import GENERATION, KEY, GenerationSettings
from mog_assets.plugins.generated_questions.windows import Extract, sample_documents, windows
from mog_assets.questions.sets import Question, write_questions
from mog_assets.resources.store import Artefact, digest
from mog_assets.search.index import Index
from mog_assets.search.rankings import searched
from mog_assets.search.retrieval import Retrieval

GROUP = "synthesis"
# Files of kept questions start with `bucket`, as everywhere.
_REQUESTS, _DROPPED = "asked", "dropped.parquet"


def build_generated(work: Work) -> None:
    """Make questions from the documents of a corpus, and keep those that pass every check."""
    corpus, generation = str(work.corpus), _generation(work.settings)
    work.info["retry"] = None
    parts = _windows(work, generation) if generation.corpora is None or corpus in generation.corpora else []
    # Statistics are of all corpora.
    corpora = Corpora.open(work.tools.store.read, work.settings, [corpus])
    candidates = _request_candidates(work, parts)
    accepted, lost = _checked(work, corpora, candidates)
    _write(work, accepted, lost)
    work.counts |= {
        "documents": len({part.document for part in parts}),
        "questions": len(accepted),
        "dropped": len(lost),
        **{f"dropped: {reason}": n for reason, n in filters.counted(lost).items()},
    }
    work.shown["made by"] = work.settings.llm.model
    sample = [{"question": q.question, "answer": q.answer, "kind": q.kind} for q in accepted[:10]]
    work.show_table("sample", sample)
    work.show_table(
        "kinds", [{"kind": kind, "questions": n} for kind, n in Counter(q.kind for q in accepted).most_common()]
    )
    work.show_table("dropped", [{"reason": r, "questions": n} for r, n in filters.counted(lost).items()])
    shown = [
        {"document": d.document, "question": d.question, "reason": d.reason, "detail": d.detail} for d in lost[:20]
    ]
    work.show_table("dropped questions", shown)


def _generation(settings: Settings) -> GenerationSettings:
    generation = GENERATION.of(settings)
    assert generation is not None
    return generation


def _windows(work: Work, generation: GenerationSettings) -> list[Extract]:
    """Return the parts of documents that questions are made from, documents in the order of the store."""
    documents, seed = work.input("documents"), work.settings.seed
    paths = [documents.path(name) for name in documents.names("bucket")]
    every = (identity for path in paths for identity in pq.read_table(path, columns=["id"])["id"].to_pylist())
    chosen = sample_documents(every, generation.documents, seed)
    extracts = []
    for path in paths:
        table = pq.read_table(path, columns=["id", "title", "text"])
        table = table.filter(pc.is_in(table["id"], pa.array(sorted(chosen), pa.string())))
        for row in table.to_pylist():
            extracts += windows(row["id"], row["title"], row["text"], generation, seed)
    return extracts


def _request_candidates(work: Work, parts: Sequence[Extract]) -> list[Candidate | Dropped]:
    """Return what the model wrote, in the order of the windows; requests that got no answer are recorded as open."""
    llm, before = work.tools.llm, work.tools.llm.tally
    with work.progress(len(parts), "questions asked for") as advance:
        replies = asking.ask(llm, parts, _model(work.tools), _answered(work), advance)
    by_bucket: dict[int, list[ModelRequest]] = {}
    for row in replies.rows:
        by_bucket.setdefault(bucket_of(row.document, work.settings.buckets), []).append(row)
    for bucket, rows in sorted(by_bucket.items()):
        path, exists = work.file(f"{_REQUESTS}_{bucket:04d}.parquet", [repr(row) for row in rows])
        if not exists:
            with work.writing(path) as temporary:
                write_asked(rows, temporary)
    spent, still = llm.tally - before, [row for row in replies.rows if row.state == OPEN]
    work.counts |= {"calls": spent.calls, "calls from the cache": spent.cached, "USD": round(spent.usd, 6)}
    work.counts["open"] = len(still)
    work.recomputed["requests answered"] = replies.settled
    if still:
        work.info["retry"] = (
            f"{len(still)} of {len(parts)} requests have no answer yet (documents: "
            f"{len({row.document for row in still})}); the next `mog run` asks again and pays for nothing twice: "
            f"{replies.stopped or still[0].said}"
        )
        work.shown["not answered yet"] = work.info["retry"].replace("<", "&lt;")
        if work.log:
            work.log(f"{KEY} of corpus {work.corpus}: {work.info['retry']}")
    work.info["parameters"] = llm.parameters.sent
    work.shown["parameters sent"] = llm.parameters.describe()
    read = [asking.read(window, row) for window, row in zip(parts, replies.rows, strict=True)]
    return [one for one in read if one is not None]


def _answered(work: Work) -> Mapping[str, ModelRequest]:
    """Return answers in the previous artefact; none if the run is forced, which finds them in the cache."""
    before = work.draft.previous
    if before is None or work.repeats is not None:
        return {}
    return read_asked(before.path(name) for name in before.names(_REQUESTS))


def _checked(
    work: Work, corpora: Corpora, candidates: Sequence[Candidate | Dropped]
) -> tuple[list[Question], list[Dropped]]:
    """Return questions that pass every check, and the others with the reason."""
    corpus, lost = str(work.corpus), []
    passed: list[tuple[Candidate, Question]] = []
    for candidate in candidates:
        one = filters.checked(candidate, corpus) if isinstance(candidate, Candidate) else candidate
        if isinstance(one, Question):
            assert isinstance(candidate, Candidate)
            passed.append((candidate, one))
        else:
            lost.append(one)
    copies = repetitions([question.question for _, question in passed])
    for (candidate, question), copy in zip(passed, copies, strict=True):
        if copy:
            lost.append(filters.dropped(candidate.window, question.question, filters.COPY))
    passed = [one for one, copy in zip(passed, copies, strict=True) if not copy]
    texts = [question.question for _, question in passed]
    with work.progress(len(texts), "questions searched") as advance:
        positions = np.array([corpora.position[corpus, c.window.document] for c, _ in passed], np.int64)
        vectors = work.tools.encoder.encode(texts) if texts else np.zeros((0, 0), np.float32)
        retrieval = Retrieval(Index.open(work.tools, corpora), texts, given=vectors)
        back = leads_back(retrieval, positions)
        advance(len(texts))
    accepted = []
    for i, (candidate, question) in enumerate(passed):
        missed = [name for name in RETRIEVERS if not back[name][i]]
        if missed:
            lost.append(filters.dropped(candidate.window, question.question, filters.NOT_FOUND[missed[0]]))
        else:
            accepted.append(question)
    return accepted, lost


def _write(work: Work, accepted: Sequence[Question], lost: Sequence[Dropped]) -> None:
    by_bucket: dict[int, list[Question]] = {}
    for question in accepted:
        by_bucket.setdefault(bucket_of(question.evidence[0].doc, work.settings.buckets), []).append(question)
    for bucket, questions in sorted(by_bucket.items()):
        path, exists = work.file(f"bucket_{bucket:04d}.parquet", [repr(question) for question in questions])
        if not exists:
            with work.writing(path) as temporary:
                write_questions(questions, temporary)
    path, exists = work.file(_DROPPED, [repr(row) for row in lost])
    if not exists:
        with work.writing(path) as temporary:
            write_dropped(lost, temporary)


def _model(tools: Tools) -> str:
    """Return everything besides the messages that decides an answer; `auto` uses answers without a form again."""
    llm = tools.settings.llm
    formed = [llm.structured] if llm.structured == "on" else []
    return digest(llm.model, tools.llm.endpoint, llm.temperature, llm.max_tokens, tools.settings.seed, *formed)


def _decides(tools: Tools) -> list[Any]:
    generation = _generation(tools.settings)
    by = [_model(tools), prompts_fingerprint()]
    # Buckets are those of the documents, an input.
    return [generation.model_dump(), tools.settings.seed, tools.settings.bm25.model_dump(), tools.encoder.identity, *by]


def _complete(tools: Tools, stored: Artefact) -> bool:
    """Return whether no request is open; the next run asks again otherwise."""
    return not stored.manifest.info["retry"]


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipes of this stage; none unless questions are to be made."""
    if GENERATION.of(settings) is None:
        return []
    needed = searched(settings)
    return [
        Recipe(
            key=KEY,
            build=build_generated,
            description="Questions made from documents, each checked against its document and the indexes.",
            is_result=True,
            group=GROUP,
            deps=(*needed.per_corpus, *needed.common),
            settings=_decides,
            checks=(checks.EVERY_QUESTION_WAS_ANSWERED,),
            intact=_complete,
            kinds=("openai",),
            pool="llm",
        )
    ]

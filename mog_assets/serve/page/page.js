// The search page, and what the page of a document shares with it. Text from documents becomes text nodes, never HTML.

export const byId = id => document.getElementById(id);

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(key, value);
  element.append(...children.filter(child => child !== undefined && child !== ""));
  return element;
}

// ---- The server

const KEY = "mog key";

export class Problem extends Error {
  constructor(status, title, detail) {
    super(detail || title);
    Object.assign(this, { status, title });
  }
}

export async function call(path, { body, signal, accept = "application/json", method = body ? "POST" : "GET" } = {}) {
  const headers = { accept }, key = sessionStorage.getItem(KEY);
  if (key) headers.authorization = `Bearer ${key}`;
  if (body) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server does not answer", "Check that `mog serve` is running, then try again.");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  const words = { 400: "This cannot be asked", 422: "This cannot be asked", 404: "Not found", 429: "The server is busy" };
  throw new Problem(answer.status, words[answer.status] || told.title || `Status ${answer.status}`, told.detail);
}

// Several requests can wait for the same key.
let asking = null;

// Does `work` again once a key has been given; a key that is wrong is asked for again.
export async function withKey(work) {
  const used = sessionStorage.getItem(KEY);
  try {
    return await work();
  } catch (error) {
    if (error.status !== 401) throw error;
    // Meanwhile another request may have got one.
    if (used === sessionStorage.getItem(KEY)) await (asking ??= askForKey(used !== null).finally(() => { asking = null; }));
    return withKey(work);
  }
}

async function askForKey(refused) {
  const form = byId("key"), field = byId("secret");
  form.hidden = false;
  say(refused ? "This key is not accepted." : "A key is needed.");
  field.focus();
  await new Promise(resolve => {
    form.onsubmit = event => {
      event.preventDefault();
      // A header has no other characters; quotes that came with the key are the usual ones.
      if (/^[!-~]+$/.test(field.value.trim())) resolve();
      else say("A key has letters, digits and signs of ASCII only, and no blanks.");
    };
  });
  sessionStorage.setItem(KEY, field.value.trim());
  field.value = "";
  form.hidden = true;
  say("");
}

export function say(text) {
  byId("status").textContent = text;
}

export function complain(error) {
  const box = byId("trouble");
  box.hidden = !error;
  if (error) box.replaceChildren(make("b", {}, error.title || "This page has a fault"), make("p", {}, ...coded(error.message)));
}

// Words between backticks are code.
export function coded(text) {
  return String(text).split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));
}

// ---- Places in documents

const segment = text => encodeURIComponent(text);

function below(path, corpus, id) {
  const parts = id.split("/");
  // A browser resolves dots before it sends a path.
  const whole = parts.some(part => part === "." || part === "..");
  return `${path}/${segment(corpus)}/${whole ? segment(id) : parts.map(segment).join("/")}`;
}

export const documentPath = (corpus, id) => below("v1/documents", corpus, id);

export function original(corpus, id, source, page, ...children) {
  const pdf = /\.pdf$/i.test(source), place = pdf && page ? `#page=${page}` : "";
  const link = make("a", { href: below("v1/source", corpus, id) + place, target: "_blank", rel: "noopener" }, ...children);
  // A link sends no key.
  link.addEventListener("click", async event => {
    if (!sessionStorage.getItem(KEY)) return;
    event.preventDefault();
    try {
      const answer = await withKey(() => call(below("v1/source", corpus, id)));
      // Of another type it could run scripts with the rights of this page.
      const url = URL.createObjectURL(new Blob([await answer.blob()], { type: pdf ? "application/pdf" : "application/octet-stream" }));
      make("a", pdf ? { href: url + place, target: "_blank" } : { href: url, download: source.split("/").at(-1) }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    } catch (error) {
      complain(error);
    }
  });
  return link;
}

export const leaf = (source, page) => `${/\.pptx?$/i.test(source ?? "") ? "slide" : "page"} ${page}`;

// Offsets count characters; JavaScript counts UTF-16 units.
export function units(text, offsets) {
  if (!/[\ud800-\udbff]/.test(text)) return offsets;
  const order = offsets.map((offset, i) => [offset, i]).sort((a, b) => a[0] - b[0]), found = [...offsets];
  let characters = 0, at = 0;
  for (const [offset, i] of order) {
    for (; characters < offset && at < text.length; characters++) at += text.codePointAt(at) > 0xffff ? 2 : 1;
    found[i] = at;
  }
  return found;
}

// Text from `low` to `high` with what lies in `ranges` ([low, high, class], in order, none over another) marked.
export function marked(text, low, high, ranges) {
  const parts = [];
  let at = low;
  for (const [from, to, kind] of ranges) {
    const start = Math.max(from, at), end = Math.min(to, high);
    if (start >= end) continue;
    parts.push(text.slice(at, start), make("mark", { class: kind || undefined }, text.slice(start, end)));
    at = end;
  }
  parts.push(text.slice(at, high));
  return parts.filter(part => part !== "");
}

// Lines of code: between fences, indented and no item of a list, or after a prompt; and what stands between backticks.
const CODE = /^```[^]*?(?:^```|(?![^]))|(?:^(?:(?: {4}|\t)(?!\s*(?:[-*+•]|\d+[.)])\s)|\$ |>>> ).*(?:\n|(?![^])))+|`[^`\n]+`/gm;

// As `marked`, with code in fixed pitch.
export function typeset(text, low, high, ranges) {
  const parts = [];
  let at = low;
  for (const { 0: code, index } of text.slice(low, high).matchAll(CODE)) {
    const start = low + index, end = start + code.length;
    parts.push(...marked(text, at, start, ranges), make("code", {}, ...marked(text, start, end, ranges)));
    at = end;
  }
  return [...parts, ...marked(text, at, high, ranges)];
}

// Ranges of one kind, with those of another over them.
export function under(ranges, top) {
  let left = ranges;
  for (const [low, high] of top)
    left = left.flatMap(([from, to, kind]) => [[from, Math.min(to, low), kind], [Math.max(from, high), to, kind]]).filter(([from, to]) => from < to);
  return [...left, ...top].sort((a, b) => a[0] - b[0]);
}

export function metadata(values) {
  const list = make("dl", { class: "metadata" });
  for (const [name, value] of Object.entries(values))
    list.append(make("dt", {}, name), make("dd", {}, typeof value === "string" ? value : JSON.stringify(value)));
  return list;
}

// ---- The search page

// A sentence is marked if it is about as similar to the question as the most similar one, and similar at all.
const [NEAR, LEAST] = [0.1, 0.35];
const LONG = 1600;
const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

// The family of methods that can say why a passage is there.
const RANKINGS = "rankings";
const GROUPS = [
  [/^dense/, "meaning"],
  [/^hybrid/, "words and meaning"],
  [/^bm25/, "words"],
  [/./, "chunks of one size, or of several"],
];

// A follow-up refers to so many questions, as the server has it.
const TURNS = 6;

let known = { corpora: [], methods: [], ways: [], budget: undefined };
let loading = null;
let running = null;
let shown = { passages: [], answer: "" };

// What can be chosen; asked for again if it did not come.
function load() {
  loading ??= withKey(async () => (await call("v1/corpora")).json()).then(told => {
    known = told;
    say("");
    fillChoices();
    // Somebody may have typed meanwhile.
    formOfState(new URLSearchParams(location.search), byId("question").value);
  });
  loading.catch(() => { loading = null; });
  return loading;
}

function fillChoices() {
  const boxes = known.corpora.map(corpus => make("label", { class: "corpus" },
    make("input", { type: "checkbox", name: "corpus", value: corpus.name, checked: "" }), corpus.name));
  byId("corpora").append(...boxes);
  byId("corpora").hidden = boxes.length < 2;
  const groups = new Map();
  for (const method of known.methods) {
    const name = known.families?.[method] ?? GROUPS.find(([pattern]) => pattern.test(method))[1];
    if (!groups.has(name)) groups.set(name, make("optgroup", { label: name }));
    groups.get(name).append(make("option", { value: method }, method));
  }
  byId("method").append(...groups.values());
  byId("budget").value = known.budget;
  byId("way").append(make("option", { value: "" }, "as the project does"), ...known.ways.map(way => make("option", { value: way }, way)),
    make("option", { value: "none" }, "none, passages only"));
  const fields = [...new Set(known.corpora.flatMap(corpus => corpus.fields))];
  byId("fields").append("Names: ", ...fields.flatMap((name, i) => [i ? ", " : "", make("code", {}, name)]),
    ". A condition is a value, a list of values, or one of ", ...["in", "gt", "gte", "lt", "lte", "glob"].flatMap((name, i) => [i ? ", " : "", make("code", {}, name)]), ".");
  const documents = known.corpora.reduce((sum, corpus) => sum + corpus.documents, 0);
  byId("about").textContent = `${count(documents, "document")} in ${count(known.corpora.length, "corpus", "corpora")}`;
  for (const corpus of known.corpora)
    byId("holdings").append(make("dt", {}, corpus.name), make("dd", {}, `${count(corpus.documents, "document")}, ${count(corpus.characters, "character")}; ${Object.entries(corpus.languages).map(([name, number]) => `${name} ${number}`).join(", ")}`));
}

const corpusBoxes = () => [...document.querySelectorAll("[name=corpus]")];

// The form as the query of a URL; what has its default is left out.
function stateOfForm() {
  const state = new URLSearchParams(), put = (name, value, usual) => value !== usual && state.set(name, value);
  put("q", byId("question").value.trim(), "");
  put("method", byId("method").value, "auto");
  put("budget", byId("budget").value, String(known.budget));
  put("answer", byId("way").value, "");
  put("where", byId("where").value.trim(), "");
  const boxes = corpusBoxes(), chosen = boxes.filter(box => box.checked);
  if (chosen.length && chosen.length < boxes.length) for (const box of chosen) state.append("corpus", box.value);
  return state;
}

function choose(select, value) {
  // What the server does not know is sent as it is, so that it can say why it cannot be used.
  if (![...select.options].some(option => option.value === value)) select.append(make("option", { value }, value));
  select.value = value;
}

function formOfState(state, typed = "") {
  byId("question").value = state.get("q") ?? typed;
  choose(byId("method"), state.get("method") ?? "auto");
  byId("budget").value = state.get("budget") ?? known.budget ?? "";
  choose(byId("way"), state.get("answer") ?? "");
  byId("where").value = state.get("where") ?? "";
  const chosen = state.getAll("corpus");
  for (const box of corpusBoxes()) box.checked = !chosen.length || chosen.includes(box.value);
  if (["method", "budget", "answer", "where"].some(name => state.get(name))) byId("more").open = true;
}

function filterOf(text) {
  if (!text) return undefined;
  try {
    const where = JSON.parse(text);
    if (where && typeof where === "object" && !Array.isArray(where)) return where;
  } catch { /* Told below. */ }
  throw new Problem(0, "The filter cannot be read", 'Expected JSON like {"title": {"glob": "*bread*"}, "year": {"gte": 2020}}.');
}

// What was asked and answered before, which a follow-up refers to; kept with the entry of the history.
const turnsBefore = () => history.state?.turns ?? [];

function showTurns(turns) {
  byId("before").hidden = !turns.length;
  byId("turns").replaceChildren(...turns.map(({ question, answer, likeliest }) =>
    make("li", {}, make("p", { class: "turn" }, question), make("p", {}, answer || likeliest || "Passages only"))));
}

async function ask(state) {
  running?.abort();
  const own = running = new AbortController(), { signal } = own;
  const question = state.get("q") ?? "", earlier = turnsBefore();
  showTurns(earlier);
  byId("follow").hidden = true;
  shown = { passages: [], answer: "" };
  for (const id of ["answer", "found"]) byId(id).hidden = true;
  byId("start").hidden = Boolean(question);
  complain(null);
  document.title = question ? `${question} – Search` : "Search";
  document.body.classList.toggle("busy", Boolean(question));
  say(question ? "Searching …" : "");
  if (!question) return;
  try {
    const chosen = state.getAll("corpus");
    const body = { question, where: filterOf(state.get("where")), corpora: chosen.length ? chosen : undefined };
    const budget = state.get("budget") ? Number(state.get("budget")) : undefined;
    const way = state.get("answer") ?? "";
    const passages = alone => passagesFor({ ...body, question: alone, budget, method: state.get("method") ?? "auto" }, signal);
    const work = [];
    // Passages do not wait for an answer; those for a follow-up, for what it asks.
    let understood = { resolve: () => {} };
    if (earlier.length && way !== "none") work.push(new Promise((resolve, reject) => { understood = { resolve, reject }; }).then(passages));
    else work.push(passages(question));
    if (way !== "none") work.push(answerTo({ ...body, earlier: earlier.map(({ question, answer }) => ({ question, answer })), method: way || undefined }, signal, understood.resolve).catch(error => {
      understood.reject?.(error);
      throw error;
    }));
    const failed = (await Promise.allSettled(work)).find(part => part.status === "rejected");
    if (failed) throw failed.reason;
  } catch (error) {
    if (error.name === "AbortError") return;
    say("");
    complain(error);
  } finally {
    if (running === own) {
      running = null;
      document.body.classList.remove("busy");
    }
  }
}

async function passagesFor(body, signal) {
  const told = await withKey(async () => {
    const started = performance.now();
    const found = await (await call("v1/search", { body: { ...body, explain: known.families?.[body.method] === RANKINGS, sentences: true }, signal })).json();
    return { ...found, ms: performance.now() - started };
  });
  signal.throwIfAborted();
  shown.passages = told.passages;
  const characters = told.passages.reduce((sum, passage) => sum + Array.from(passage.text).length, 0);
  say(told.passages.length ? `${count(told.passages.length, "passage")} in ${Math.round(told.ms)} ms` : "Nothing was found");
  byId("found").hidden = false;
  const taken = Object.entries(told.corrections).map(([word, other]) => ` · no document has “${word}”: searched for “${other}”`);
  const facts = told.passages.length ? [count(characters, "character"), " · "] : [];
  byId("facts").replaceChildren(...facts, "ranked by ", make("code", {}, told.method), ...taken);
  byId("ranking").querySelector("p").replaceChildren(`Version ${told.version}.`, ...(told.method_reason ? [" Chosen because ", ...coded(told.method_reason), "."] : []));
  const nothing = make("li", { class: "panel" }, told.empty_reason || "No passage.", " Use other words, or search more documents.");
  const best = Math.max(...told.passages.map(passage => passage.score));
  const similar = Math.max(LEAST, Math.max(...told.passages.flatMap(p => (p.sentences ?? []).map(s => s.similarity))) - NEAR);
  byId("passages").replaceChildren(...(told.passages.length ? told.passages.map((p, i) => item(p, i + 1, best, similar)) : [nothing]));
  if (known.use) told.passages.forEach((p, i) => byId(`passage-${i + 1}`).append(answeredBy(p, body.question, told.method)));
  for (const text of document.querySelectorAll(".text.long")) unfoldable(text);
  linkAnswer();
}

// The page of a passage's document, with the sentences that are marked if it is known where they stand.
function placeOf(passage, sentences = []) {
  const state = new URLSearchParams({ corpus: passage.corpus, id: passage.document });
  for (const span of passage.spans.slice(0, 50)) if (span.corpus === passage.corpus && span.document === passage.document) state.append("span", `${span.start}-${span.end}`);
  if (passage.spans.length === 1)
    for (const { start, end } of sentences.slice(0, 20)) state.append("mark", `${passage.spans[0].start + start}-${passage.spans[0].start + end}`);
  if (location.search) state.set("from", location.search.slice(1));
  return `document?${state}`;
}

function item(passage, rank, best, similar) {
  const { title, corpus, document: doc, page, headings, source, level, explanation: why } = passage, score = Number(passage.score.toPrecision(3));
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--share", best > 0 ? Math.max(0, score / best) : 0);
  const place = make("p", { class: "place" }, make("span", {}, `${corpus} / ${doc}`));
  if (headings.length) place.append(make("span", {}, headings.join(" › ")));
  if (page !== null) {
    const words = leaf(source, page);
    place.append(/\.pdf$/i.test(source ?? "") ? original(corpus, doc, source, page, `${words} of the PDF`) : make("span", {}, words));
  }
  place.append(bar);
  const text = make("div", { class: "text" });
  const sentences = (passage.sentences ?? []).filter(sentence => sentence.similarity >= similar);
  const ends = units(passage.text, sentences.flatMap(sentence => [sentence.start, sentence.end]));
  passage.ranges = sentences.map((_, i) => [ends[2 * i], ends[2 * i + 1] - trailing(passage.text, ends[2 * i], ends[2 * i + 1]), ""]);
  text.append(...typeset(passage.text, 0, passage.text.length, passage.ranges));
  if (passage.text.length > LONG) text.classList.add("long");
  const row = make("li", { class: "passage", id: `passage-${rank}`, tabindex: "-1" },
    make("span", { class: "rank", "aria-hidden": "true" }, String(rank)),
    make("h3", {}, make("a", { href: placeOf(passage, sentences) }, title || doc)), place, text);
  const reasons = make("p", { class: "why" }, ...(why ? [make("b", {}, "Why: "), why, make("br")] : []), level === null ? "" : `Level ${level} · `, `Score ${score}`);
  row.append(make("details", {}, make("summary", {}, "Details"), reasons, metadata(passage.metadata ?? {})));
  row.setAttribute("aria-label", `Passage ${rank}: ${title || doc}`);
  return row;
}

// Notes that a passage answered the question; pressed again, takes it back.
function answeredBy(passage, question, method) {
  const button = make("button", { type: "button", class: "plain used", "aria-pressed": "false" }, "This answered it");
  const said = make("span", { class: "note" });
  let noted = null, busy = false;
  button.addEventListener("click", async () => {
    if (busy) return;
    busy = true;
    const [first, ...more] = passage.spans;
    try {
      if (noted === null) {
        const body = { question, passage: first, more, text: passage.text, method };
        noted = (await (await withKey(() => call("v1/used", { body }))).json()).id;
      } else {
        await withKey(() => call(`v1/used/${noted}`, { method: "DELETE" })).catch(error => {
          // It may have been deleted meanwhile.
          if (error.status !== 404) throw error;
        });
        noted = null;
      }
      complain(null);
      button.setAttribute("aria-pressed", String(noted !== null));
      said.textContent = noted === null ? "" : "Noted. Press again to take it back.";
      say(noted === null ? "Taken back." : "Noted: this passage answered the question.");
    } catch (error) {
      complain(error);
    } finally {
      busy = false;
    }
  });
  return make("p", { class: "answered" }, button, " ", said);
}

// White space at the end of a sentence is not marked.
export const trailing = (text, low, high) => high - low - text.slice(low, high).trimEnd().length;

function scrollToMark(text) {
  const first = text.querySelector("mark.answer") ?? text.querySelector("mark");
  if (first) text.scrollTop = Math.max(0, first.offsetTop - 60);
  text.classList.toggle("within", text.scrollTop > 0);
}

function unfoldable(text) {
  scrollToMark(text);
  const button = make("button", { type: "button", class: "plain" }, "Show the whole passage");
  button.addEventListener("click", () => {
    text.classList.remove("long");
    button.remove();
  });
  text.after(button);
}

// ---- The answer

async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (left + value.replaceAll("\r\n", "\n")).split("\n\n");
    left = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n"), name = lines.find(line => line.startsWith("event:"))?.slice(6).trim();
      const data = lines.filter(line => line.startsWith("data:")).map(line => line.slice(5)).join("\n");
      if (name) yield [name, JSON.parse(data)];
    }
  }
}

const STEPS = {
  standalone: data => ["Searched for ", make("q", {}, data.question)],
  passages: data => [`${count(data.passages.length, "passage")} for `, make("q", {}, data.query)],
  answer: data => ["Answer: ", data.text ?? data.failure ?? "–"],
};
// A step of a way of answering that the page does not know.
const stepOf = (name, { role, title, failure, certain, ...gives }) => [title ? `${title}: ${Object.values(gives)[0] ?? "–"}` : name];

function note(children) {
  byId("steps").hidden = false;
  byId("steps").querySelector("ol").append(make("li", {}, ...children.map(child => (typeof child === "object" ? child : String(child)))));
}

function write(text, kind) {
  byId("said").className = kind;
  byId("said").textContent = text;
}

async function answerTo(body, signal, understood) {
  const started = performance.now();
  let written = "";
  byId("answer").hidden = false;
  byId("answer").setAttribute("aria-busy", "true");
  byId("sources").replaceChildren();
  byId("steps").querySelector("ol").replaceChildren();
  byId("steps").hidden = true;
  byId("steps").open = false;
  for (const id of ["answer-head", "said"]) byId(id).hidden = false;
  byId("answer-head").textContent = "Answer";
  write("Reading …", "waiting");
  try {
    const answer = await withKey(() => call("v1/ask", { body, signal, accept: "text/event-stream" }));
    for await (const [name, data] of events(answer)) {
      signal.throwIfAborted();
      if (name === "done") {
        understood(data.question);
        return finish(data, performance.now() - started);
      }
      if (name === "error") throw new Problem(data.status, data.title, data.detail);
      if (name === "standalone") understood(data.question);
      if (name === "token") {
        written += data.text;
        write(written, "");
        continue;
      }
      note(STEPS[name]?.(data) ?? stepOf(name, data));
      if (name === "passages") write(`Reading ${count(data.passages.length, "passage")} …`, "waiting");
      if (name === "answer" && data.text) write(data.text, "");
    }
    throw new Problem(0, "The answer was cut off", "The server ended the connection before the answer was complete. Ask again.");
  } catch (error) {
    if (error.name !== "AbortError") byId("answer").hidden = true;
    throw error;
  } finally {
    byId("answer").removeAttribute("aria-busy");
  }
}

function finish(told, ms) {
  byId("follow").hidden = false;
  shown.answer = told.answer ?? "";
  shown.likeliest = told.likeliest;
  shown.cited = told.cited ?? [];
  shown.sources = told.passages;
  const more = [`Way ${told.method}`, `read by ${told.reader}`, `${Math.round(ms)} ms`];
  const details = told.details ?? {};
  if (details.calls) more.push(count(details.calls, "call"));
  if (details.cost) more.push(`cost ${details.cost}`);
  note([more.join(" · ")]);
  if (told.answer === null) withhold(told);
  linkAnswer();
}

// What is not certain enough is a search: with the sentence that most likely answers, if one does, and no word of answers.
function withhold({ failure, likeliest, probability }) {
  if (!likeliest && (probability ?? null) === null) return write(`No answer: ${failure || "the passages do not give one"}`, "none");
  byId("answer-head").textContent = "Most relevant sentence";
  write("", "none");
  if (likeliest) byId("said").append(sentenceOf(likeliest));
  else for (const id of ["answer-head", "said", "steps"]) byId(id).hidden = true;
}

// The sentence in which an answer stands, with its words marked, as a link to its place.
function sentenceOf({ sentence, corpus, document, start, end, answer_start, answer_end }) {
  const [low, high] = units(sentence, [answer_start - start, answer_end - start]);
  const href = placeOf({ corpus, document, spans: [{ corpus, document, start, end }] });
  return make("a", { href, class: "likeliest" }, ...typeset(sentence, 0, sentence.length, [[low, high, ""]]));
}

// The answer refers to passages: by `[1]` in its text, and by the list below it. Called when either has come.
function linkAnswer() {
  const { answer, likeliest, sources, passages } = shown;
  if (sources === undefined) return;
  const listed = source => passages.findIndex(p => source.spans.some(a => p.spans.some(b => a.corpus === b.corpus && a.document === b.document && a.start < b.end && b.start < a.end)));
  const target = number => {
    const at = listed(sources[number - 1]);
    return at < 0 ? { href: placeOf(sources[number - 1]) } : { href: `#passage-${at + 1}`, "data-passage": at + 1 };
  };
  if (answer) {
    byId("said").className = "";
    byId("said").replaceChildren(...answer.split(/(\[\d{1,3}\])/).map(part => {
      const number = Number(/^\[(\d+)\]$/.exec(part)?.[1]);
      return number >= 1 && number <= sources.length ? make("a", { class: "cite", ...target(number) }, part) : part;
    }));
  }
  // Words of a passage say more in their sentence.
  if (answer && likeliest && likeliest.sentence.length > answer.length) byId("said").append(sentenceOf(likeliest));
  // Where it is known which passages an answer is from, it is based on these.
  const numbers = !answer ? [] : shown.cited.length ? shown.cited : sources.map((_, i) => i + 1);
  byId("sources").replaceChildren(...(numbers.length ? ["Based on"] : []), ...numbers.map(number =>
    make("a", target(number), make("span", { class: "number" }, String(number)), sources[number - 1].title || sources[number - 1].document)));
  // Where the answer, or the sentence that most likely has it, stands in a passage word for word.
  const said = answer || (likeliest?.sentence ?? "");
  if (said.length < 8) return;
  passages.forEach((passage, i) => {
    const low = passage.text.indexOf(said), text = document.querySelector(`#passage-${i + 1} .text`);
    if (low < 0 || !text || (!answer && passage.document !== likeliest.document)) return;
    const high = low + said.length;
    text.replaceChildren(...typeset(passage.text, 0, passage.text.length, under(passage.ranges, [[low, high, "answer"]])));
    if (text.classList.contains("long")) scrollToMark(text);
  });
}

// ---- Keys

function move(step) {
  const rows = [...document.querySelectorAll(".passage")], at = rows.indexOf(document.activeElement.closest?.(".passage"));
  const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step))];
  if (!next) return;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const at = document.activeElement, typing = at.matches("input:not([type=checkbox]), textarea, select");
  if (event.key === "Escape") {
    if (running) {
      running.abort();
      say("Stopped");
      if (byId("answer").getAttribute("aria-busy")) byId("answer").hidden = true;
    } else if (typing) at.blur();
    return;
  }
  if (typing) return;
  const row = at.closest(".passage");
  const steps = { j: 1, k: -1, ...(row && { ArrowDown: 1, ArrowUp: -1 }) };
  if (event.key === "/") {
    byId("question").focus();
    byId("question").select();
  } else if (event.key in steps) move(steps[event.key]);
  else if (event.key === "o" && (row ?? document.querySelector(".passage"))) (row ?? document.querySelector(".passage")).querySelector("h3 a").click();
  else return;
  event.preventDefault();
}

// Asks, as a further entry of the history.
function open(state, turns) {
  const query = String(state);
  if (`?${query}` !== location.search || turns.length || turnsBefore().length) history.pushState({ turns }, "", query ? `?${query}` : location.pathname);
  ask(state);
}

async function begin() {
  const question = byId("question");
  document.addEventListener("keydown", onKey);
  question.addEventListener("keydown", event => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("search").requestSubmit();
  });
  document.addEventListener("click", event => {
    const number = event.target.closest?.("[data-passage]")?.dataset.passage;
    if (!number) return;
    event.preventDefault();
    byId(`passage-${number}`).focus({ preventScroll: true });
    byId(`passage-${number}`).scrollIntoView({ block: "start" });
  });
  byId("search").addEventListener("submit", async event => {
    event.preventDefault();
    try {
      await load();
    } catch (error) {
      complain(error);
      return;
    }
    open(stateOfForm(), []);
  });
  byId("follow").addEventListener("submit", event => {
    event.preventDefault();
    const state = new URLSearchParams(location.search), next = byId("next").value.trim();
    if (!next) return;
    const turns = [...turnsBefore(), { question: state.get("q"), answer: shown.answer, likeliest: shown.likeliest?.sentence }].slice(-TURNS);
    state.set("q", next);
    byId("next").value = "";
    formOfState(state);
    open(state, turns);
  });
  window.addEventListener("popstate", () => {
    const state = new URLSearchParams(location.search);
    formOfState(state);
    ask(state);
  });
  try {
    await load();
  } catch (error) {
    complain(error);
    return;
  }
  const state = new URLSearchParams(location.search);
  if (state.has("q") && !running) ask(state);
}

if (document.getElementById("search")) begin();

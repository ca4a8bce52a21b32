// A whole document: its text as it is searched, with its pages and headings, at the place that was asked for.

import { byId, call, complain, documentPath, leaf, make, marked, metadata, original, say, trailing, typeset, under, units, withKey } from "./page.js";

const asked = new URLSearchParams(location.search);

function spans(name, text, kind) {
  const numbers = asked.getAll(name).map(span => /^(\d+)-(\d+)$/.exec(span)).filter(Boolean).map(([, low, high]) => [Number(low), Number(high)]);
  const ends = units(text, numbers.flat());
  return numbers.map((_, i) => [ends[2 * i], ends[2 * i + 1] - trailing(text, ends[2 * i], ends[2 * i + 1]), kind]).sort((a, b) => a[0] - b[0]);
}

// The line that a heading stands on, if it does: its signs (`##`), and its words.
function heading(text, low, high, mark, level, ranges) {
  const line = text.slice(low, high).split("\n", 1)[0], words = line.replace(/^\s*#*\s*/, "");
  if (!words || !(words.startsWith(mark.text) || mark.text.startsWith(words.trim()))) return [low, []];
  const start = low + line.length - words.length, end = low + line.length;
  const signs = start > low ? [make("span", { class: "signs" }, ...marked(text, low, start, ranges))] : [];
  return [end, [make("span", { class: "heading", role: "heading", "aria-level": level }, ...signs, ...marked(text, start, end, ranges))]];
}

function show(found) {
  const { corpus, id, title, text, source } = found, places = spans("span", text, "span"), sentences = spans("mark", text, "");
  const ranges = under(places, sentences), first = (sentences[0] ?? places[0])?.[0];
  document.title = `${title || id} – Document`;
  byId("title").textContent = title || id;
  const at = units(text, found.marks.map(mark => mark.offset));
  const marks = found.marks.map((mark, i) => ({ ...mark, at: at[i], id: `place-${i}` })).sort((a, b) => a.at - b.at);
  const leaves = marks.filter(mark => mark.kind !== "heading");
  const page = leaves.filter(mark => first !== undefined && mark.at <= first).at(-1)?.text;

  const facts = [make("span", {}, `${corpus} / ${id}`), make("span", {}, `${Array.from(text).length.toLocaleString("en")} characters`)];
  // Such a file holds many documents.
  if (source && !/\.jsonl(\.gz)?$/i.test(source)) {
    const pdf = /\.pdf$/i.test(source);
    facts.push(original(corpus, id, source, page, pdf && page ? `Original PDF at ${leaf(source, page)}` : "Original file"));
  }
  facts.push(make("span", {}, `version ${found.version}`));
  byId("facts").replaceChildren(...facts);
  if (Object.keys(found.metadata ?? {}).length) {
    byId("metadata").hidden = false;
    byId("metadata").append(metadata(found.metadata));
  }

  const parts = [];
  let low = 0;
  marks.forEach((mark, i) => {
    parts.push(...typeset(text, low, mark.at, ranges));
    low = Math.max(low, mark.at);
    if (mark.kind === "heading") {
      const [end, line] = heading(text, low, marks[i + 1]?.at ?? text.length, mark, Math.min(6, mark.depth + 1), ranges);
      parts.push(make("span", { id: mark.id }), ...line);
      low = end;
    } else parts.push(make("span", { id: mark.id, class: "leaf" }, `${mark.kind} ${mark.text}`));
  });
  parts.push(...typeset(text, low, text.length, ranges));
  byId("text").replaceChildren(...parts);

  contents(marks, leaves, first);
  byId("document").hidden = false;
  say("");
  const place = byId("text").querySelector("mark:not(.span)") ?? byId("text").querySelector("mark");
  if (place) {
    place.tabIndex = -1;
    place.focus({ preventScroll: true });
    place.scrollIntoView({ block: "start" });
  }
}

function contents(marks, leaves, first) {
  if (marks.length < 2) return;
  const here = list => list.filter(mark => first !== undefined && mark.at <= first).at(-1);
  const link = (mark, now, words) => make("a", { href: `#${mark.id}`, ...(mark === now && { class: "here", "aria-current": "location" }) }, words);
  const headings = marks.filter(mark => mark.kind === "heading"), list = byId("contents").querySelector("ul");
  const now = here(headings), page = here(leaves);
  if (!headings.length) byId("contents").querySelector("summary").textContent = leaves[0].kind === "slide" ? "Slides" : "Pages";
  const least = Math.min(...headings.map(mark => mark.depth));
  list.append(...headings.map(mark => make("li", { class: `depth-${Math.min(4, mark.depth - least + 1)}` }, link(mark, now, mark.text || "–"))));
  if (leaves.length > 1) {
    const row = make("div", { class: "leaves", role: "group", "aria-label": `${leaves[0].kind}s` });
    row.append(...leaves.map(mark => link(mark, page, mark.text)));
    list.after(row);
  }
  byId("contents").hidden = false;
  if (!matchMedia("(min-width: 62rem)").matches) byId("contents").querySelector("details").open = false;
}

async function begin() {
  const corpus = asked.get("corpus") ?? "", id = asked.get("id") ?? "", from = asked.get("from");
  byId("back").href = from ? `./?${from}` : "./";
  byId("about").replaceChildren(make("a", { href: byId("back").getAttribute("href") }, from ? "Back to the passages" : "Search"));
  try {
    show(await withKey(async () => (await call(documentPath(corpus, id))).json()));
  } catch (error) {
    say("");
    complain(error);
  }
}

begin();

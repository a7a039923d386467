// Search over the texts of all pages, in the browser and without a server.
//
// The index is one script, loaded when the search is first used, so that pages stay small and the
// site also works when it is opened from a disk. Every word must occur; hits in headings, and in
// tables that explain the word, come first, and so do words that stand together: "visibility timeout"
// is also the setting visibility_timeout.
"use strict";

const goqueueSearch = (() => {
  const RESULTS_MAX = 20;
  const WORDS_MAX = 8;
  const SNIPPET_BEFORE = 60;
  const SNIPPET_LENGTH = 180;

  const wordsOf = (query) =>
    query.toLowerCase().split(/\s+/).filter((word) => word.length > 0).slice(0, WORDS_MAX);

  // How well one word fits an entry; 0 if it does not occur.
  const scoreOf = (word, entry) => {
    let score = 0;
    const heading = entry.heading.toLowerCase();
    if (heading === word) score += 40;
    if (heading.includes(word)) score += 20;
    if (entry.defines.some((name) => name.toLowerCase() === word)) {
      // A page that is about such names alone explains them best.
      score += entry.heading === entry.page ? 40 : 20;
    }
    if (entry.page.toLowerCase().includes(word)) score += 8;
    let from = 0;
    for (let count = 0; count < 5; count += 1) {
      const at = entry.lower.indexOf(word, from);
      if (at < 0) break;
      const isStart = at === 0 || !/[a-z0-9_]/.test(entry.lower[at - 1]);
      score += isStart ? 3 : 1;
      from = at + word.length;
    }
    return score;
  };

  // Several words as one term: as they are, and as names are written.
  const phrasesOf = (words) =>
    words.length < 2 ? [] : [" ", "_", "-"].map((between) => words.join(between));

  const phraseScoreOf = (phrases, entry) => {
    const heading = entry.heading.toLowerCase();
    const names = entry.defines.map((name) => name.toLowerCase());
    let score = 0;
    if (phrases.some((phrase) => heading.includes(phrase))) score += 40;
    if (phrases.some((phrase) => names.includes(phrase))) {
      score += entry.heading === entry.page ? 100 : 60;
    }
    if (phrases.some((phrase) => entry.lower.includes(phrase))) score += 15;
    return score;
  };

  const find = (entries, query) => {
    const words = wordsOf(query);
    if (words.length === 0) return [];
    const phrases = phrasesOf(words);
    const found = [];
    for (const entry of entries) {
      entry.lower = entry.lower || entry.text.toLowerCase();
      let total = 0;
      for (const word of words) {
        const score = scoreOf(word, entry);
        if (score === 0) {
          total = 0;
          break;
        }
        total += score;
      }
      if (total > 0) found.push({ entry, total: total + phraseScoreOf(phrases, entry) });
    }
    // Equal scores stay in the order of the site.
    found.sort((one, other) => other.total - one.total);
    return found.slice(0, RESULTS_MAX).map((each) => each.entry);
  };

  // The text around the first word that occurs in it, as pieces: [text, isHit].
  const snippetOf = (entry, query) => {
    const lower = entry.text.toLowerCase();
    const words = wordsOf(query);
    const places = (terms) => terms.map((term) => lower.indexOf(term)).filter((at) => at >= 0);
    const together = places(phrasesOf(words));
    const hits = together.length ? together : places(words);
    const start = Math.max(0, (hits.length ? Math.min(...hits) : 0) - SNIPPET_BEFORE);
    const end = Math.min(entry.text.length, start + SNIPPET_LENGTH);
    const pieces = [[start > 0 ? "…" : "", false]];
    let at = start;
    while (at < end) {
      const next = words
        .map((word) => ({ word, at: lower.indexOf(word, at) }))
        .filter((each) => each.at >= 0 && each.at < end)
        .sort((one, other) => one.at - other.at || other.word.length - one.word.length)[0];
      if (next === undefined) break;
      pieces.push([entry.text.slice(at, next.at), false]);
      at = next.at + next.word.length;
      pieces.push([entry.text.slice(next.at, at), true]);
    }
    pieces.push([entry.text.slice(Math.min(at, end), end), false]);
    pieces.push([end < entry.text.length ? "…" : "", false]);
    return pieces.filter(([text]) => text.length > 0);
  };

  return { find, snippetOf };
})();

if (typeof document !== "undefined") {
  const root = document.currentScript.dataset.root;
  const input = document.getElementById("search");
  const results = document.getElementById("results");
  let loading = null;

  const load = () => {
    loading = loading || new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `${root}/search-index.js`;
      script.onload = () => resolve(window.goqueueSearchIndex);
      script.onerror = reject;
      document.head.append(script);
    });
    return loading;
  };

  const element = (tag, text) => {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
  };

  const show = (entries, query) => {
    results.replaceChildren();
    for (const entry of entries) {
      const link = document.createElement("a");
      link.href = `${root}/${entry.url}`;
      const title = entry.page === entry.heading ? entry.page : `${entry.page}: ${entry.heading}`;
      link.append(element("b", title));
      const snippet = document.createElement("span");
      for (const [text, isHit] of goqueueSearch.snippetOf(entry, query)) {
        snippet.append(isHit ? element("mark", text) : text);
      }
      link.append(snippet);
      const item = document.createElement("li");
      item.append(link);
      results.append(item);
    }
    if (entries.length === 0) {
      const item = document.createElement("li");
      item.append(element("p", "No page has all of these words."));
      results.append(item);
    }
    results.hidden = false;
  };

  const update = async () => {
    const query = input.value.trim();
    if (query === "") {
      results.hidden = true;
      return;
    }
    const entries = await load();
    // What was typed meanwhile has its own update.
    if (input.value.trim() === query) show(goqueueSearch.find(entries, query), query);
  };

  const choose = (step) => {
    const links = [...results.querySelectorAll("a")];
    const at = links.findIndex((link) => link.classList.contains("chosen"));
    if (links.length === 0) return;
    if (at >= 0) links[at].classList.remove("chosen");
    const chosen = links[(at + step + links.length) % links.length] || links[0];
    chosen.classList.add("chosen");
    chosen.scrollIntoView({ block: "nearest" });
  };

  input.addEventListener("focus", load);
  input.addEventListener("input", update);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      const link = results.querySelector("a.chosen") || results.querySelector("a");
      if (link !== null && !results.hidden) link.click();
    } else if (event.key === "Escape") {
      results.hidden = true;
      input.blur();
    }
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(input|textarea|select)$/i.test(event.target.tagName);
    if (event.key === "/" && !isTyping) {
      event.preventDefault();
      input.focus();
    }
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest(".search")) results.hidden = true;
  });
} else {
  module.exports = goqueueSearch;
}

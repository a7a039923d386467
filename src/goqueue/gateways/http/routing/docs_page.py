"""The page at /docs: the OpenAPI document for people, with a form to try each route.

Whole in itself: no outside resource is named, and the policy that goes with it lets none be loaded.
Everything from the document is put on the page as text, never as markup.
"""

import base64
import hashlib

from goqueue.gateways.http.server.application import HttpResponse
from goqueue.model import HTML_MEDIA

__all__ = ["docs_page"]

# A year.
_HSTS = (b"Strict-Transport-Security", b"max-age=31536000")

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #1f7a55;
  --get: #1a6fa8; --post: #1f7a55; --patch: #9a5b00; --delete: #b93426; --head: #6a5fa6; }
@media (prefers-color-scheme: dark) { :root { --accent: #5fc79a; --get: #6cb4ea; --post: #5fc79a;
  --patch: #e0a54d; --delete: #f08a7d; --head: #b3a8ec; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1rem; }
h1 { margin: 0.5rem 0; } h2 { margin: 2rem 0 0.5rem; border-bottom: 1px solid var(--line); }
nav { display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; } nav a { color: var(--accent); }
details { border: 1px solid var(--line); border-radius: 6px; margin: 0.4rem 0; }
summary { cursor: pointer; padding: 0.4rem 0.7rem; display: flex; gap: 0.2rem 0.7rem;
  flex-wrap: wrap; align-items: baseline; }
summary code { overflow-wrap: anywhere; }
details > div { padding: 0 0.9rem 0.9rem; }
code, pre, input, textarea { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: 0.6rem; overflow: auto; max-height: 24rem; }
.method { font-weight: 700; min-width: 4.3rem; }
.get { color: var(--get); } .post { color: var(--post); } .patch { color: var(--patch); }
.delete { color: var(--delete); } .head { color: var(--head); }
#search { margin: 1rem 0 0; padding: 0.5rem; font: inherit; }
.soft { opacity: 0.75; }
table { border-collapse: collapse; width: 100%; overflow-wrap: anywhere; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.6rem 0.25rem 0;
  border-bottom: 1px solid var(--line); }
input, textarea { width: 100%; box-sizing: border-box; padding: 0.25rem; }
textarea { min-height: 7rem; }
button { margin: 0.6rem 0; padding: 0.3rem 1.2rem; }
"""

_SCRIPT = r"""
"use strict";
const at = (tag, attributes, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  for (const child of children) node.append(child);
  return node;
};
// Words between backticks are code; everything stays text.
const prose = (text) => {
  const box = at("span");
  text.split("`").forEach((part, index) => box.append(index % 2 ? at("code", {}, part) : part));
  return box;
};
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const curl = (method, path, operation) => {
  const words = ["curl", "-sS"];
  const upper = method.toUpperCase();
  const good = Object.entries(operation.responses)[0][1];
  if (Object.keys(good.content || {}).includes("text/event-stream")) words.push("-N");
  if (upper !== "GET") words.push("-X", upper);
  const filled = path.replace(/{(\w+)}/g, (_, name) => examples[name] || name);
  words.push(quoted(location.origin + filled));
  const json = operation.requestBody && operation.requestBody.content["application/json"];
  if (json) words.push("\\\n  -d", quoted(JSON.stringify(json.example || {})));
  return words.join(" ");
};
const examples = {
  topic: "orders", group: "billing", partition: "0", offset: "41", producer_id: "1",
  transaction_id: "7-3", id: "0af7651916cd43dd8448eb211c80319c",
  reply_to: "00000000000000000000000000000000",
};
const pretty = (value) => JSON.stringify(value, null, 2);
const resolve = (api, schema, depth = 0) => {
  if (Array.isArray(schema)) return schema.map((each) => resolve(api, each, depth));
  if (schema === null || typeof schema !== "object" || depth > 8) return schema;
  if (schema.$ref) {
    return resolve(api, api.components.schemas[schema.$ref.split("/").pop()], depth + 1);
  }
  return Object.fromEntries(
    Object.entries(schema).map(([name, value]) => [name, resolve(api, value, depth + 1)]));
};
const content = (api, part) => {
  const box = at("div");
  for (const [media, body] of Object.entries(part.content || {})) {
    box.append(at("div", { class: "soft" }, media));
    if (body.example) box.append(at("pre", {}, pretty(body.example)));
    const fold = at("details", {}, at("summary", {}, "Schema"));
    fold.addEventListener("toggle", () => {
      if (fold.childElementCount === 1) {
        fold.append(at("pre", {}, pretty(resolve(api, body.schema))));
      }
    });
    box.append(fold);
  }
  return box;
};
const bounds = (schema) => [
  schema.type, schema.enum && schema.enum.join(" | "),
  schema.minimum !== undefined && `from ${schema.minimum}`,
  schema.maximum !== undefined && `to ${schema.maximum}`,
  schema.default !== undefined && `default ${schema.default}`,
].filter(Boolean).join(", ");
const send = async (method, path, operation, inputs, text, output) => {
  let url = path;
  const query = new URLSearchParams();
  for (const parameter of operation.parameters || []) {
    const value = inputs.get(parameter.name).value;
    if (parameter.in === "path") {
      url = url.replace(`{${parameter.name}}`, encodeURIComponent(value));
    } else if (value !== "") query.set(parameter.name, value);
  }
  if ([...query].length) url += `?${query}`;
  const options = { method: method.toUpperCase() };
  if (text && text.value) options.body = text.value;
  output.textContent = "…";
  try {
    const response = await fetch(url, options);
    const body = await response.text();
    let shown = body;
    try { shown = pretty(JSON.parse(body)); } catch { shown = body.slice(0, 20000); }
    output.textContent = `${response.status} ${response.statusText}\n${shown}`;
  } catch (error) { output.textContent = String(error); }
};
const trial = (method, path, operation) => {
  const inputs = new Map();
  const box = at("div", {}, at("h4", {}, "Try it"));
  const rows = at("table");
  for (const parameter of operation.parameters || []) {
    const field = at("input", { "aria-label": parameter.name });
    inputs.set(parameter.name, field);
    rows.append(at("tr", {}, at("td", {}, at("code", {}, parameter.name)),
      at("td", {}, field)));
  }
  box.append(rows);
  let text = null;
  const json = operation.requestBody && operation.requestBody.content["application/json"];
  if (json) {
    text = at("textarea", { "aria-label": "body", spellcheck: "false" });
    text.value = json.example ? pretty(json.example) : "{}";
    box.append(text);
  }
  const output = at("pre", { "aria-live": "polite" });
  const button = at("button", { type: "button" }, "Send");
  button.addEventListener("click", () => send(method, path, operation, inputs, text, output));
  box.append(button, output);
  return box;
};
const route = (api, method, path, operation) => {
  const fold = at("details", { id: operation.operationId },
    at("summary", {}, at("span", { class: `method ${method}` }, method.toUpperCase()),
      at("code", {}, path), at("span", { class: "soft" }, prose(operation.summary))));
  fold.dataset.words = [method, path, operation.summary, operation.description,
    ...(operation.parameters || []).map((each) => each.name)].join(" ").toLowerCase();
  fold.addEventListener("toggle", () => {
    if (fold.childElementCount > 1) return;
    const box = at("div", {}, at("p", {}, prose(operation.description)),
      at("pre", {}, curl(method, path, operation)));
    if (operation.parameters) {
      const rows = at("table");
      for (const each of operation.parameters) {
        rows.append(at("tr", {}, at("td", {}, at("code", {}, each.name)),
          at("td", {}, each.in + (each.required ? ", required" : "")),
          at("td", {}, bounds(each.schema)), at("td", {}, prose(each.description))));
      }
      box.append(at("h4", {}, "Parameters"), rows);
    }
    if (operation.requestBody) {
      box.append(at("h4", {}, "Request body"), content(api, operation.requestBody));
    }
    box.append(at("h4", {}, "Responses"));
    for (const [status, response] of Object.entries(operation.responses)) {
      const inner = at("details", status < "400" ? { open: "" } : {},
        at("summary", {}, at("b", {}, status),
          at("span", { class: "soft" }, prose(response.description))));
      inner.append(at("div", {}, content(api, response)));
      box.append(inner);
    }
    box.append(trial(method, path, operation));
    fold.append(box);
  });
  return fold;
};
const show = (api) => {
  const main = document.getElementById("api");
  main.replaceChildren(at("p", {}, prose(api.info.description)),
    at("p", { class: "soft" }, `Version ${api.info.version} · OpenAPI ${api.openapi}`));
  const links = at("nav");
  const field = at("input", { id: "search", type: "search", "aria-label": "search",
    placeholder: "Search routes, parameters and descriptions" });
  main.append(links, field);
  for (const { name } of api.tags) {
    const id = name.replaceAll(" ", "-");
    links.append(at("a", { href: `#${id}` }, name));
    const section = at("section", {}, at("h2", { id }, name));
    main.append(section);
    for (const [path, operations] of Object.entries(api.paths)) {
      for (const [method, operation] of Object.entries(operations)) {
        if (operation.tags[0] === name) section.append(route(api, method, path, operation));
      }
    }
  }
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(" ").filter(Boolean);
    for (const section of main.querySelectorAll("section")) {
      const folds = [...section.querySelectorAll("details[id]")];
      for (const each of folds) {
        each.hidden = !words.every((word) => each.dataset.words.includes(word));
      }
      section.hidden = folds.every((each) => each.hidden);
    }
  });
};
fetch("/openapi.json").then((response) => response.json()).then(show).catch((error) => {
  document.getElementById("api").textContent = `The document could not be read: ${error}`;
});
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>GoQueue API</title>
<style>{style}</style>
</head>
<body>
<h1>GoQueue API</h1>
<main id="api"><noscript>This page needs JavaScript; the routes are in
<a href="/openapi.json">/openapi.json</a>.</noscript></main>
<script>{script}</script>
</body>
</html>
"""


def docs_page(*, has_hsts: bool = False) -> HttpResponse:
    """The page with the policy that lets it run its own script and nothing else.

    With `has_hsts` browsers are told to use https for this host from now on.
    """
    policy = (
        "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        f"frame-ancestors 'none'; style-src '{_digest(_STYLE)}'; script-src '{_digest(_SCRIPT)}'"
    )
    page = _PAGE.replace("{style}", _STYLE).replace("{script}", _SCRIPT)
    headers = (
        (b"Content-Security-Policy", policy.encode()),
        (b"X-Content-Type-Options", b"nosniff"),
        (b"Referrer-Policy", b"no-referrer"),
        *((_HSTS,) if has_hsts else ()),
    )
    return HttpResponse(200, page.encode(), HTML_MEDIA.encode(), headers)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

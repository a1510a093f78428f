// The list of sessions. Every text of others is set as text, never as markup.

import { ago, count, element, follow } from "./live.mjs";

const list = document.getElementById("sessions");
const empty = document.getElementById("empty");
const connection = document.getElementById("connection");
const news = document.getElementById("news");
const cards = new Map();
let clockOffset = 0;
let settled = false;

function link(text, href, label) {
  const made = element("a", "", text);
  made.href = href;
  made.setAttribute("aria-label", label);
  return made;
}

function card(slug) {
  const parts = {
    item: element("a", "item"),
    title: element("bdi", "title"),
    state: element("span", "state"),
    age: element("span", "age"),
    more: element("span", "more"),
    asks: element("p", "asks"),
    lines: element("pre", "lines"),
    links: element("p", "links"),
  };
  parts.lines.setAttribute("aria-label", "last lines");
  const heading = element("h2", "", parts.item, " ", parts.title);
  const facts = element("p", "facts", parts.state, " ", parts.age, parts.more);
  const root = element("li", "session", heading, facts, parts.asks, parts.lines, parts.links);
  root.dataset.slug = slug;
  return { root, parts, session: null };
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function fill(card, session) {
  const { parts } = card;
  const before = card.session;
  card.session = session;
  card.root.dataset.state = session.state;
  setText(parts.item, session.item);
  parts.item.href = session.live ? `/s/${session.slug}/` : `/v/${session.slug}/`;
  setText(parts.title, session.title ?? "");
  setText(parts.state, session.state);
  const more = [session.harness];
  if (session.waiting) more.push(`${count(session.waiting, "event")} waiting`);
  if (session.terminals) more.push(count(session.terminals, "terminal"));
  if (session.typing) more.push(`${count(session.typing, "browser")} typing`);
  if (session.watching) more.push(`${count(session.watching, "browser")} watching`);
  setText(parts.more, more.map((text) => ` · ${text}`).join(""));
  parts.asks.hidden = !session.asks;
  setText(parts.asks, session.asks ? `asks: ${session.asks}` : "");
  parts.lines.hidden = session.lines.length === 0;
  setText(parts.lines, session.lines.join("\n"));
  if (!before || before.live !== session.live || before.url !== session.url) {
    const links = [];
    if (session.live) {
      links.push(link("Type", `/s/${session.slug}/`, `Type to ${session.item}`));
      links.push(link("Watch", `/v/${session.slug}/`, `Watch ${session.item}`));
    }
    links.push(link("History", `/v/${session.slug}/history`, `History of ${session.item}`));
    if (session.url) {
      const issue = link("Issue", session.url, `${session.item} on its site`);
      issue.rel = "noopener noreferrer";
      issue.target = "_blank";
      links.push(issue);
    }
    parts.links.replaceChildren(...links.flatMap((made) => [made, " "]));
  }
  if (settled && !before) tell(`${session.item} has a session`);
  if (settled && before && session.asks && session.asks !== before.asks) {
    tell(`${session.item} asks: ${session.asks}`);
  }
}

function tell(text) {
  news.textContent = text;
}

function order() {
  const wanted = [...cards.values()].sort(
    (a, b) =>
      b.session.live - a.session.live ||
      b.session.last - a.session.last ||
      a.session.slug.localeCompare(b.session.slug),
  );
  const focused = document.activeElement;
  wanted.forEach(({ root }, at) => {
    if (list.children[at] !== root) list.insertBefore(root, list.children[at] ?? null);
  });
  // An element that is moved loses the focus.
  if (focused !== document.activeElement && list.contains(focused)) focused.focus();
  empty.hidden = wanted.length > 0;
}

function tick() {
  const now = Date.now() + clockOffset;
  for (const { parts, session } of cards.values()) {
    setText(parts.age, session.since === null ? "" : `for ${ago(session.since, now)}`);
  }
}

follow(
  "/events",
  {
    hello: ({ now }) => {
      clockOffset = now - Date.now();
    },
    changes: ({ all, changed, gone }) => {
      const told = new Set(changed.map(({ slug }) => slug));
      const left = all ? [...cards.keys()].filter((slug) => !told.has(slug)) : gone;
      for (const slug of left) {
        cards.get(slug)?.root.remove();
        cards.delete(slug);
      }
      for (const session of changed) {
        if (!cards.has(session.slug)) cards.set(session.slug, card(session.slug));
        fill(cards.get(session.slug), session);
      }
      order();
      tick();
      settled = true;
      list.dataset.settled = "";
    },
  },
  (reachable) => {
    connection.textContent = reachable ? "live" : "reconnecting…";
    connection.dataset.reachable = reachable;
    // The new server tells everything anew, and nothing is news.
    if (!reachable) settled = false;
  },
);
setInterval(tick, 1000);

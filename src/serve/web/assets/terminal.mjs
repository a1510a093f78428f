// One agent's terminal, to type into or to watch.

import { Unicode11Addon } from "./vendor/addon-unicode11.mjs";
import { Terminal } from "./vendor/xterm.mjs";
import { FONT, fit, showCursor } from "./fit.mjs";
import { keyRow, pasteText, typeWithoutKeys } from "./keys.mjs";
import { ago, count, follow } from "./live.mjs";
import { Socket } from "./socket.mjs";
import { styleByScript } from "./styles.mjs";

const frame = document.getElementById("frame");
const { slug, place } = frame.dataset;
const types = place === "s";
const connection = document.getElementById("connection");
const modeNotice = document.getElementById("mode");
const behindNotice = document.getElementById("behind");
const keysRow = document.getElementById("keys");
const endedNotice = document.getElementById("ended");
const bright = matchMedia("(prefers-color-scheme: light)");

let isNew = true;
let failure = "";

styleByScript();
const terminal = new Terminal({
  allowProposedApi: true,
  cols: 80,
  rows: 24,
  cursorBlink: false,
  disableStdin: !types,
  fontFamily: FONT,
  fontSize: 13,
  lineHeight: 1.1,
  minimumContrastRatio: 4.5,
  scrollback: 0,
  screenReaderMode: true,
  theme: theme(),
});
terminal.loadAddon(new Unicode11Addon());
terminal.unicode.activeVersion = "11";
terminal.open(document.getElementById("terminal"));
terminal.textarea.setAttribute("aria-label", frame.getAttribute("aria-label"));
// The wheel scrolls the page; sent on, it would be arrow keys for the agent.
terminal.attachCustomWheelEventHandler(() => false);
bright.addEventListener("change", () => {
  terminal.options.theme = theme();
});

const socket = new Socket(`/${place}/${slug}/ws`, {
  opened() {
    if (!failure) say("connecting…");
  },
  closed() {
    if (!socket.isOver && !failure) say("reconnecting…");
    modeNotice.hidden = true;
    behindNotice.hidden = true;
  },
  output(bytes, drawn) {
    terminal.write(bytes, () => {
      drawn();
      // What is to be seen at first is where the agent waits for words.
      if (isNew) showCursor(terminal, frame);
      isNew = false;
    });
  },
  notice(notice) {
    if (notice.kind === "size") {
      failure = "";
      say("connected");
      resize(notice.columns, notice.lines);
    }
    if (notice.kind === "failed") {
      failure = notice.why;
      say(`cannot be shown now: ${failure}`);
    }
    if (notice.kind === "mode") {
      modeNotice.hidden = !notice.inMode;
      behindNotice.hidden = !notice.behind;
    }
    if (notice.kind === "ended") end(notice.how);
  },
});

function say(text) {
  connection.textContent = text;
  connection.dataset.reachable = text === "connected";
}

function resize(columns, lines) {
  isNew = true;
  // The screen is told anew, as a whole, after this.
  terminal.reset();
  terminal.resize(columns, lines);
  fit(terminal, frame);
}

function end(how) {
  failure = "";
  say("ended");
  document.getElementById("how").textContent = how;
  endedNotice.hidden = false;
  modeNotice.hidden = true;
  behindNotice.hidden = true;
  if (keysRow) keysRow.hidden = true;
  facts();
}

if (types) {
  const withControl = keyRow(keysRow, terminal);
  terminal.onData((text) => socket.keys(withControl(text)));
  terminal.onBinary((text) => socket.bytes(Uint8Array.from(text, (c) => c.charCodeAt(0))));
  pasteText(terminal);
  typeWithoutKeys(terminal);
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.key !== "F6" || !event.shiftKey) return true;
    if (event.type === "keydown") document.querySelector("#keys [tabindex='0']").focus();
    event.preventDefault();
    return false;
  });
  terminal.onCursorMove(() => {
    if (document.activeElement === terminal.textarea) showCursor(terminal, frame);
  });
  document.getElementById("leave").addEventListener("click", async () => {
    await fetch(`/s/${slug}/leave-mode`, { method: "POST" });
    terminal.focus();
  });
} else {
  terminal.textarea.tabIndex = -1;
  frame.tabIndex = 0;
}

let session = null;
let clockOffset = 0;

function facts() {
  // How it ended is said; what it was before that is no more.
  document.getElementById("state").hidden = socket.isOver;
  document.getElementById("facts").hidden = socket.isOver;
  if (!session) return;
  const since = session.since === null ? "" : `for ${ago(session.since, Date.now() + clockOffset)}`;
  document.getElementById("state").textContent = session.state;
  document.getElementById("state").dataset.state = session.state;
  const waiting = session.waiting ? ` · ${count(session.waiting, "event")} waiting` : "";
  document.getElementById("facts").textContent = since + waiting;
}
setInterval(facts, 1000);

follow(
  `/events?session=${encodeURIComponent(slug)}`,
  {
    hello: ({ now }) => {
      clockOffset = now - Date.now();
    },
    changes: ({ changed, gone }) => {
      if (gone.length > 0) location.reload();
      for (const now of changed) {
        const revived = socket.isOver && now.live && !session?.live;
        session = now;
        if (revived) {
          endedNotice.hidden = true;
          if (keysRow) keysRow.hidden = false;
          socket.open();
        }
      }
      facts();
    },
  },
  (reachable) => reachable && socket.hurry(),
);
socket.open();

new ResizeObserver(() => fit(terminal, frame)).observe(frame);
document.fonts?.ready.then(() => fit(terminal, frame));
if (types) terminal.focus();

function theme() {
  const dark = {
    background: "#14161b",
    foreground: "#d8dce5",
    cursor: "#d8dce5",
    cursorAccent: "#14161b",
    selectionBackground: "#3d5a80",
    black: "#3b404d",
    red: "#e06c75",
    green: "#8cc26b",
    yellow: "#e5c07b",
    blue: "#6cb0f0",
    magenta: "#cf8ae0",
    cyan: "#5cc4cc",
    white: "#c8ccd4",
    brightBlack: "#7d8696",
    brightRed: "#f48d95",
    brightGreen: "#a8db88",
    brightYellow: "#f5d798",
    brightBlue: "#93c8ff",
    brightMagenta: "#e2a9f0",
    brightCyan: "#83dfe6",
    brightWhite: "#ffffff",
  };
  const light = {
    ...dark,
    background: "#ffffff",
    foreground: "#22262e",
    cursor: "#22262e",
    cursorAccent: "#ffffff",
    selectionBackground: "#b7d4f5",
  };
  return bright.matches ? light : dark;
}

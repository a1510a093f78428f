// What a session has shown, from the latest lines on; and where it ended, the way
// back to its terminal when it lives again.

import { follow } from "./live.mjs";

const main = document.querySelector("main");
const { slug, live } = main.dataset;
const connection = document.getElementById("connection");
const state = document.getElementById("state");
const isTerminal = !location.pathname.endsWith("/history");

scrollTo(0, document.documentElement.scrollHeight);

follow(
  `/events?session=${encodeURIComponent(slug)}`,
  {
    changes: ({ changed }) => {
      for (const session of changed) {
        state.textContent = session.state;
        state.dataset.state = session.state;
        if (session.live && live === undefined && isTerminal) location.reload();
      }
    },
  },
  (reachable) => {
    connection.textContent = reachable ? "" : "reconnecting…";
  },
);

// Server-sent events that come back by themselves. A page that nobody sees has
// no stream: a browser keeps only six connections to one server.

const AGAIN_AFTER = 1000;

/**
 * Follows the events of `url`. Each handler gets the data of the events of its
 * name; `told` is told whether the server can be reached.
 */
export function follow(url, handlers, told) {
  let source = null;
  let timer = 0;

  function close() {
    clearTimeout(timer);
    source?.close();
    source = null;
  }

  function open() {
    close();
    if (document.hidden) return;
    source = new EventSource(url);
    source.addEventListener("open", () => told(true));
    source.addEventListener("error", () => {
      told(false);
      // An answer that is no stream ends it; the server may be another one soon.
      if (source?.readyState === EventSource.CLOSED) {
        close();
        timer = setTimeout(open, AGAIN_AFTER);
      }
    });
    source.addEventListener("hello", (event) => {
      // The pages of another version of the server are other pages.
      const { version } = JSON.parse(event.data);
      if (version !== document.documentElement.dataset.version) location.reload();
    });
    for (const [name, handler] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
    }
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && open());
  open();
}

/** How long ago a time is, in its largest unit. */
export function ago(then, now) {
  const seconds = Math.max(0, Math.floor((now - then) / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

/** `1 event`, `2 events`. */
export function count(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** An element with this class and these children; text is only ever text. */
export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

// The terminal's WebSocket: one byte says what a frame is, text frames are
// notices in JSON. It comes back by itself until it is told that all is over.

const KEYS = 0x30;
const OUTPUT = 0x30;
const HOLD = 0x32;
const GO_ON = 0x33;

/** The most bytes of one frame of keys; a paste is sent in parts. */
const FRAME = 8192;
/** How many bytes of output may wait to be drawn, and when more may come. */
const FULL = 1 << 19;
const EMPTY = 1 << 16;

const FIRST_PAUSE = 300;
const LONGEST_PAUSE = 5000;

export class Socket {
  #path;
  #on;
  #socket = null;
  #pause = FIRST_PAUSE;
  #timer = 0;
  #over = false;
  #undrawn = 0;
  #held = false;
  #encoder = new TextEncoder();

  /**
   * `on` has the functions `opened()`, `closed()`, `notice(object)` and
   * `output(bytes, drawn)`, which calls `drawn` when the bytes are on the screen.
   */
  constructor(path, on) {
    this.#path = path;
    this.#on = on;
  }

  open() {
    clearTimeout(this.#timer);
    this.#over = false;
    this.#undrawn = 0;
    this.#held = false;
    const url = new URL(this.#path, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url, "tty");
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    socket.addEventListener("open", () => this.#on.opened());
    socket.addEventListener("message", ({ data }) => {
      if (this.#socket !== socket) return;
      if (typeof data === "string") this.#notice(data);
      else this.#frame(new Uint8Array(data));
    });
    socket.addEventListener("close", () => {
      if (this.#socket !== socket) return;
      this.#socket = null;
      this.#on.closed();
      if (this.#over) return;
      this.#timer = setTimeout(() => this.open(), this.#pause);
      this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
    });
  }

  /** Tries at once, where it would try later. */
  hurry() {
    if (this.#socket || this.#over) return;
    this.#pause = FIRST_PAUSE;
    this.open();
  }

  /** Stays closed from now on. */
  end() {
    this.#over = true;
    clearTimeout(this.#timer);
    this.#socket?.close();
  }

  get isOver() {
    return this.#over;
  }

  /** Sends keys; they are lost where nobody listens. */
  keys(text) {
    this.bytes(this.#encoder.encode(text));
  }

  bytes(bytes) {
    for (let at = 0; at < bytes.length; at += FRAME) {
      const part = bytes.subarray(at, at + FRAME);
      const frame = new Uint8Array(part.length + 1);
      frame[0] = KEYS;
      frame.set(part, 1);
      this.#send(frame);
    }
  }

  #send(frame) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(frame);
  }

  #notice(text) {
    const notice = JSON.parse(text);
    if (notice.kind === "ended") this.end();
    // Its first word; one that cannot be shown is asked for less and less often.
    if (notice.kind === "size") this.#pause = FIRST_PAUSE;
    this.#on.notice(notice);
  }

  #frame(frame) {
    if (frame[0] !== OUTPUT) return;
    const bytes = frame.subarray(1);
    this.#undrawn += bytes.length;
    if (this.#undrawn > FULL && !this.#held) this.#hold(true);
    this.#on.output(bytes, () => {
      this.#undrawn -= bytes.length;
      if (this.#undrawn < EMPTY && this.#held) this.#hold(false);
    });
  }

  #hold(held) {
    this.#held = held;
    this.#send(new Uint8Array([held ? HOLD : GO_ON]));
  }
}

// The agent's terminal has its own size, and nobody who looks changes it. So the
// letters are made to fit the page; where they would be too small to be read,
// the page scrolls.

const LARGEST = 18;
/** On a page as narrow as a phone only the width of lines counts. */
const NARROW = 700;
/** The smallest letters that can be read, by how close a screen is. */
const smallest = (width) => (width < NARROW ? 9 : 11);

export const FONT = 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace';

/** Gives the terminal the letters that fit into the frame. */
export function fit(terminal, frame) {
  const { clientWidth, clientHeight } = frame;
  const screen = frame.querySelector(".xterm-screen");
  if (!screen || clientWidth === 0) return;
  const now = terminal.options.fontSize;
  // One pixel of letter height as columns and lines of this very font.
  const wide = screen.offsetWidth / terminal.cols / now;
  const high = screen.offsetHeight / terminal.rows / now;
  if (!wide || !high) return;
  let size = clientWidth / terminal.cols / wide;
  if (clientWidth >= NARROW) size = Math.min(size, clientHeight / terminal.rows / high);
  const least = smallest(clientWidth);
  size = Math.max(least, Math.min(LARGEST, Math.floor(size * 2) / 2));
  if (size !== now) terminal.options.fontSize = size;
  // Cells are whole pixels somewhere: what is a little too wide gets smaller.
  while (terminal.options.fontSize > least && screen.offsetWidth > clientWidth) {
    terminal.options.fontSize -= 0.5;
  }
}

/** Scrolls the frame to where the cursor stands. */
export function showCursor(terminal, frame) {
  const screen = frame.querySelector(".xterm-screen");
  if (!screen) return;
  const { cursorX, cursorY } = terminal.buffer.active;
  const width = screen.offsetWidth / terminal.cols;
  const height = screen.offsetHeight / terminal.rows;
  const into = (start, size, at, length, total) => {
    if (at >= start && at + length <= start + size) return start;
    return Math.max(0, Math.min(total - size, at - size / 2));
  };
  const left = into(frame.scrollLeft, frame.clientWidth, cursorX * width, width, frame.scrollWidth);
  const top = into(frame.scrollTop, frame.clientHeight, cursorY * height, height, frame.scrollHeight);
  if (left !== frame.scrollLeft || top !== frame.scrollTop) frame.scrollTo(left, top);
}

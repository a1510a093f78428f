// The row of keys that a phone's keyboard has not.

const ARROWS = { up: "A", down: "B", right: "C", left: "D" };
const OTHERS = { escape: "\x1b", tab: "\t", backtab: "\x1b[Z", enter: "\r" };

/** Makes the row's buttons press keys of the terminal. */
export function keyRow(row, terminal) {
  const control = row.querySelector("[data-key=control]");
  const buttons = [...row.querySelectorAll("button")];

  // The terminal keeps the focus, and a phone its keyboard.
  row.addEventListener("pointerdown", (event) => event.preventDefault());
  row.addEventListener("click", ({ target, detail }) => {
    const button = target.closest("button");
    if (!button) return;
    const { key } = button.dataset;
    if (key === "control") {
      press(control.getAttribute("aria-pressed") !== "true");
    } else if (key in ARROWS) {
      const mode = terminal.modes.applicationCursorKeysMode ? "O" : "[";
      terminal.input(`\x1b${mode}${ARROWS[key]}`);
    } else {
      terminal.input(OTHERS[key]);
    }
    // Who came by the keyboard stays in the row.
    if (detail > 0 || key === "control") terminal.focus();
  });

  // One stop of the Tab key; arrows go along the row.
  const focusOn = (button) => {
    for (const other of buttons) other.tabIndex = other === button ? 0 : -1;
  };
  focusOn(buttons[0]);
  row.addEventListener("focusin", ({ target }) => focusOn(target));
  row.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = buttons.indexOf(document.activeElement);
    buttons[(at + step + buttons.length) % buttons.length].focus();
  });

  function press(on) {
    control.setAttribute("aria-pressed", on);
  }

  /** What was typed, with the control key where that was pressed. */
  return (text) => {
    if (control.getAttribute("aria-pressed") !== "true" || text.length !== 1) return text;
    press(false);
    const code = text.toUpperCase().charCodeAt(0);
    if (text === " ") return "\0";
    return code >= 0x40 && code <= 0x5f ? String.fromCharCode(code & 0x1f) : text;
  };
}

// Control characters but the tab and the ends of lines.
const CONTROLS = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

/**
 * Pastes text alone. What was copied from a foreign page may hold the end of a
 * paste, after which the rest would be keys.
 */
export function pasteText(terminal) {
  const paste = (event) => {
    event.preventDefault();
    event.stopImmediatePropagation();
    terminal.paste(event.clipboardData.getData("text/plain").replace(CONTROLS, ""));
  };
  terminal.element.addEventListener("paste", paste, true);
}

/**
 * Types what comes without a key, as from a picker of emoji or from dictation,
 * which the terminal leaves out while it serves screen readers.
 */
export function typeWithoutKeys(terminal) {
  let isKeyDown = false;
  const { element } = terminal;
  element.addEventListener("keydown", () => (isKeyDown = true), true);
  element.addEventListener("keyup", () => (isKeyDown = false), true);
  const type = (event) => {
    const isText = event.inputType === "insertText" && !event.isComposing;
    if (isText && !isKeyDown && event.data) terminal.input(event.data);
  };
  element.addEventListener("input", type, true);
}

// The terminal styles itself with `style` elements and attributes, and the page's
// policy forbids both, because markup of others could have them too. What a
// script does to sheets and elements that it made is allowed, so it is done so.

/** Call it before a terminal is made. */
export function styleByScript() {
  const create = document.createElement.bind(document);
  document.createElement = (name, options) =>
    name === "style" ? sheetInDisguise(create("meta")) : create(name, options);

  const { setAttribute } = Element.prototype;
  Element.prototype.setAttribute = function (name, value) {
    if (name === "style") this.style.cssText = value;
    else setAttribute.call(this, name, value);
  };
}

/** An element that is as good as a `style` element to who writes text into it. */
function sheetInDisguise(element) {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  Object.defineProperty(element, "textContent", {
    get: () => [...sheet.cssRules].map((rule) => rule.cssText).join("\n"),
    set: (text) => sheet.replaceSync(text),
  });
  const remove = element.remove.bind(element);
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    remove();
  };
  return element;
}

// Runs in a page, once it is drawn, and writes what it finds into the page around it.
const wide = document.documentElement.clientWidth;
const found = {width: wide, scroll: document.documentElement.scrollWidth, broken: [], pale: []};
const shown = element => !element.closest(".hidden, .skip, thead, .sheet *, .rawlines *") &&
  element.getClientRects().length;  // what has a bar of its own to scroll by is as wide as it must be
const all = [...document.body.querySelectorAll("*")].filter(shown);
const named = e => `${e.tagName}.${e.getAttribute("class")}: ${e.textContent.trim().slice(0, 40)}`;

found.outside = all.filter(e => {
  const place = e.getBoundingClientRect();
  return place.right > wide + 1 || place.left < -1;
}).map(named);
found.cut = all.filter(e =>
  getComputedStyle(e).overflow !== "visible" && e.tagName !== "svg" && e.scrollWidth > e.clientWidth + 1).map(named);

const numbers = colour => colour.match(/[\d.]+/g).map(Number);
function luminance(colour) {  // as the guidelines for accessible pages (WCAG 2) define it
  const [r, g, b] = numbers(colour).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
}
function ground(element) {
  for (let e = element; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if ((numbers(colour)[3] ?? 1) > 0) return colour;
  }
  return "rgb(255, 255, 255)";
}

const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
while (texts.nextNode()) {
  const node = texts.currentNode, parent = node.parentElement;
  if (!node.data.trim() || parent.closest("script, .long, svg") || !shown(parent)) continue;
  for (const word of node.data.matchAll(/[\p{L}\p{N}]+/gu)) {
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const lines = new Set([...range.getClientRects()].map(r => Math.round(r.top)));
    if (lines.size > 1) found.broken.push(`${word[0]} in ${named(parent)}`);
  }
  const [a, b] = [luminance(getComputedStyle(parent).color), luminance(ground(parent))];
  if ((Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5) found.pale.push(named(parent));
}
found.ground = ground(document.body);
found.headings = document.querySelectorAll("h2").length;
const result = parent.document.createElement("pre");
result.id = "measured";
result.textContent = JSON.stringify(found);
parent.document.body.append(result);

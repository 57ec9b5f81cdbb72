/** The script of the report's timeline: the one thing on the page that moves. */
import { Markup } from "./html.ts";

/** The place of a timeline's picture in its SVG, and its range. */
export interface Zoomable {
  /** The left end of the picture, and its width, in the units of the SVG. */
  readonly left: number;
  readonly width: number;
  /** The width of the picture in its units: events, or microseconds. */
  readonly columns: number;
  /** The fewest of them that are shown. */
  readonly minSpan: number;
  /** JavaScript: a function from a column to the label of the axis there. */
  readonly labelOf: string;
}

/**
 * The wheel zooms about the pointer, dragging across the picture shows what was marked, a double click
 * shows all again. In `svg.timeline`, `.plot` is stretched, labels of the axis (`.time`) are written anew,
 * and what carries a column (`data-column`) is moved; `rect.mark` shows what is marked, `.reset` is a
 * button that shows all.
 */
export function zoomScript({ labelOf, ...sizes }: Zoomable): Markup {
  return new Markup(`<script type="module">
const { left, width, columns, minSpan } = ${JSON.stringify(sizes)};
const labelOf = ${labelOf};
${code}
</script>`);
}

const code = `const svg = document.querySelector("svg.timeline");
const [plot, mark, reset] = [".plot", ".mark", ".reset"].map((name) => document.querySelector(name));
// As the page has them: columns are rounded, and would give other digits.
const allTimes = [...svg.querySelectorAll(".time")].map((label) => label.textContent);
let from = 0, until = columns, start = null;
const place = (column) => left + width * (column - from) / (until - from);
const columnAt = (event) => {
  const { x } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return from + Math.min(Math.max((x - left) / width, 0), 1) * (until - from);
};
function show(begin, end) {
  const span = Math.min(Math.max(end - begin, Math.min(minSpan, columns)), columns);
  from = Math.min(Math.max(begin, 0), columns - span);
  until = from + span;
  const scale = columns / span;
  plot.setAttribute("transform", "translate(" + (place(0) - left * scale) + " 0) scale(" + scale + " 1)");
  svg.querySelectorAll(".time").forEach((label, k) => {
    const time = labelOf(from + span * Number(label.dataset.share));
    label.textContent = span === columns ? allTimes[k] : time;
  });
  for (const part of svg.querySelectorAll("[data-column]")) {
    const column = Number(part.dataset.column);
    part.style.display = column < from || column > until ? "none" : "";
    part.setAttribute("transform", "translate(" + place(column) + " 0)");
  }
  reset.hidden = span === columns;
}
function drawMark(event) {
  const [a, b] = [start, columnAt(event)].sort((a, b) => a - b);
  mark.setAttribute("x", place(a));
  mark.setAttribute("width", place(b) - place(a));
  return [a, b];
}
svg.addEventListener("wheel", (event) => {
  event.preventDefault();
  const at = columnAt(event), factor = Math.exp(event.deltaY / 400);
  show(at - (at - from) * factor, at + (until - at) * factor);
}, { passive: false });
svg.addEventListener("pointerdown", (event) => {
  start = columnAt(event);
  svg.setPointerCapture(event.pointerId);
});
svg.addEventListener("pointermove", (event) => start !== null && drawMark(event));
svg.addEventListener("pointerup", (event) => {
  if (start === null) return;
  const [a, b] = drawMark(event);
  start = null;
  mark.setAttribute("width", 0);
  if (place(b) - place(a) > 4) show(a, b);
});
svg.addEventListener("pointercancel", () => {
  start = null;
  mark.setAttribute("width", 0);
});
const showAll = () => show(0, columns);
svg.addEventListener("dblclick", showAll);
reset.addEventListener("click", showAll);`;

const WIDTH = 760;
const HEIGHT = 440;
const PLOT = { left: 74, right: WIDTH - 74, top: 76, bottom: HEIGHT - 58 };
/** A letter of the legend is this wide at most. */
const LETTER = 7.2;
/** The share that the running mean keeps a step: it follows the last twenty or so. */
const INERTIA = 0.95;

/** Follows the reader's light or dark scheme. */
const style = `<style>
text { font: 13px Helvetica, Arial, sans-serif; fill: #374151 }
.page { fill: #ffffff } .title { font-size: 17px; fill: #111827 }
polyline { fill: none; stroke-linejoin: round } .axis { stroke: #6b7280 } .grid { stroke: #e5e7eb }
.step { stroke: #93c5fd } .mean { stroke: #1d4ed8; stroke-width: 2.5 }
.unseen { stroke: #c2410c; stroke-width: 2; stroke-dasharray: 6 3 }
.accuracy { stroke: #15803d; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #d1d5db } .page { fill: #0d1117 } .title { fill: #f9fafb } .axis { stroke: #9ca3af }
  .grid { stroke: #2d333b } .step { stroke: #1e40af } .mean { stroke: #60a5fa }
  .unseen { stroke: #fb923c } .accuracy { stroke: #4ade80 }
}
</style>`;

type Point = readonly [x: number, y: number];

/** Scores of a model for unseen samples after an epoch. */
export interface Unseen {
  readonly loss: number;
  /** The share that it gets right. */
  readonly accuracy: number;
}

/**
 * Draws the loss over the steps as an SVG: every step pale, their running mean dark, that of unseen
 * samples dashed, on a logarithmic scale at the left; the share of those that is right on a scale at the
 * right; the epochs below.
 *
 * @param losses The loss of every step.
 * @param stepsPerEpoch How many of them make an epoch.
 * @param title What was trained.
 * @param unseen What the model did with unseen samples after each epoch, if known.
 */
export function drawLossCurve(
  losses: number[],
  stepsPerEpoch: number,
  title: string,
  unseen: readonly Unseen[] = [],
): string {
  const mean = runningMean(losses), unseenLosses = unseen.map(({ loss }) => loss);
  const low = roundDown(least([...mean, ...unseenLosses]));
  const high = roundUp(Math.max(-least([...losses, ...unseenLosses].map((loss) => -loss)), low));
  const steps = Math.max(losses.length, 2);
  const x = (step: number) => scale(step, 1, steps, PLOT.left, PLOT.right);
  const y = (loss: number) =>
    scale(
      Math.log(Math.min(Math.max(loss, low), high)),
      Math.log(low),
      Math.log(high),
      PLOT.bottom,
      PLOT.top,
    );
  const points = (values: number[], apart = 1) =>
    thinned(
      values.map((loss, i): Point => [x((i + 1) * apart), y(loss)]).filter(([, y]) => !isNaN(y)),
    );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" ` +
    `height="${HEIGHT}">`,
    style,
    `<rect class="page" width="${WIDTH}" height="${HEIGHT}"/>`,
    text(PLOT.left, 30, `Training loss: ${title}`, 'class="title"'),
    ...lossMarks(low, high).flatMap((loss) => [
      line([[PLOT.left, y(loss)], [PLOT.right, y(loss)]], "grid"),
      text(PLOT.left - 10, y(loss) + 4, String(loss), 'text-anchor="end"'),
    ]),
    ...epochMarks(losses.length / stepsPerEpoch).flatMap((epoch) => [
      line([[x(epoch * stepsPerEpoch), PLOT.bottom], [x(epoch * stepsPerEpoch), PLOT.bottom + 5]]),
      text(x(epoch * stepsPerEpoch), PLOT.bottom + 20, String(epoch), 'text-anchor="middle"'),
    ]),
    text((PLOT.left + PLOT.right) / 2, HEIGHT - 14, "epoch", 'text-anchor="middle"'),
    ...upright(22, "cross-entropy"),
    line(points(losses), "step"),
    line(points(mean), "mean"),
    line(points(unseenLosses, stepsPerEpoch), "unseen"),
    ...accuracyMarks(unseen.map(({ accuracy }) => accuracy), (epoch) => x(epoch * stepsPerEpoch)),
    line([[PLOT.left, PLOT.bottom], [PLOT.right, PLOT.bottom]]),
    ...legend(unseen.length > 0),
    "</svg>",
    "",
  ].join("\n");
}

/** The legend of the lines, below the title. */
function legend(hasUnseen: boolean): string[] {
  const names: [kind: string, name: string][] = [
    ["step", "each step"],
    ["mean", "running mean"],
    ...hasUnseen
      ? [["unseen", "unseen samples"], ["accuracy", "of these right (%)"]] as [string, string][]
      : [],
  ];
  let left = PLOT.left;
  return names.flatMap(([kind, name]) => {
    const at = left;
    left += 30 + LETTER * name.length + 18;
    return [line([[at, 51], [at + 24, 51]], kind), text(at + 30, 56, name)];
  });
}

/** A text beside the plot, to be read from below. */
function upright(x: number, content: string): string[] {
  return [
    `<g transform="translate(${x} ${(PLOT.top + PLOT.bottom) / 2}) rotate(-90)">`,
    text(0, 0, content, 'text-anchor="middle"'),
    "</g>",
  ];
}

/** The accuracies as a line, in percent, with a scale of its own at the right. */
function accuracyMarks(accuracies: readonly number[], x: (epoch: number) => number): string[] {
  if (accuracies.length === 0) return [];
  const percents = accuracies.map((share) => 100 * share);
  const step = [1, 2, 5, 10, 20].find((step) => 100 - 4 * step <= Math.min(...percents)) ?? 25;
  const ticks = Array.from({ length: 5 }, (_, k) => 100 - k * step);
  const y = (percent: number) => scale(percent, ticks.at(-1)!, 100, PLOT.bottom, PLOT.top);
  return [
    line(percents.map((percent, k): Point => [x(k + 1), y(percent)]), "accuracy"),
    ...ticks.map((tick) => text(PLOT.right + 10, y(tick) + 4, String(tick))),
    ...upright(WIDTH - 16, "right (%)"),
  ];
}

/** Weights that fall with age; divided by their sum, so that the first steps count in full. */
function runningMean(losses: number[]): number[] {
  let sum = 0;
  let weight = 0;
  return losses.map((loss) => {
    if (Number.isFinite(loss)) {
      sum = INERTIA * sum + loss;
      weight = INERTIA * weight + 1;
    }
    return sum / weight;
  });
}

function scale(value: number, from: number, to: number, start: number, end: number): number {
  return start + (value - from) / (to - from) * (end - start);
}

/** The least finite number, or 1 where there is none. */
function least(values: readonly number[]): number {
  const found = values.filter(Number.isFinite).reduce((a, b) => Math.min(a, b), Infinity);
  return found === Infinity ? 1 : found;
}

/** 1, 2 and 5 times every power of ten that a loss may have. */
const marks = Array.from({ length: 16 }, (_, i) => i - 9).flatMap((power) =>
  [1, 2, 5].map((digit) => Number(`${digit}e${power}`))
);

function roundDown(loss: number): number {
  return marks.findLast((mark) => mark < loss) ?? marks[0]!;
}

function roundUp(loss: number): number {
  return marks.find((mark) => mark > loss) ?? marks.at(-1)!;
}

function lossMarks(low: number, high: number): number[] {
  const between = marks.filter((mark) => mark >= low && mark <= high);
  return between.length <= 9
    ? between
    : between.filter((mark) => /^(1|0\.0*1)0*$|e/.test(`${mark}`));
}

/** At most ten whole epochs, at equal distances. */
function epochMarks(epochs: number): number[] {
  const step = Math.max(roundUp(epochs / 10 - 1e-9), 1);
  const count = Math.floor(epochs / step + 1e-9);
  return Array.from({ length: count }, (_, i) => (i + 1) * step);
}

/** Draws what would lie closer than half a pixel as its extremes. */
function thinned(points: Point[]): Point[] {
  const bucket = Math.ceil(points.length / (WIDTH * 2));
  if (bucket < 2) return points;
  return Array.from({ length: Math.ceil(points.length / bucket) }, (_, i) => {
    const near = points.slice(i * bucket, (i + 1) * bucket).sort(([, a], [, b]) => a - b);
    return [near[0]!, near.at(-1)!];
  }).flat();
}

function line(points: readonly Point[], kind = "axis"): string {
  const list = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
  return `<polyline class="${kind}" points="${list}"/>`;
}

function text(x: number, y: number, content: string, attributes = ""): string {
  const safe = content.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${attributes}>${safe}</text>`;
}

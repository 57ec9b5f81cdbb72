/** The texts of Winograd's F(2x2, 3x3): image, products, results. `winograd.ts` says what it is. */
import { neededBy, variesWith } from "../../../kernel/analysis.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import { existingElements } from "../../../kernel/forms/convolution_loops.ts";
import { extent } from "../../../kernel/kernel.ts";
import type { WorkSize } from "../../codegen/generated.ts";
import { VectorBody } from "../../codegen/vectors/vector_body.ts";
import { canVectorize, LANES } from "../../codegen/vectors/vector_types.ts";
import { decomposeInto, emitEpilogue, step, without } from "../parts/tile_text.ts";
import {
  SIDE,
  TAPS,
  weightBlock,
  type WinogradLoops,
  type WinogradShare,
} from "./winograd_weights.ts";

/** Lanes of a row of taps of all channels: planes are a line of a cache apart, else they meet in one set. */
function plane(count: number, { lanes, images }: WinogradShare): number {
  return count * lanes * images + LANES;
}

/** Writes the kernel of a share. */
export function writeShare(
  emitter: Emitter,
  loops: WinogradLoops,
  share: WinogradShare,
): WorkSize {
  const { kernel } = emitter, { sizes } = kernel;
  const { line, column, output, input, image, others } = loops;
  const { rows, width, images, channels } = share;
  const down = Math.ceil(sizes[line.position]! / (2 * rows));
  const across = Math.ceil(sizes[column.position]! / (2 * width));
  const count = image === null ? 1 : sizes[image]!, stacks = Math.ceil(count / images);
  const parts = Math.ceil(sizes[output]! / channels);
  keep(emitter, "seen", SIDE * 2 * half(share));
  keep(emitter, "v", TAPS * plane(sizes[input]!, share));
  keep(emitter, "m", TAPS * plane(channels, share));
  keep(emitter, "results", 2 * resultHalf(share));
  emitter.line(`const Index first = (Index)get_global_id(0) / ${across} * ${2 * rows};`);
  emitter.line(`const Index left = (Index)get_global_id(0) % ${across} * ${2 * width};`);
  emitter.line(`const Index lane = (Index)get_global_id(1) * ${channels};`);
  emitter.line(`const Index around = (Index)get_global_id(2) / ${stacks};`);
  decomposeInto(emitter, others, "around", "i");
  emitter.line(`const Index images = (Index)get_global_id(2) % ${stacks} * ${images};`);
  emitter.line(`const int stack = min(${images}, ${count} - (int)images);`);
  // Lanes behind the last tile hold numbers that are quick to compute with.
  emitter.line(`for (int k = 0; k < ${SIDE * 2 * half(share)}; ++k) seen[k] = 0;`);
  emitter.open("for (int part = 0; part < stack; ++part) {");
  if (image !== null) emitter.line(`const Index i${image} = images + part;`);
  transformImage(emitter, loops, share);
  emitter.close();
  multiply(emitter, loops, share, Math.ceil(sizes[output]! / LANES) * LANES);
  emitter.open("for (int part = 0; part < stack; ++part) {");
  if (image !== null) emitter.line(`const Index i${image} = images + part;`);
  storeResults(emitter, loops, share);
  emitter.close();
  return { global: [down * across, parts, stacks * extent(kernel, others)], local: [1, 1, 1] };
}

/** Declares floats in local memory that begin with a line of a cache. */
function keep(emitter: Emitter, name: string, count: number): void {
  emitter.line(`local float16 kept_${name}[${Math.ceil(count / LANES)}];`);
  emitter.line(`local float* ${name} = (local float*)kept_${name};`);
}

/** Floats of every second row of an image's window, whose last vector may reach beyond it. */
function half({ width, lanes }: WinogradShare): number {
  return lanes + width + LANES;
}

/** Transforms the windows of all tiles of an image, channel by channel, into `v`. */
function transformImage(emitter: Emitter, loops: WinogradLoops, share: WinogradShare): void {
  const { rows, width, lanes, images } = share, terms = emitter.kernel.sizes[loops.input]!;
  const { inside, at, apart } = declareWindow(emitter, loops);
  emitter.open(`for (Index c = 0; c < ${terms}; ++c) {`);
  emitter.open(`for (int r = 0; r < ${2 * rows + 2}; ++r) {`);
  emitter.line(`local float* to = seen + (r & 1) * ${half(share)} + (r >> 1) * ${width};`);
  emitter.line(`global const float* from = ${at("r")};`);
  emitter.line(`const bool isInside = ${inside("r")};`);
  // The next channel's rows are on another page, which no processor expects.
  for (let t = 0; t < 2 * width; t += LANES) emitter.line(`prefetch_16(from + ${apart} + ${t});`);
  for (let t = 0; t < width; t += LANES) transformRow(emitter, loops, share, t);
  emitter.close();
  emitter.open(`for (int f = 0; f < ${lanes}; f += ${LANES}) {`);
  emitter.line(`local float* to = v + c * ${lanes * images} + part * ${lanes} + f;`);
  for (let j = 0; j < SIDE; j++) {
    const row = `seen + ${j * 2 * half(share)} + f`;
    emitter.open("{");
    [[0, 0], [half(share), 0], [0, width], [half(share), width]].forEach(([plane, next], r) =>
      emitter.line(`const float16 d${r} = vload16(0, ${row} + ${plane! + next!});`)
    );
    emitDifferences(emitter, (r) => `to + ${(r * SIDE + j) * plane(terms, share)}`);
    emitter.close();
  }
  emitter.close();
  emitter.close();
}

/** Declares where the window of a work-item begins; gives texts of its rows, of the channel `c`. */
function declareWindow(
  emitter: Emitter,
  { line, column, input }: WinogradLoops,
): {
  readonly apart: string;
  readonly at: (row: string) => string;
  readonly inside: (row: string) => string;
} {
  const { b } = emitter.kernel.contraction!;
  const start = without(emitter, b.index, [
    ...[line, column].flatMap(({ position, tap }) => [position, tap]),
    input,
  ]);
  const down = step(emitter, b.index, line.position), apart = step(emitter, b.index, input);
  emitter.line(`global const float* window = a${b.input} + ${start} + first * ${down} + left;`);
  const [top, bottom] = existingElements(emitter.kernel, line);
  return {
    apart,
    at: (row) => `window + c * ${apart} + (${row}) * ${down}`,
    inside: (row) => `first + ${row} >= ${top} && first + ${row} < ${bottom}`,
  };
}

/** Sixteen elements of the row `from`, those outside of the image 0. */
function loadRow(emitter: Emitter, { column }: WinogradLoops, at: string): string {
  const [start, stop] = existingElements(emitter.kernel, column), moved = `left - ${at}`;
  return `load_between_float(from + ${at}, ${start} - ${moved}, isInside ? ${stop} - ${moved} : 0)`;
}

/** Transforms 16 tiles along a row of the image, from the tile `t` on. */
function transformRow(
  emitter: Emitter,
  loops: WinogradLoops,
  share: WinogradShare,
  t: number,
): void {
  emitter.open("{");
  [0, LANES, 2, LANES + 2].forEach((at, k) =>
    emitter.line(`const float16 x${k} = ${loadRow(emitter, loops, String(2 * t + at))};`)
  );
  emitter.line("const float16 d0 = (float16)(x0.even, x1.even), d1 = (float16)(x0.odd, x1.odd);");
  emitter.line("const float16 d2 = (float16)(x2.even, x3.even), d3 = (float16)(x2.odd, x3.odd);");
  emitDifferences(emitter, (j) => `to + ${j * 2 * half(share) + t}`);
  emitter.close();
}

/** Stores what the transform of an image makes of four neighbours, `d0` to `d3`. */
function emitDifferences(emitter: Emitter, to: (k: number) => string): void {
  ["d0 - d2", "d1 + d2", "d2 - d1", "d1 - d3"].forEach((text, k) =>
    emitter.line(`vstore16(${text}, 0, ${to(k)});`)
  );
}

/** Adds up the products of all taps, tile by tile of registers, into `m`. */
function multiply(
  emitter: Emitter,
  { input }: WinogradLoops,
  share: WinogradShare,
  all: number,
): void {
  const { lanes, images, channels, tile } = share, { kernel } = emitter;
  const terms = kernel.sizes[input]!, row = lanes * images, block = weightBlock(terms, tile);
  const scratch = `o${kernel.outputs.length}`;
  emitter.line(`const int channels = min(${channels}, ${all} - (int)lane);`);
  emitter.line(
    `global const float* u = ${scratch} + (around * ${
      all / tile.channels
    } + lane / ${tile.channels}) * ${TAPS * block};`,
  );
  emitter.open(`for (int tap = 0; tap < ${TAPS}; ++tap) {`);
  emitter.open(`for (int f = 0; f < ${row}; f += ${tile.vectors * LANES}) {`);
  emitter.open(`for (int o = 0; o < channels; o += ${tile.channels}) {`);
  emitter.line(`global const float* x = u + (o * ${TAPS / tile.channels} + tap) * ${block};`);
  emitter.line(`local const float* y = v + tap * ${plane(terms, share)} + f;`);
  const sums = (of: (r: number, k: number) => string): string[] =>
    Array.from(
      { length: tile.channels },
      (_, r) => Array.from({ length: tile.vectors }, (_, k) => of(r, k)),
    ).flat();
  emitter.line(`float16 ${sums((r, k) => `c${r}_${k} = 0`).join(", ")};`);
  emitter.open(`for (int c = 0; c < ${terms}; ++c) {`);
  emitter.line("reload();");
  for (let k = 0; k < tile.vectors; k++) {
    emitter.line(`const float16 y${k} = vload16(${k}, y);`);
  }
  for (let r = 0; r < tile.channels; r++) {
    emitter.line(`const float16 x${r} = (float16)(x[${r}]);`);
    for (let k = 0; k < tile.vectors; k++) {
      emitter.line(`c${r}_${k} = fma(x${r}, y${k}, c${r}_${k});`);
    }
  }
  emitter.line(`x += ${tile.channels}; y += ${row};`);
  emitter.close();
  emitter.line(`local float* to = m + tap * ${plane(channels, share)} + o * ${row} + f;`);
  sums((r, k) => `vstore16(c${r}_${k}, ${k}, to + ${r * row});`).forEach((text) =>
    emitter.line(text)
  );
  for (let open = 0; open < 3; open++) emitter.close();
}

/** Transforms the sums of an image back, and stores them with what is done to each. */
function storeResults(emitter: Emitter, loops: WinogradLoops, share: WinogradShare): void {
  const { kernel } = emitter, { output, line, column } = loops;
  const size = kernel.sizes[output]!, ids = neededBy(kernel, kernel.outputs.map((o) => o.expr));
  const varies = variesWith(kernel, [line.position, column.position]);
  const window = declareWindow(emitter, loops);
  emitter.open(`for (int o = 0; o < min(${share.channels}, ${size} - (int)lane); ++o) {`);
  emitter.line(`const Index i${output} = lane + o;`);
  if (canVectorize(kernel, column.position)) emitter.declare(ids.filter((id) => !varies[id]));
  transformSums(emitter, share);
  emitter.open("if (any(odd != odd)) {");
  sumDirectly(emitter, loops, share, window);
  emitter.close();
  storeLines(emitter, loops, share, ids.filter((id) => varies[id]));
  emitter.close();
}

/** The results of a channel, line by line in `results`; `odd` is NaN where one is no finite number. */
function transformSums(emitter: Emitter, share: WinogradShare): void {
  const { lanes, images, channels } = share, row = lanes * images;
  emitter.line("float16 odd = 0;");
  emitter.open(`for (int f = 0; f < ${lanes}; f += ${LANES}) {`);
  emitter.line(`local const float* from = m + o * ${row} + part * ${lanes} + f;`);
  for (let j = 0; j < SIDE; j++) {
    const [m0, m1, m2, m3] = [0, 1, 2, 3].map((r) =>
      `vload16(0, from + ${(r * SIDE + j) * plane(channels, share)})`
    );
    emitter.line(`const float16 p${j} = ${m1}, q${j} = ${m2};`);
    emitter.line(`const float16 s${j} = ${m0} + p${j} + q${j}, t${j} = p${j} - q${j} - ${m3};`);
  }
  ["s", "t"].forEach((n, r) => {
    emitter.open("{");
    emitter.line(`const float16 a = ${n}0 + ${n}1 + ${n}2, b = ${n}1 - ${n}2 - ${n}3;`);
    emitter.line("odd += (a - a) + (b - b);");
    emitter.line("float16 x, y;");
    emitter.line("x.even = a.lo; x.odd = b.lo; y.even = a.hi; y.odd = b.hi;");
    const to = `results + ${r * resultHalf(share)} + 2 * f`;
    emitter.line(`vstore16(x, 0, ${to}); vstore16(y, 1, ${to});`);
    emitter.close();
  });
  emitter.close();
}

/** Floats of every second line of results, whose last vector may reach beyond it. */
function resultHalf({ lanes }: WinogradShare): number {
  return 2 * lanes + LANES;
}

/** Address of the line `r` of a work-item's results. */
function resultLine(share: WinogradShare): string {
  return `results + (r & 1) * ${resultHalf(share)} + (r >> 1) * ${2 * share.width}`;
}

/**
 * Sums a channel's results as they are defined: of infinities the transforms make NaN, where the sum may be
 * infinite.
 */
function sumDirectly(
  emitter: Emitter,
  loops: WinogradLoops,
  share: WinogradShare,
  { at, inside }: ReturnType<typeof declareWindow>,
): void {
  const { kernel } = emitter, { a } = kernel.contraction!, { line, column, input } = loops;
  openLines(emitter, loops, share);
  emitter.open(`for (int k = 0; k < ${2 * share.width}; k += ${LANES}) {`);
  emitter.line("float16 sum = 0;");
  emitter.open(`for (Index c = 0; c < ${kernel.sizes[input]}; ++c) {`);
  emitter.line(`const Index i${input} = c;`);
  emitter.open(`for (Index i${line.tap} = 0; i${line.tap} < 3; ++i${line.tap}) {`);
  emitter.line(`global const float* from = ${at(`r + i${line.tap}`)};`);
  emitter.line(`const bool isInside = ${inside(`r + i${line.tap}`)};`);
  emitter.open(`for (Index i${column.tap} = 0; i${column.tap} < 3; ++i${column.tap}) {`);
  const weight = `a${a.input}[${emitter.affine(a.index)}]`;
  const seen = loadRow(emitter, loops, `(k + i${column.tap})`);
  emitter.line(`sum = fma((float16)(${weight}), ${seen}, sum);`);
  for (let open = 0; open < 3; open++) emitter.close();
  // Lines overlap in their last vectors, which the next one writes again.
  emitter.line(`vstore16(sum, 0, ${resultLine(share)} + k);`);
  for (let open = 0; open < 2; open++) emitter.close();
}

/** Opens the loop over the lines `r` of a work-item's results that exist. */
function openLines(emitter: Emitter, { line }: WinogradLoops, { rows }: WinogradShare): void {
  const end = emitter.kernel.sizes[line.position]!;
  emitter.open(`for (int r = 0; r < min(${2 * rows}, ${end} - (int)first); ++r) {`);
}

/** Stores a channel's results, line by line. */
function storeLines(
  emitter: Emitter,
  loops: WinogradLoops,
  share: WinogradShare,
  ids: readonly number[],
): void {
  const { kernel } = emitter, { line, column } = loops, along = 2 * share.width;
  const length = kernel.sizes[column.position]!;
  const isWhole = length % along === 0 && along % LANES === 0;
  openLines(emitter, loops, share);
  emitter.line(`const Index i${line.position} = first + r;`);
  emitter.line(`local const float* from = ${resultLine(share)};`);
  emitter.line(`const int end = min(${along}, ${length} - (int)left);`);
  if (canVectorize(kernel, column.position)) {
    const body = new VectorBody(emitter, column.position), count = isWhole ? "" : "end - k";
    emitter.open(`for (int k = 0; k < end; k += ${LANES}) {`);
    emitter.line(`const Index i${column.position} = left + k;`);
    emitter.line("const float16 sums = vload16(0, from + k);");
    body.declareScalars(ids);
    body.declareVectors(ids, { left: count, contracted: "sums" });
    kernel.outputs.forEach((_, o) => body.store(o, { left: count }));
  } else {
    emitter.open("for (int k = 0; k < end; ++k) {");
    emitter.line(`const Index i${column.position} = left + k;`);
    emitter.line("const float acc = from[k];");
    emitEpilogue(emitter);
  }
  emitter.close();
  emitter.close();
}

/** Statements of tile programs as OpenCL C, a line for each, and the arrays in front of them. */
import type { Lines } from "../../codegen/emit.ts";
import type { DType } from "../../graph/dtype.ts";
import type { E } from "../../tile/language/expression.ts";
import {
  type For,
  type Fragment,
  isFragment,
  type Pack,
  type Statement,
  type Store,
  type TileArray,
  type TileKernel,
  type Warpgroup,
} from "../../tile/language/statements.ts";
import type { WorkSize } from "./generated.ts";
import {
  arrayText,
  halfNames,
  neighboursType,
  scalarType,
  textOf,
  typeOf,
} from "./tile_expressions.ts";
import { storeText } from "./types.ts";

/**
 * Steps of a ring of local memory: by inline PTX with addresses of 32 bits, whose copies go on by themselves, or in
 * plain OpenCL C. The name is what helpers begin with.
 */
export type RingText = "MMA" | "RING";

/** Use of results by a kernel. */
export interface Finish {
  /** Coordinates and value are texts, of so many lanes. */
  (at: readonly string[], value: string, width: number): void;
  /** Asks for what a result at these coordinates will need. */
  expect?(at: readonly string[]): void;
}

/**
 * Appends a kernel's statements, and says how it is launched.
 *
 * @param finish Takes the results that it hands out.
 */
export function emitTile(
  emitter: Lines,
  kernel: TileKernel,
  finish: Finish = noResults,
  ring: RingText = "MMA",
): WorkSize {
  for (const array of kernel.arrays) declareArray(emitter, array, kernel.items, ring);
  emitter.line("const Index group = get_group_id(0);");
  if (kernel.items > 1) emitter.line("const int item = get_local_id(0);");
  for (const [type, names] of registersOf(kernel.body)) {
    emitter.line(`${type} ${[...names].join(", ")};`);
  }
  emitBody(emitter, kernel.body, { finish, ring });
  return { global: [kernel.groups * kernel.items], local: [kernel.items] };
}

const noResults: Finish = () => {
  throw new Error("Nothing takes the results of a tile program");
};

/** Texts that are the kernel's own. */
interface Around {
  readonly finish: Finish;
  readonly ring: RingText;
}

function emitBody(emitter: Lines, body: readonly Statement[], around: Around): void {
  for (const s of body) emitStatement(emitter, s, around);
}

function emitStatement(emitter: Lines, s: Statement, around: Around): void {
  const { finish, ring } = around;
  switch (s.s) {
    case "let":
      return emitter.line(letText(s.to, s.value));
    case "set":
      return emitter.line(`${s.to.name} = ${textOf(s.value)};`);
    case "store":
      return emitter.line(storeOf(s));
    case "barrier":
      return emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
    case "shuffle": {
      const { name, kind } = s.to;
      return emitter.line(`WARP_XOR_${scalarType(kind)}(${name}, ${textOf(s.from)}, ${s.mask});`);
    }
    case "result":
      emitter.open("{");
      finish(s.at.map(textOf), textOf(s.value), s.value.width);
      return emitter.close();
    case "transpose": {
      const [from, to] = [[s.from, s.at, s.step], [s.to, s.index, s.pitch]] as const;
      const side = ([{ buffer }, at, step]: typeof from): string =>
        `${buffer} + ${textOf(at)}, ${textOf(step)}`;
      const how = s.to.space === "global" ? "store" : s.from.space === "global" ? "load" : "move";
      const there = s.there ? [s.there.rows, s.there.columns].map(textOf) : [];
      const name = `${how}${s.there ? "_part" : ""}_transposed_16`;
      return emitter.line(`${name}(${[side(from), side(to), ...there].join(", ")});`);
    }
    case "pack":
      return emitter.line(packText(s));
    case "prefetch":
      return emitter.line(`prefetch_16(${s.from.buffer} + ${textOf(s.at)});`);
    case "reload":
      return emitter.line("reload();");
    case "expect":
      return finish.expect?.(s.at.map(textOf));
    case "commit":
      if (ring === "MMA") emitter.line("MMA_COMMIT();");
      return;
    case "wait":
      if (ring === "MMA") emitter.line(`MMA_WAIT(${s.left});`);
      return;
    case "copy":
      return emitter.line(
        `${ring}_COPY${s.bytes}(${byteText(s.index)}, ${s.from.buffer} + ${textOf(s.at)}, ${
          textOf(s.count)
        });`,
      );
    case "put":
      return emitter.line(
        `${ring}_PUT(${byteText(s.index)}, (uint4)(${s.words.map(textOf).join(", ")}));`,
      );
    case "matrices": {
      const load = `${ring}_LOAD${s.to.length}${s.how === "columns" ? "T" : ""}`;
      const registers = s.to.map(({ place, index }) => `${place.buffer}[${textOf(index)}]`);
      return emitter.line(`${load}(${registers.join(", ")}, ${byteText(s.index)});`);
    }
    case "multiply": {
      const operands = [s.sums, s.left, s.right].map(fragmentText).join(", ");
      return emitter.line(`${s.unit.toUpperCase()}(${operands});`);
    }
    case "fence":
      return emitter.line("WG_WRITTEN();");
    case "warpgroup":
      return emitter.line(warpgroupText(s));
    case "round": {
      const [at, rest] = [s.at, s.rest].map((f) => f && `${f.place.buffer}[${textOf(f.index)}]`);
      return emitter.line(rest ? `MMA_SPLIT(${at}, ${rest});` : `MMA_ROUND(${at});`);
    }
    case "if":
      emitter.open(`if (${textOf(s.condition)}) {`);
      emitBody(emitter, s.body, around);
      return emitter.close();
    case "for":
      return emitLoop(emitter, s, around);
  }
}

function packText({ place, index, from, at, count, parts, apart, low, high }: Pack): string {
  const sides = `${place.buffer} + ${textOf(index)}, ${from.buffer} + ${textOf(at)}, ${count}`;
  const range = `${textOf(low)}, ${textOf(high)}`, step = textOf(apart);
  if (step !== "1" || parts > 2) return `pack_apart(${sides}, ${parts}, ${step}, ${range});`;
  return parts === 1 ? `pack_row(${sides}, ${range});` : `pack_halves(${sides}, ${range});`;
}

function letText(to: E, value: E): string {
  const type = typeOf(to);
  // Read past the caches, which keep what is read again.
  return value.op === "neighbours" && value.value === 1
    ? `${type} ${to.name}; STREAM_READ(${to.name}, ${value.place!.buffer} + ${
      textOf(value.args[0]!)
    });`
    : `const ${type} ${to.name} = ${textOf(value)};`;
}

function storeOf({ place, index, value, streams }: Store): string {
  const { space, buffer, element } = place, at = textOf(index), text = textOf(value);
  if ((value.kind === "float" || value.kind === "int16") && value.width > 1) {
    return `vstore${value.width}(${text}, 0, ${arrayText(place)} + ${at});`;
  }
  if (space !== "global") return `${arrayText(place)}[${at}] = ${text};`;
  if (element === "uint32") return `((global uint*)${buffer})[${at}] = ${text};`;
  if (value.width === 1) return storeText(buffer, element as DType, at, text);
  return streams
    ? `STREAM_WRITE(${buffer} + ${at}, ${text});`
    : `*(global ${neighboursType(element as DType, value.width)}*)(${buffer} + ${at}) = ${text};`;
}

function warpgroupText({ dtype, products }: Warpgroup): string {
  const isAdded = isFragment(products[0]!.left), count = products.length > 1 ? products.length : "";
  const operands = products.flatMap(({ sums, left, right }) => [
    fragmentText(sums),
    isFragment(left) ? fragmentText(left) : byteText(left),
    byteText(right),
  ]);
  return `WG_${isAdded ? "ADD" : "SCORES"}${count}_${halfNames[dtype]}(${operands.join(", ")});`;
}

/** The address of a byte of the ring. */
const byteText = (index: E): string => `smem + (uint)${textOf(index)}`;

/** Bytes at whose multiples rings begin: the swizzle of warpgroups' tiles repeats after so many. */
const RING_ALIGNMENT = 1024;

const fragmentText = ({ place, index }: Fragment): string => `(${place.buffer} + ${textOf(index)})`;

function declareArray(
  emitter: Lines,
  { space, name, size, kind }: TileArray,
  items: number,
  ring: RingText,
): void {
  switch (space) {
    case "private":
      return emitter.line(`${scalarType(kind)} ${name}[${size}] __attribute__((aligned(64)));`);
    case "local":
      // Without the alignment, neighbours are read one by one; vectors of a CPU would lie in two lines of its cache.
      return emitter.line(
        `local ${scalarType(kind)} ${name}[${size}] __attribute__((aligned(${
          items === 1 ? 64 : 16
        })));`,
      );
    case "ring":
      emitter.line(`local uchar ${name}[${size}] __attribute__((aligned(${RING_ALIGNMENT})));`);
      return emitter.line(
        ring === "MMA"
          ? `const uint smem = (uint)(size_t)${name};`
          : `local uchar* const smem = ${name};`,
      );
  }
}

function emitLoop(emitter: Lines, { at: { name }, count, body, unroll }: For, around: Around) {
  if (unroll === Infinity) emitter.line("#pragma unroll");
  else if (unroll! > 1) emitter.line(`#pragma unroll ${unroll}`);
  emitter.open(`for (Index ${name} = 0; ${name} < ${textOf(count)}; ++${name}) {`);
  emitBody(emitter, body, around);
  emitter.close();
}

/** The registers of a work-item, by type. */
function registersOf(
  body: readonly Statement[],
  found: Map<string, Set<string>> = new Map(),
): Map<string, Set<string>> {
  for (const s of body) {
    if (s.s === "set" || s.s === "shuffle") {
      const type = typeOf(s.to);
      if (!found.has(type)) found.set(type, new Set());
      found.get(type)!.add(s.to.name);
    }
    if ("body" in s) registersOf(s.body, found);
  }
  return found;
}

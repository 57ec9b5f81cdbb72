/**
 * Operands before they are multiplied: floats as sums of numbers of bfloat16, for units that
 * multiply those (the first part is the float rounded, the next what that left; three parts have all 24 bits of
 * a float, two have 16), and operands in another order.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import { rangeOf } from "../../../kernel/affine.ts";
import type { LoopKernel } from "../../../kernel/kernel.ts";
import type { WorkSize } from "../../codegen/generated.ts";
import { loadText } from "../../codegen/types.ts";
import type { MapSource, OperandMap, Packing } from "./tensor_map.ts";

/** Elements that a work-item stores at once, and work-items of a group. */
const SHARE = 8, GROUP = 256;
/** Channels, and elements of a line at most, that a group turns in local memory. */
const SIDE = 64;

/** An operand that is written before. */
export type Written = OperandMap & { readonly source: Exclude<MapSource, { kind: "buffer" }> };

/** The operands that are written before they are multiplied. */
export function writtenOperands(
  { a, b }: { readonly a: OperandMap; readonly b: OperandMap },
): Written[] {
  return [a, b].filter((operand): operand is Written => operand.source.kind !== "buffer");
}

/** Equal for what is written alike of one input. */
export function contentOf({ sizes }: LoopKernel, { load, parts, source }: Written): string {
  if (source.kind === "parts") {
    return `${load.dtype} ${parts} of ${source.first} to ${rangeOf(load.index, sizes)[1]}`;
  }
  const { base } = source.packing, { channel, lines } = turnOf(source.packing);
  const axes = lines.map(({ size, stride }) => `${size}*${stride}`);
  return `${load.dtype} ${parts} from ${base} ${channel.size}*${channel.stride} ${axes.join(" ")}`;
}

/** The kernel that writes them: some groups for each. */
export function writeOperands(emitter: Emitter, operands: readonly Written[]): WorkSize {
  if (operands.some(({ source }) => source.kind === "packed")) {
    emitter.line(`local float transposed[${SIDE * (SIDE + 1)}];`);
  }
  emitter.line("const int lid = get_local_id(0);");
  let groups = 0;
  for (const operand of operands) {
    const count = groupsOf(operand), from = groups === 0 ? "" : ` - ${emitter.index(groups)}`;
    groups += count;
    emitter.open(`${from ? "else " : ""}if (get_group_id(0) < ${emitter.index(groups)}) {`);
    emitter.line(`const Index group = get_group_id(0)${from};`);
    if (operand.source.kind === "packed") packTile(emitter, operand, operand.source.packing);
    else splitShare(emitter, operand, operand.source.first);
    emitter.close();
  }
  return { global: [groups * GROUP], local: [GROUP] };
}

function groupsOf({ source }: Written): number {
  if (source.kind === "parts") return Math.ceil(source.count / (SHARE * GROUP));
  const { channel, lines, line, length } = turnOf(source.packing);
  return lines.reduce((all, l) => all * (l === line ? Math.ceil(l.size / length) : l.size), 1) *
    Math.ceil(channel.padded / SIDE);
}

/** Splits elements that stay in order. */
function splitShare(emitter: Emitter, operand: Written, first: number): void {
  const { load: { input, index }, source: { count } } = operand;
  const present = rangeOf(index, emitter.kernel.sizes)[1] + 1 - first;
  emitter.line(`const Index at = (group * ${GROUP} + lid) * ${SHARE};`);
  emitter.line(`if (at >= ${emitter.index(count)}) return;`);
  emitter.line(`global const float* from = a${input} + ${emitter.index(first)} + at;`);
  emitter.line(`const Index left = ${emitter.index(present)} - at;`);
  emitter.line(`float v[${SHARE}];`);
  emitter.open(`if (left >= ${SHARE}) {`);
  for (const h of [0, 4]) {
    emitter.line(`vstore4(*(global const float4*)(from + ${h}), 0, v + ${h});`);
  }
  emitter.close();
  emitter.line(`else for (int e = 0; e < ${SHARE}; ++e) v[e] = e < left ? from[e] : 0;`);
  storeParts(emitter, operand);
}

/** Stores the elements in `v` from `at` on: each part behind the other. */
function storeParts(emitter: Emitter, { name, load, parts, source: { count } }: Written): void {
  const pack = load.dtype === "float16" ? "MMA_PACK_F16" : "MMA_PACK_BF16";
  emitter.line(`uint w[${SHARE / 2}];`);
  for (let part = 0; part < parts; part++) {
    for (let e = 0; e < SHARE / 2; e++) {
      emitter.line(`${pack}(w[${e}], v[${2 * e}], v[${2 * e + 1}]);`);
      if (part === parts - 1) continue;
      emitter.line(`v[${2 * e}] -= as_float(w[${e}] << 16);`);
      emitter.line(`v[${2 * e + 1}] -= as_float(w[${e}] & 0xffff0000u);`);
    }
    const to = `parts_${name} + ${emitter.index(part * count)} + at`;
    emitter.line(`*(global uint4*)(${to}) = (uint4)(w[0], w[1], w[2], w[3]);`);
  }
}

interface Line {
  readonly size: number;
  readonly stride: number;
  /** Elements from neighbour to neighbour as it is packed. */
  readonly packed: number;
}

interface Turn {
  readonly channel: Packing["channel"];
  readonly lines: readonly Line[];
  /** The line whose neighbours lie side by side, if there is one, and how many of them a group turns. */
  readonly line: Line;
  readonly length: number;
}

/** Lines to transpose: those that are one in memory are one. */
function turnOf({ channel, lines }: Packing): Turn {
  const merged: Line[] = [];
  let packed = channel.padded;
  for (const { size, stride } of lines) {
    const inner = merged.at(-1);
    if (inner && stride === inner.size * inner.stride) {
      merged[merged.length - 1] = { ...inner, size: inner.size * size };
    } else merged.push({ size, stride, packed });
    packed *= size;
  }
  if (merged.length === 0) merged.push({ size: 1, stride: 0, packed });
  const line = merged.find(({ stride }) => Math.abs(stride) === 1) ?? merged[0]!;
  const length = Math.min(SIDE, Math.max(SHARE, 2 ** Math.ceil(Math.log2(line.size))));
  return { channel, lines: merged, line, length };
}

/** Turns a square of channels and of neighbours of a line, through local memory. */
function packTile(emitter: Emitter, operand: Written, packing: Packing): void {
  const { channel, lines, line, length } = turnOf(packing), { input, dtype } = operand.load;
  const pitch = length + 1;
  emitter.line("Index rest = group;");
  const next = (name: string, count: number): void => {
    const size = emitter.index(count);
    emitter.line(`const Index ${name} = rest % ${size}; rest /= ${size};`);
  };
  next("c0", Math.ceil(channel.padded / SIDE));
  next("j0", Math.ceil(line.size / length));
  emitter.line(`Index from = ${emitter.index(packing.base)}, to = 0;`);
  lines.forEach((l, at) => {
    if (l === line) return;
    next(`l${at}`, l.size);
    emitter.line(`from += l${at} * ${emitter.index(l.stride)};`);
    emitter.line(`to += l${at} * ${emitter.index(l.packed)};`);
  });
  const channels = emitter.index(channel.size), size = emitter.index(line.size);
  emitter.line("#pragma unroll 4");
  emitter.open(`for (int e = lid; e < ${SIDE * length}; e += ${GROUP}) {`);
  emitter.line(`const int q = e / ${length}, r = e % ${length};`);
  emitter.line(`const Index c = c0 * ${SIDE} + q, j = j0 * ${length} + r;`);
  const element = loadText(
    `a${input}`,
    dtype,
    `from + c * ${emitter.index(channel.stride)} + j * ${emitter.index(line.stride)}`,
  );
  emitter.line(
    `transposed[q * ${pitch} + r] = c < ${channels} && j < ${size} ? ${element} : 0;`,
  );
  emitter.close();
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  emitter.open(`for (int e = lid; e < ${SIDE * length / SHARE}; e += ${GROUP}) {`);
  emitter.line(`const int q = e % ${SIDE / SHARE} * ${SHARE}, r = e / ${SIDE / SHARE};`);
  emitter.line(`const Index c = c0 * ${SIDE} + q, j = j0 * ${length} + r;`);
  emitter.line(`if (c >= ${emitter.index(channel.padded)} || j >= ${size}) continue;`);
  emitter.line(`const Index at = to + j * ${emitter.index(line.packed)} + c;`);
  emitter.line(`float v[${SHARE}];`);
  emitter.line("#pragma unroll");
  emitter.line(`for (int u = 0; u < ${SHARE}; ++u) v[u] = transposed[(q + u) * ${pitch} + r];`);
  storeParts(emitter, operand);
  emitter.close();
}

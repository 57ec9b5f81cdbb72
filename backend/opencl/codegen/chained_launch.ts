/**
 * OpenCL C for launches that are one: a chain. Each kernel's body is a function; work-groups draw tickets, one after
 * the other, for groups of the first kernel, then of the second, and wait until those kernels are done whose results
 * theirs needs.
 *
 * Who holds a ticket runs already, and waits for earlier tickets only: no group waits for one that has not begun,
 * however few of them run at a time.
 */
import { allArguments, type Argument, type Generated } from "./generated.ts";

/** A kernel of a chain. */
export interface ChainMember {
  readonly generated: Generated;
  /** Kernels that must be done before, by their places in the chain. */
  readonly after: readonly number[];
  /** For each of its buffers, the chain's. */
  readonly buffers: readonly number[];
}

/** Device of a chain. */
export interface ChainDevice {
  /** Barriers of some warps of a group (`bar.sync`), and fences, by PTX. */
  readonly hasPtx: boolean;
  readonly computeUnits: number;
  /** Work-items that a compute unit has at a time. */
  readonly unitItems: number;
}

/** A chain's text, and how it is launched. */
export interface ChainText {
  /** Parameter list and body behind the functions that it calls, as a function of the kernel's name. */
  readonly program: (name: string) => string;
  /** Words of the state that lies before all buffers, zeros between launches. */
  readonly stateWords: number;
  readonly checksIndices: boolean;
  /** Place of each member's first argument that is no buffer: starts, then numbers. */
  readonly firstNumbers: readonly number[];
  /** Place of the first buffer. */
  readonly firstBuffer: number;
  readonly groups: number;
  readonly items: number;
}

/** A kernel's body as a function. */
interface Body {
  readonly text: string;
  readonly localBytes: number;
}

/** A kernel's place in the chain. */
interface Place {
  readonly call: string;
  readonly first: number;
  readonly tickets: number;
  readonly after: readonly number[];
}

const localArrays = /^ *local (\w+) (\w+\[\d+\](?:, \w+\[\d+\])*)(?: __attribute__.*)?;$/gm;
const otherLocals = /^ *local \w+ \w/m;
const barriers = /\bbarrier\([^)]*\)/g;
/** Swizzled rows of matrix units repeat after as many bytes. */
const ALIGNMENT = 128;
/** Groups side by side take no more local memory together: it is that of all kernels of the chain. */
const SHARED_BYTES = 2 ** 14;
/** Barriers of a group, but for the one of all. */
const MAX_PARTS = 15;
/** Words before those that count each member's tickets: tickets that were drawn, groups that have left. */
const HEAD_WORDS = 2;

const scalarBytes: Readonly<Record<string, number>> = {
  ...{ char: 1, uchar: 1, bool: 1, short: 2, ushort: 2, half: 2, int: 4, uint: 4, float: 4 },
  ...{ long: 8, ulong: 8, double: 8 },
};

function typeBytes(type: string): number {
  const [, scalar, lanes] = /^([a-z]+)(\d*)$/.exec(type) ?? [];
  return (scalarBytes[scalar!] ?? NaN) * (lanes === "3" ? 4 : Number(lanes || 1));
}

/** Work-items of a group. */
export const itemsOf = ({ local }: Generated): number => local.reduce((a, b) => a * b, 1);

function groupsOf({ global, local }: Generated): number[] {
  return global.map((items, d) => items / local[d]!);
}

/** True where a kernel may be one of a chain with so many work-items a group. */
export function canChain(generated: Generated, items: number, hasPtx: boolean): boolean {
  const { body, isWide, attributes } = generated, own = itemsOf(generated);
  if (isWide || attributes !== "" || own > items || /get_global_(offset|linear)/.test(body)) {
    return false;
  }
  if (otherLocals.test(body.replaceAll(localArrays, ""))) return false;
  if (!Number.isFinite(bodyOf(generated, items).localBytes)) return false;
  return own === items || !body.includes("barrier(") || hasPtx && own % 32 === 0;
}

/** Groups of a kernel that run side by side in one of the chain. */
function partsOf(generated: Generated, items: number, localBytes: number): number {
  const within = Math.max(1, Math.floor(SHARED_BYTES / Math.max(localBytes, 1)));
  return Math.min(MAX_PARTS, within, Math.floor(items / itemsOf(generated)));
}

/** A kernel's body with its place among groups and items as parameters, and its local arrays in one. */
function bodyOf(generated: Generated, items: number): Body {
  const { args, body, local } = generated, own = itemsOf(generated);
  let localBytes = 0;
  const declared: string[] = [];
  const rest = body.replaceAll(localArrays, (_, type: string, names: string) => {
    for (const array of names.split(", ")) {
      const [, name, size] = /^(\w+)\[(\d+)\]$/.exec(array)!;
      declared.push(`  local ${type}* const ${name} = (local ${type}*)(pool + ${localBytes});`);
      localBytes += Math.ceil(typeBytes(type) * Number(size) / ALIGNMENT) * ALIGNMENT;
    }
    return "";
  });
  const group = (d: string): string => `group_${d}`, groups = (d: string): string => `groups_${d}`;
  const size = (d: string): number => local[Number(d)] ?? 1;
  const sized = (d: string): string => `((size_t)${group(d)} * ${size(d)} + item_${d})`;
  const placed = rest
    .replaceAll(/\bget_global_id\((\d)\)/g, (_, d) => sized(d))
    .replaceAll(/\bget_group_id\((\d)\)/g, (_, d) => `((size_t)${group(d)})`)
    .replaceAll(/\bget_local_id\((\d)\)/g, (_, d) => `((size_t)item_${d})`)
    .replaceAll(/\bget_local_size\((\d)\)/g, (_, d) => `((size_t)${size(d)})`)
    .replaceAll(/\bget_num_groups\((\d)\)/g, (_, d) => `((size_t)${groups(d)})`)
    .replaceAll(/\bget_global_size\((\d)\)/g, (_, d) => `((size_t)${groups(d)} * ${size(d)})`);
  const text = own === items ? placed : placed.replaceAll(
    barriers,
    `asm volatile("bar.sync %0, ${own};" :: "r"(part) : "memory")`,
  );
  const parameters = [...allArguments(args), ...placeParameters];
  const list = parameters.map(({ type, name }) => `${type} ${name}`).join(", ");
  return { text: `(${list}) {\n${declared.join("\n")}\n${text}`, localBytes };
}

const dimensions = ["0", "1", "2"];
const placeParameters: readonly Argument[] = [
  ...["group", "groups", "item"].flatMap((of) =>
    dimensions.map((d) => ({ type: "const int", name: `${of}_${d}` }))
  ),
  { type: "local uchar*", name: "pool" },
  { type: "const int", name: "part" },
];

/** The text of a chain; each member can be in it. */
export function chainText(members: readonly ChainMember[], device: ChainDevice): ChainText {
  const items = Math.max(...members.map(({ generated }) => itemsOf(generated)));
  const most = device.computeUnits * Math.max(1, Math.floor(device.unitItems / items));
  const checksIndices = members.some(({ generated }) => generated.checksIndices);
  const buffers = 1 + Math.max(...members.flatMap((each) => each.buffers));
  const firstBuffer = checksIndices ? 2 : 1;
  const functions = new Map<string, string>();
  const numbers: Argument[] = [], firstNumbers: number[] = [], places: Place[] = [];
  let first = 0, localBytes = 0;
  members.forEach((member, m) => {
    const { generated } = member, body = bodyOf(generated, items);
    const name = functions.get(body.text) ?? `link_${functions.size}`;
    functions.set(body.text, name);
    firstNumbers.push(firstBuffer + buffers + numbers.length);
    const own = numbersOf(generated, m);
    numbers.push(...own);
    const shape = shapeOf(generated, items, body.localBytes, most);
    const call = callText(member, own, { ...shape, name, body, items, first });
    places.push({ call, first, tickets: shape.tickets, after: member.after });
    first += shape.tickets;
    localBytes = Math.max(localBytes, body.localBytes * shape.parts);
  });
  const args = [
    { type: "global volatile int*", name: "state" },
    ...checksIndices ? [{ type: "global volatile int*", name: "errors" }] : [],
    ...Array.from({ length: buffers }, (_, k) => ({ type: "global uchar*", name: `b${k}` })),
    ...numbers,
  ];
  const head = device.hasPtx ? "static __attribute__((noinline)) void" : "inline void";
  const bodies = [...functions].map(([text, name]) => `${head} ${name}${text}`);
  const attribute = `__attribute__((reqd_work_group_size(${items}, 1, 1)))`;
  const kernel = kernelText(places, args, { items, localBytes, hasPtx: device.hasPtx });
  return {
    program: (name) => `${bodies.join("\n\n")}\n\nkernel ${attribute} void ${name}${kernel}`,
    stateWords: HEAD_WORDS + members.length,
    checksIndices,
    firstNumbers,
    firstBuffer,
    groups: Math.min(most, Math.max(...places.map(({ tickets }) => tickets))),
    items,
  };
}

/** A member's arguments that are no buffers. */
function numbersOf({ args }: Generated, m: number): Argument[] {
  return [...args.readStarts, ...args.writeStarts, ...args.numbers].map(({ type, name }) => ({
    type,
    name: `${name}_${m}`,
  }));
}

/** Groups of a kernel, those of a ticket, and those that run side by side. */
function shapeOf(generated: Generated, items: number, localBytes: number, most: number) {
  const groups = groupsOf(generated).reduce((a, b) => a * b, 1);
  const parts = partsOf(generated, items, localBytes), turns = Math.ceil(groups / parts);
  const chunk = Math.ceil(turns / most) * parts;
  return { groups, parts, chunk, tickets: Math.ceil(groups / chunk) };
}

interface Call extends ReturnType<typeof shapeOf> {
  readonly name: string;
  readonly body: Body;
  readonly items: number;
  readonly first: number;
}

/** Computes the groups of a ticket. */
function callText(
  { generated, buffers }: ChainMember,
  own: readonly Argument[],
  call: Call,
): string {
  const { args, local } = generated, { name, body, groups, parts, chunk, first, items } = call;
  const mine = itemsOf(generated), counts = groupsOf(generated);
  const pointers = [...args.reads, ...args.writes].map(({ type }, k) => `(${type})b${buffers[k]}`);
  const errors = args.errors.map(({ name }) => name);
  const part = parts > 1 ? `lid / ${mine}` : "0", item = parts > 1 ? `lid % ${mine}` : "lid";
  const [x = 1, y = 1] = local, [gx = 1, gy = 1, gz = 1] = counts;
  const apart = (at: string, a: number, b: number): string[] => [
    b === 1 && a === 1 ? "0" : `${at} % ${a}`,
    b === 1 ? "0" : `${at} / ${a} % ${b}`,
    `${at} / ${a * b}`,
  ];
  const place = counts.length === 1 ? ["g", "0", "0"] : apart("g", gx, gy);
  const within = local.length === 1 ? ["i", "0", "0"] : apart("i", x, y);
  const list = [
    ...pointers,
    ...errors,
    ...own.map((argument) => argument.name),
    ...[...place, gx, gy, gz, ...within],
    parts > 1 ? `pool + part * ${body.localBytes}` : "pool",
    "part + 1",
  ];
  const conditions = [
    ...mine * parts === items ? [] : [`lid < ${mine * parts}`],
    ...parts === 1 ? [] : [`g < end`],
  ];
  const run = `${conditions.length === 0 ? "" : `if (${conditions.join(" && ")}) `}${name}(${
    list.join(", ")
  });`;
  const range = `      const int from = (ticket - ${first}) * ${chunk}, part = ${part}, i = ${item};
      const int end = min(from + ${chunk}, ${groups});`;
  if (chunk === parts) return `${range}\n      const int g = from + part;\n      ${run}`;
  const again = body.localBytes > 0 ? "if (at > from) barrier(CLK_LOCAL_MEM_FENCE);\n" : "";
  return `${range}
      for (int at = from; at < end; at += ${parts}) {
        ${again}        const int g = at + part;
        ${run}
      }`;
}

interface KernelForm {
  readonly items: number;
  readonly localBytes: number;
  readonly hasPtx: boolean;
}

/** The chain itself. */
function kernelText(places: readonly Place[], args: readonly Argument[], form: KernelForm): string {
  const { items, localBytes, hasPtx } = form, total = places.at(-1)!.first + places.at(-1)!.tickets;
  const fence = hasPtx
    ? `asm volatile("fence.acq_rel.gpu;" ::: "memory")`
    : "mem_fence(CLK_GLOBAL_MEM_FENCE)";
  const list = args.map(({ type, name }) => `${type} ${name}`).join(", ");
  return `(${list}) {
  local uchar pool[${Math.max(localBytes, 16)}] __attribute__((aligned(${ALIGNMENT})));
  local int drawn, left;
  const int lid = get_local_id(0);
  if (lid == 0) drawn = atomic_inc(state);
  barrier(CLK_LOCAL_MEM_FENCE);
  int ticket = drawn;
  while (ticket < ${total}) {
    int done;
    ${branches(places, 0, places.length, fence)}
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (lid == 0) {
      ${fence};
      atomic_inc(state + done);
      drawn = atomic_inc(state);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    ticket = drawn;
  }
  // The last to leave has zeros for the next launch. Others may still read what was drawn last.
  if (lid == 0) left = atomic_inc(state + 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (left == (int)get_num_groups(0) - 1) {
    for (int k = lid; k < ${HEAD_WORDS + places.length}; k += ${items}) state[k] = 0;
  }
}`;
}

/** Finds the member of a ticket in few steps. */
function branches(places: readonly Place[], from: number, to: number, fence: string): string {
  if (to - from > 1) {
    const middle = (from + to) >> 1;
    return `if (ticket < ${places[middle]!.first}) { ${
      branches(places, from, middle, fence)
    } } else { ${branches(places, middle, to, fence)} }`;
  }
  const { call, after } = places[from]!;
  const waits = after.map((m) => `while (state[${HEAD_WORDS + m}] < ${places[m]!.tickets}) {}`);
  const wait = waits.length === 0 ? "" : `      if (lid == 0) { ${waits.join(" ")} ${fence}; }
      barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n`;
  return `\n${wait}${call}\n      done = ${HEAD_WORDS + from};\n    `;
}

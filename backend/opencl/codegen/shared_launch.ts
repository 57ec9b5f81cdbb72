/**
 * OpenCL C for kernels that share a launch: they have one text, so one kernel of that text takes the
 * arguments of all of them, and each work-group picks those of the kernel that it works for.
 */
import type { Generated } from "./generated.ts";

/** What a text must not ask for: it would be told of all kernels together. */
const asksForAll = /get_(num_groups|global_size|global_offset|global_linear_id)\(/;

/** True where kernels have one text, which can be shared; planning finds them by structure. */
export function haveOneText([first, ...others]: readonly Generated[]): boolean {
  const { source, global, local, isWide } = first!;
  return !isWide && global.length === 1 && !asksForAll.test(source) &&
    others.every((other) => other.source === source && other.local[0] === local[0]);
}

interface Argument {
  readonly type: string;
  readonly name: string;
}

/** The parameters of a text and what follows them. */
function divide(source: string): { args: Argument[]; rest: string } {
  const end = source.indexOf(") {\n");
  const args = source.slice(1, end).split(", ").map((text): Argument => {
    const at = text.lastIndexOf(" ");
    return { type: text.slice(0, at), name: text.slice(at + 1) };
  });
  return { args, rest: source.slice(end + ") {\n".length) };
}

/** One kernel for several of the same text, whose buffers, inputs before outputs, are given. */
export function generateShared(
  members: readonly { readonly generated: Generated; readonly inputs: number }[],
): Generated {
  const [{ generated: first, inputs }] = members as [typeof members[number]];
  const { args, rest } = divide(first.source);
  const local = first.local[0]!;
  const groups = members.map(({ generated }) => generated.global[0]! / local);
  const starts = groups.map((_, k) => groups.slice(0, k).reduce((a, b) => a + b, 0));
  const buffers = members.map(({ generated }) => generated.buffers);
  return {
    source: batchText(args, rest, members.length, inputs, local),
    buffers: [
      ...buffers.flatMap((own) => own.slice(0, inputs)),
      ...buffers.flatMap((own) => own.slice(inputs)),
    ],
    parameters: [
      ...members.flatMap(({ generated }) => generated.parameters),
      ...starts.slice(1).map((value) => ({ kind: "index", value } as const)),
    ],
    global: [groups.reduce((a, b) => a + b, 0) * local],
    local: first.local,
    checksIndices: first.checksIndices,
    isWide: false,
  };
}

/** The arguments by what the launch sets in turn: inputs, outputs, errors, their starts, numbers. */
function sections(args: readonly Argument[], inputs: number): Argument[][] {
  const isBuffer = ({ name }: Argument): boolean => /^b[ao]\d+$/.test(name);
  const isStart = ({ name }: Argument): boolean => /^s[ao]\d+$/.test(name);
  const buffers = args.filter(isBuffer), begins = args.filter(isStart);
  return [
    buffers.slice(0, inputs),
    buffers.slice(inputs),
    begins.slice(0, inputs),
    begins.slice(inputs),
    args.filter(({ name }) => /^p\d+$/.test(name)),
  ];
}

function batchText(
  args: readonly Argument[],
  rest: string,
  count: number,
  inputs: number,
  local: number,
): string {
  const [reads, writes, readStarts, writeStarts, numbers] = sections(args, inputs) as [
    Argument[],
    Argument[],
    Argument[],
    Argument[],
    Argument[],
  ];
  const members = Array.from({ length: count }, (_, member) => member);
  const listed = (section: readonly Argument[]): string[] =>
    members.flatMap((m) => section.map(({ type, name }) => `${type} ${name}_${m}`));
  const errors = args.filter(({ name }) => name === "errors");
  const parameters = [
    ...listed(reads),
    ...listed(writes),
    ...errors.map(({ type, name }) => `${type} ${name}`),
    ...listed(readStarts),
    ...listed(writeStarts),
    ...listed(numbers),
    ...members.slice(1).map((m) => `const int first_${m}`),
  ];
  const picked = [...reads, ...writes, ...readStarts, ...writeStarts, ...numbers].map(
    ({ type, name }) => `  ${type} ${name} = ${pick(name, count)};\n`,
  );
  return `(${parameters.join(", ")}) {\n  const int batch = (int)get_group_id(0);\n` +
    picked.join("") +
    `  const int batch_group = batch - (${pick("first", count, "0")});\n` +
    `  const int batch_item = batch_group * ${local} + (int)get_local_id(0);\n` +
    rest.replaceAll("get_global_id(0)", "batch_item").replaceAll("get_group_id(0)", "batch_group");
}

/**
 * The argument of the member that a work-group works for. Selected, not branched to: a compiler takes
 * selections out of its loops over work-items (PoCL 3.1 is three times faster so).
 */
function pick(name: string, count: number, first = `${name}_0`): string {
  let text = first;
  for (let m = 1; m < count; m++) text = `batch >= first_${m} ? ${name}_${m} : ${text}`;
  return text;
}

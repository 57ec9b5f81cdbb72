/**
 * OpenCL C for kernels that share a launch: they have one text, so one kernel of that text takes the
 * arguments of all of them, and each work-group picks those of the kernel that it works for.
 */
import {
  allArguments,
  type Argument,
  type ArgumentList,
  type Generated,
  kernelText,
} from "./generated.ts";

/** Queries of the whole launch: in a shared one they would count the work-items of all members. */
const queriesLaunch = /get_(num_groups|global_size|global_offset|global_linear_id)\(/;

/** True where kernels have one text, which can be shared; planning finds them by structure. */
export function haveOneText([first, ...others]: readonly Generated[]): boolean {
  const { source, global, local, isWide } = first!;
  return !isWide && global.length === 1 && !queriesLaunch.test(source) &&
    others.every((other) => other.source === source && other.local[0] === local[0]);
}

/** One kernel for several of the same text. */
export function generateShared(members: readonly Generated[]): Generated {
  const first = members[0]!;
  const { args: { reads }, attributes } = first;
  const local = first.local[0]!;
  const groups = members.map(({ global }) => global[0]! / local);
  const starts = groups.map((_, k) => groups.slice(0, k).reduce((a, b) => a + b, 0));
  const args = sharedArguments(first.args, members.length);
  const body = sharedBody(first, members.length, local);
  return {
    source: kernelText(allArguments(args), body, first.local, attributes),
    args,
    body,
    attributes,
    buffers: [
      ...members.flatMap(({ buffers }) => buffers.slice(0, reads.length)),
      ...members.flatMap(({ buffers }) => buffers.slice(reads.length)),
    ],
    parameters: [
      ...members.flatMap(({ parameters }) => parameters),
      ...starts.slice(1).map((value) => ({ kind: "index", value } as const)),
    ],
    global: [groups.reduce((a, b) => a + b, 0) * local],
    local: first.local,
    checksIndices: first.checksIndices,
    isWide: false,
  };
}

/** The arguments of all members, `p0_1` for `p0` of the second, and the groups that they begin with. */
function sharedArguments(args: ArgumentList, count: number): ArgumentList {
  const members = Array.from({ length: count }, (_, member) => member);
  const ofAll = (list: readonly Argument[]): Argument[] =>
    members.flatMap((m) => list.map(({ type, name }) => ({ type, name: `${name}_${m}` })));
  return {
    reads: ofAll(args.reads),
    writes: ofAll(args.writes),
    errors: args.errors,
    readStarts: ofAll(args.readStarts),
    writeStarts: ofAll(args.writeStarts),
    numbers: [
      ...ofAll(args.numbers),
      ...members.slice(1).map((m) => ({ type: "const int", name: `first_${m}` })),
    ],
  };
}

/** Picks the arguments of the member that a work-group works for, and does what that does. */
function sharedBody({ args, body }: Generated, count: number, local: number): string {
  const picked = allArguments({ ...args, errors: [] }).map(({ type, name }) =>
    `  ${type} ${name} = ${pick(name, count)};\n`
  );
  return `  const int batch = (int)get_group_id(0);\n${picked.join("")}` +
    `  const int batch_group = batch - (${pick("first", count, "0")});\n` +
    `  const int batch_item = batch_group * ${local} + (int)get_local_id(0);\n` +
    body.replaceAll("get_global_id(0)", "batch_item").replaceAll("get_group_id(0)", "batch_group");
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

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
const queriesLaunch = /get_(global_size|global_offset|global_linear_id)\(/;

/** True where kernels have one text, which can be shared; planning finds them by structure. */
export function haveOneText([first, ...others]: readonly Generated[]): boolean {
  const { source, global, local, isWide } = first!;
  return !isWide && global.length === 1 && !queriesLaunch.test(source) &&
    others.every((other) => other.source === source && other.local[0] === local[0]);
}

/** One kernel for several of the same text, on a GPU or a CPU. */
export function generateShared(members: readonly Generated[], isGpu: boolean): Generated {
  const first = members[0]!;
  const { args: { reads }, attributes } = first;
  const local = first.local[0]!;
  const groups = members.map(({ global }) => global[0]! / local);
  const starts = groups.map((_, k) => groups.slice(0, k).reduce((a, b) => a + b, 0));
  const args = sharedArguments(first.args, members.length);
  const body = sharedBody(first, { count: members.length, local, isGpu });
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

/** Kernels of a launch, the work-items of their groups, and the kind of device. */
interface Shared {
  readonly count: number;
  readonly local: number;
  readonly isGpu: boolean;
}

/** Picks the arguments of the member that a work-group works for, and does what that does. */
function sharedBody({ args, body }: Generated, { count, local, isGpu }: Shared): string {
  const all = allArguments({ ...args, errors: [] });
  const picked = isGpu ? branched(all, count) : selected(all, count);
  return `  const int batch = (int)get_group_id(0);\n${picked}` +
    `  const int batch_group = batch - batch_first;\n` +
    `  const int batch_item = batch_group * ${local} + (int)get_local_id(0);\n` +
    body.replaceAll("get_global_id(0)", "batch_item").replaceAll("get_group_id(0)", "batch_group")
      .replaceAll("get_num_groups(0)", "(batch_end - batch_first)");
}

/**
 * Arguments that are selected, not branched to: a compiler takes selections out of its loops over work-items
 * (PoCL 3.1 is three times faster so).
 */
function selected(args: readonly Argument[], count: number): string {
  const pick = (name: string, first = `${name}_0`): string => {
    let text = first;
    for (let m = 1; m < count; m++) text = `batch >= first_${m} ? ${name}_${m} : ${text}`;
    return text;
  };
  let end = "(int)get_num_groups(0)";
  for (let m = count - 1; m > 0; m--) end = `batch < first_${m} ? first_${m} : ${end}`;
  return args.map(({ type, name }) => `  ${type} ${name} = ${pick(name)};\n`).join("") +
    `  const int batch_first = ${pick("first", "0")}, batch_end = ${end};\n`;
}

/**
 * Arguments that are branched to: work-items of a GPU go the same way, in few steps. Selections of 16 kernels'
 * arguments took each work-item longer than its element (an H100: 490 us where memory takes 110).
 */
function branched(args: readonly Argument[], count: number): string {
  const declared = args.map(({ type, name }) => `  ${type.replace(/^const /, "")} ${name};\n`);
  const between = (from: number, to: number): string => {
    if (to - from === 1) {
      const own = args.map(({ name }) => `${name} = ${name}_${from};`).join(" ");
      const [first, end] = [
        from === 0 ? "0" : `first_${from}`,
        to === count ? "(int)get_num_groups(0)" : `first_${to}`,
      ];
      return `${own} batch_first = ${first}; batch_end = ${end};`;
    }
    const middle = (from + to) >> 1;
    return `if (batch < first_${middle}) { ${between(from, middle)} } else { ${
      between(middle, to)
    } }`;
  };
  return `${declared.join("")}  int batch_first, batch_end;\n  ${between(0, count)}\n`;
}

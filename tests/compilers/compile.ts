/** Plans programs for a device that is not here, and has its vendor's compiler take the kernels. */
import type { Parameter } from "../../backend/codegen/emit.ts";
import { dtypes } from "../../backend/graph/dtype.ts";
import { namedKernel } from "../../backend/opencl/codegen/generated.ts";
import type { CustomCall } from "../../backend/graph/custom.ts";
import { preludeFor } from "../../backend/opencl/codegen/prelude.ts";
import type { LaunchStep } from "../../backend/opencl/templates/launch_steps.ts";
import { withPaperDevice } from "../backend/paper_device.ts";
import type { PlannedProgram } from "./programs.ts";
import type { Foreign } from "./vendors.ts";

/** Texts of a file: a compiler's start takes as long as a few of them. */
const AT_ONCE = 24;

/** A kernel of a program. */
interface Planned {
  readonly program: string;
  readonly name: string;
  /** All of it, from `kernel void`. */
  readonly text: string;
  /** A template wrote it: its name is its own. */
  readonly isWritten: boolean;
  /** Work-items of a group. */
  readonly items: number;
  /** Bytes of the arguments of a written one. */
  readonly argumentBytes: number;
}

/** Results for a device's kernels. */
export interface Compiled {
  readonly kernels: number;
  /** Faults, each with its program. */
  readonly faults: readonly string[];
  /** The kernels that spill registers, with their programs. */
  readonly spilling: readonly string[];
  /** Kernels that multiply by matrix units, all of which have the instruction. */
  readonly onUnits: number;
}

/** Runs commands on a file with a text, one after the other; what they leave in `folder` is assembly. */
export type Compile = (
  commands: (file: string, folder: string) => readonly (readonly string[])[],
  text: string,
) => Promise<{ readonly success: boolean; readonly output: string; readonly assembly: string }>;

/** Runs compilers in the system below `root`, whose folder /tmp has the texts. */
export function compilerIn(root: string): Compile {
  let files = 0;
  return async (commands, text) => {
    const folder = `/tmp/${Deno.pid}_${files++}`, file = `${folder}/kernels.cl`;
    const assembled = `${folder}/assembly`;
    await Deno.mkdir(root + assembled, { recursive: true });
    await Deno.writeTextFile(root + file, text);
    let output = "", success = true;
    for (const command of commands(file, assembled)) {
      const ended = await run(root, command);
      output += ended.output;
      if (!(success = ended.success)) break;
    }
    const assembly = [...Deno.readDirSync(root + assembled)].map(({ name }) =>
      Deno.readTextFileSync(`${root}${assembled}/${name}`)
    ).join("\n");
    await Deno.remove(root + folder, { recursive: true });
    return { success, output, assembly };
  };
}

async function run(
  root: string,
  command: readonly string[],
): Promise<{ readonly success: boolean; readonly output: string }> {
  const args = [root, ...command], env = { HOME: "/tmp" }, text = new TextDecoder();
  const { success, stdout, stderr } = await new Deno.Command("chroot", { args, stdin: "null", env })
    .output();
  return { success, output: text.decode(stdout) + text.decode(stderr) };
}

/** The kernels of all programs, each text once. */
function plan({ device }: Foreign, programs: ReadonlyMap<string, PlannedProgram>): Planned[] {
  const planned = new Map<string, Planned>();
  for (const [program, run] of programs) {
    const written = ({ generated, label }: LaunchStep): void => {
      const { source, local, buffers, parameters, isWide } = generated;
      const name = `${label.replace(/\W+/g, "_").slice(0, 48)}_${planned.size}`;
      // A buffer, with its start of four bytes; numbers.
      const argumentBytes = 12 * buffers.length +
        parameters.reduce((sum, each) => sum + numberBytes(each, isWide), 0);
      const text = namedKernel(name, source), items = itemsOf(local);
      planned.getOrInsert(source, { program, name, text, isWritten: true, items, argumentBytes });
    };
    const custom = ({ kernel: { name, source: text }, local }: CustomCall): void => {
      const items = itemsOf(local ?? []);
      planned.getOrInsert(text, { program, name, text, isWritten: false, items, argumentBytes: 0 });
    };
    withPaperDevice(device, written, run, { custom });
  }
  return [...planned.values()];
}

function numberBytes(parameter: Parameter, isWide: boolean): number {
  const isLong = parameter.kind === "constant" ? dtypes[parameter.dtype].bytes === 8 : isWide;
  return isLong ? 8 : 4;
}

const itemsOf = (local: readonly number[]): number => local.reduce((a, b) => a * b, 1);

/** True for a kernel that multiplies by matrix units: it calls the helper that is named as one is. */
const usesUnits = ({ text }: Planned): boolean => /\b[A-Z]+\d*_B?F16\(/.test(text);

/**
 * Kernels that are one file: those that came as a text have names that others may have, and those on matrix units
 * are looked at.
 */
function filesOf(kernels: readonly Planned[]): Planned[][] {
  const { own = [], alone = [] } = Object.groupBy(
    kernels,
    (kernel) => !kernel.isWritten || usesUnits(kernel) ? "alone" : "own",
  );
  const files = Array.from(
    { length: Math.ceil(own.length / AT_ONCE) },
    (_, k) => own.slice(k * AT_ONCE, (k + 1) * AT_ONCE),
  );
  return [...files, ...alone.map((kernel) => [kernel])];
}

function textOf(kernels: readonly Planned[]): string {
  const bodies = kernels.map(({ text }) => text).join("\n\n");
  return `${preludeFor(bodies)}\n\n${bodies}\n`;
}

/** The first lines of a complaint. */
function said(output: string): string {
  return output.trim().split("\n").filter((line) => /error|fail|abort/i.test(line)).slice(0, 3)
    .join("\n  ") || output.slice(-300);
}

/** Faults of kernels that do not compile together: each is tried alone. */
async function refusals(
  { command }: Foreign,
  kernels: readonly Planned[],
  compile: Compile,
): Promise<string[]> {
  const faults: string[] = [];
  for (const kernel of kernels) {
    const { success, output } = await compile((file) => [command(file)], textOf([kernel]));
    if (!success) faults.push(`${kernel.program}: ${kernel.name}: ${said(output)}`);
  }
  return faults.length > 0
    ? faults
    : [`${kernels.map(({ name }) => name)} do not compile together`];
}

/** Groups of more work-items than the device takes, and more memory for arguments. */
function beyondLimits(
  { device: { target, limits } }: Foreign,
  { program, name, items, argumentBytes }: Planned,
): string[] {
  return [
    ...items > limits!.maxWorkGroupSize!
      ? [`${program}: ${name}: groups of ${items} work-items`]
      : [],
    ...argumentBytes > target.sharing!.argumentBytes
      ? [`${program}: ${name}: ${argumentBytes} bytes of arguments`]
      : [],
  ];
}

/** Plans and compiles the programs for a device, `atOnce` compilers side by side. */
export async function compileFor(
  target: Foreign,
  programs: ReadonlyMap<string, PlannedProgram>,
  compile: Compile,
  atOnce: number,
): Promise<Compiled> {
  const all = plan(target, programs);
  const kernels = all.filter(({ text }) => target.hasDoubles || !/\bdouble/.test(text));
  const faults = kernels.flatMap((kernel) => beyondLimits(target, kernel)), spilling: string[] = [];
  const left = filesOf(kernels);
  const worker = async (): Promise<void> => {
    for (let batch = left.shift(); batch !== undefined; batch = left.shift()) {
      const isOnUnits = usesUnits(batch[0]!);
      const { success, output, assembly } = await compile(
        isOnUnits ? target.assemble : (file) => [target.command(file)],
        textOf(batch),
      );
      if (!success) faults.push(...await refusals(target, batch, compile));
      else if (isOnUnits && !target.instruction.test(assembly)) {
        faults.push(`${batch[0]!.program}: ${batch[0]!.name}: no ${target.instruction}`);
      }
      const programOf = new Map(batch.map(({ name, program }) => [name, program]));
      spilling.push(
        ...target.spilling(output).map(([name, count]) =>
          `${programOf.get(name)}: ${name}, ${count} registers`
        ),
      );
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return { kernels: kernels.length, faults, spilling, onUnits: kernels.filter(usesUnits).length };
}

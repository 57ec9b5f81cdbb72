/**
 * Chains: launches of a replayed program that are enqueued as one, where NETCL_CHAINS is 1. On an H200 a small MLP's
 * step takes 0.4 to 0.7 of the time of single launches, an LSTM's by cells 0.55 to 0.8, a small CNN's 1 to 1.1, and a
 * token of a language model 1.05.
 *
 * PoCL 3.1 computes some chains wrong, whose kernels have barriers in loops (optimized or not, on one thread, too);
 * oclgrind and Intel's runtime compute the same texts right. They are for GPUs only.
 */
import { Buffer, type Device } from "../../../ffi/mod.ts";
import type {
  Block,
  Chain,
  ChainLaunch,
  ChainRequest,
  LaunchPart,
  Place,
} from "../../execution/backend.ts";
import { countLaunch } from "../../profiling/counters.ts";
import { type ChainText, chainText } from "../codegen/chained_launch.ts";
import { hashText } from "./cache_folder.ts";
import { planChains, type PlannedChain } from "./chain_plan.ts";
import type { KernelArguments } from "./kernel_arguments.ts";
import { isFar, type LaunchContext, startOf } from "./launch.ts";
import { hasWarps } from "./matrix_units.ts";
import type { Programs } from "./programs.ts";
import type { BuiltBeside } from "./programs_beside.ts";

/** Registers of a work-item, and so work-items that a compute unit has at a time, of 65,536 registers. */
const REGISTERS = 128, UNIT_ITEMS = 512;

/** Chains of a program, and the programs of their kernels. */
export class ChainBuild implements ChainRequest {
  readonly #context: LaunchContext;
  readonly #plans: readonly PlannedChain[];
  readonly #texts: readonly ChainText[];
  readonly #building: BuiltBeside;
  readonly #states: Buffer[] = [];
  #chains: readonly Chain[] | null = null;

  /** Plans chains of launches, which are run in this order, and begins to build them. */
  constructor(
    device: Device,
    context: LaunchContext,
    programs: Programs,
    launches: readonly LaunchPart<Place>[],
  ) {
    const hasPtx = hasWarps(device), computeUnits = device.maxComputeUnits;
    const argumentBytes = device.query("MAX_PARAMETER_SIZE");
    this.#context = context;
    this.#plans = planChains(launches, { hasPtx, argumentBytes });
    const form = { hasPtx, computeUnits, unitItems: UNIT_ITEMS };
    this.#texts = this.#plans.map(({ members }) => chainText(members, form));
    const options = hasPtx ? `-cl-nv-maxrregcount=${REGISTERS}` : "";
    this.#building = programs.buildBeside(this.#texts.map(({ program }) => {
      const name = `chain_${hashText(program("")).slice(0, 8)}`;
      return { name, text: program(name), options };
    }));
  }

  ready(): readonly Chain[] | null {
    const kernels = this.#chains === null ? this.#building.ready() : null;
    if (kernels !== null) this.#chains = kernels.flatMap((kernel, k) => this.#chain(kernel, k));
    return this.#chains;
  }

  /** None where nobody could build it. */
  #chain(kernel: KernelArguments | null, k: number): Chain[] {
    if (kernel === null) return [];
    const plan = this.#plans[k]!, text = this.#texts[k]!, bytes = 4 * text.stateWords;
    const state = new Buffer(this.#context.queue.context, bytes);
    this.#states.push(state);
    this.#context.queue.write(state, new Uint8Array(bytes), { blocking: true }).release();
    const launch = (): ChainLaunch =>
      new LaunchedChain(this.#context, kernel.copy(), plan, text, state);
    return [{ first: plan.first, count: plan.counts.length, launch }];
  }

  [Symbol.dispose](): void {
    this.#building[Symbol.dispose]();
    for (const state of this.#states.splice(0)) state.release();
  }
}

class LaunchedChain implements ChainLaunch {
  readonly #context: LaunchContext;
  readonly #arguments: KernelArguments;
  readonly #plan: PlannedChain;
  readonly #text: ChainText;
  readonly #firstMembers: readonly number[];
  readonly #streams: readonly number[];
  readonly #bytes: number;
  readonly #global: BigUint64Array<ArrayBuffer>;
  readonly #local: BigUint64Array<ArrayBuffer>;

  constructor(
    context: LaunchContext,
    args: KernelArguments,
    plan: PlannedChain,
    text: ChainText,
    state: Buffer,
  ) {
    const { members, counts } = plan;
    this.#context = context;
    this.#arguments = args;
    this.#plan = plan;
    this.#text = text;
    this.#firstMembers = counts.map((_, k) => counts.slice(0, k).reduce((a, b) => a + b, 0));
    this.#streams = [...members.keys()].filter((m) =>
      members[m]!.generated.parameters.some((p) => p.kind === "stream")
    );
    this.#bytes = members.reduce((sum, { launch }) => sum + launch.bytes, 0);
    this.#local = BigUint64Array.of(BigInt(text.items));
    this.#global = BigUint64Array.of(BigInt(text.items * text.groups));
    args.setBuffer(0, state);
    for (const m of members.keys()) this.#setParameters(m);
  }

  set(launch: number, inputs: readonly Block[], outputs: readonly Block[]): void {
    const first = this.#firstMembers[launch]!, count = this.#plan.counts[launch]!;
    const { members } = this.#plan;
    if (count === 1) return this.#setBlocks(first, inputs, outputs);
    for (let m = first; m < first + count; m++) {
      const { reads, writes } = members[m]!;
      this.#setBlocks(m, reads.map((k) => inputs[k]!), writes.map((k) => outputs[k]!));
    }
  }

  #setBlocks(m: number, inputs: readonly Block[], outputs: readonly Block[]): void {
    const { buffers, launch } = this.#plan.members[m]!, args = this.#arguments;
    const { firstBuffer, firstNumbers } = this.#text, blocks = [...inputs, ...outputs];
    blocks.forEach((block, k) => {
      args.setBuffer(firstBuffer + buffers[k]!, isFar(block) ? block.buffer : block.base);
      args.setIndex(firstNumbers[m]! + k, startOf(block, launch.elementBytes[k]!));
    });
  }

  #setParameters(m: number): void {
    const { parameters, buffers } = this.#plan.members[m]!.generated;
    this.#arguments.setParameters(this.#text.firstNumbers[m]! + buffers.length, parameters, false);
  }

  again(): void {
    const { queue, errors } = this.#context, args = this.#arguments;
    if (this.#text.checksIndices) args.setBuffer(1, errors());
    for (const m of this.#streams) this.#setParameters(m);
    queue.enqueueKernel(args.kernel, 1, this.#global, this.#local);
    countLaunch(this.#bytes);
    this.#context.afterLaunch(false);
  }

  [Symbol.dispose](): void {
    this.#arguments.kernel.release();
  }
}

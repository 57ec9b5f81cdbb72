/**
 * Routines: functions whose many nodes depend on the shapes and types of their inputs alone. A call is one node for
 * each result; what it stands for is noted once, and made again only where no plan is known for the graph.
 */
import {
  type Backend,
  backendOf,
  dtypes,
  isEager,
  Node,
  sameShape,
  type Shape,
  Template,
} from "../../backend/internal.ts";
import { presentHalfType } from "../core/autocast.ts";
import { makeTensor, nodeOf } from "../core/internals.ts";
import { tidily } from "../core/modes/temporaries.ts";
import type { Tensor } from "../core/mod.ts";
import { withOwnLeaves } from "../core/repeated_leaves.ts";
import { getFloat32Precision } from "./float32_precision.ts";

/** A function of tensors and plain values, the same one in every call. */
type Routine<A extends readonly Plain[]> = (inputs: Tensor[], ...args: A) => Tensor[];
type Plain = number | string | boolean;

/** One kind of call. */
interface Known {
  /** Null where nodes are made anew each time. */
  readonly template: Template | null;
  readonly shapes: readonly Shape[];
  /** Of the values that the template has captured. */
  readonly bytes: number;
}

/** Kinds of calls that are known of a device, and bytes of what they have captured; the oldest go. */
const MAX_KNOWN = 512, MAX_BYTES = 2 ** 24;

/** The kinds of calls of one device, until `shutdown()`. */
class KnownCalls {
  readonly #calls = new Map<string, Known>();
  #bytes = 0;

  find(key: string): Known | undefined {
    return this.#calls.get(key);
  }

  add(key: string, call: Known): Known {
    this.#calls.set(key, call);
    this.#bytes += call.bytes;
    while (this.#calls.size > MAX_KNOWN || this.#bytes > MAX_BYTES) this.#forgetOldest();
    return call;
  }

  #forgetOldest(): void {
    const [[key, { template, bytes }]] = [...this.#calls.entries().take(1)] as [[string, Known]];
    this.#calls.delete(key);
    this.#bytes -= bytes;
    for (const node of template?.captured ?? []) node.drop();
  }
}

const knownBy = new WeakMap<Backend, KnownCalls>();
const ids = new WeakMap<object, number>();
let made = 0;

/** True within a routine, and where nodes are looked at one by one. */
let isPlain = false;

/** Runs `fn`, whose routines make their nodes. */
export function withoutRoutines<T>(fn: () => T): T {
  const former = isPlain;
  isPlain = true;
  try {
    return fn();
  } finally {
    isPlain = former;
  }
}

/**
 * Calls a routine; its results have no gradient.
 *
 * @param fn The routine. It reads no values, and all else that it depends on are its arguments.
 * @param inputs One at least.
 */
export function routine<A extends readonly Plain[]>(
  fn: Routine<A>,
  inputs: Tensor[],
  ...args: A
): Tensor[] {
  if (isPlain || isEager()) return fn(inputs, ...args);
  const { template, shapes } = knownCall(fn, inputs, args);
  if (template === null) return fn(inputs, ...args);
  const { outputs, captured } = template, call = { template, outputs };
  const nodes = [...inputs.map(nodeOf), ...captured];
  return outputs.map(({ shape, dtype }, output) => {
    const node = new Node({ kind: "routine", call, output }, nodes, shape, dtype);
    const own = shapes[output]!, isView = !sameShape(own, shape);
    const result = isView ? new Node({ kind: "reshape" }, [node], own, dtype) : node;
    return makeTensor(result, inputs[0]!.device);
  });
}

function knownCall<A extends readonly Plain[]>(
  fn: Routine<A>,
  inputs: Tensor[],
  args: A,
): Known {
  const known = knownBy.getOrInsertComputed(backendOf(inputs[0]!.device), () => new KnownCalls());
  const settings = `${getFloat32Precision()} ${presentHalfType()}`;
  const key = `${ids.getOrInsertComputed(fn, () => made++)} ${settings} ${args.join()} ${
    inputs.map(({ dtype, shape }) => `${dtype}[${shape.join()}]`).join()
  }`;
  return known.find(key) ?? known.add(key, learned(fn, inputs, args));
}

/** Notes what a routine makes of inputs like these. */
function learned<A extends readonly Plain[]>(fn: Routine<A>, inputs: Tensor[], args: A): Known {
  const once = (fn: () => Known): Known => withoutRoutines(() => withOwnLeaves(() => tidily(fn)));
  return once(() => {
    const like = inputs.map(({ shape, dtype }) => new Node({ kind: "buffer" }, [], shape, dtype));
    const outputsOf = (results: Tensor[]) => results.map((result) => storedOf(nodeOf(result)));
    const call = () => fn(like.map((node) => makeTensor(node, inputs[0]!.device)), ...args);
    const { result, template } = Template.record(like, call, outputsOf, true);
    const captured = template?.captured ?? [];
    const bytes = captured.reduce((sum, { size, dtype }) => sum + size * dtypes[dtype].bytes, 0);
    // Each result has a value of its own.
    const isApart = new Set([...like, ...outputsOf(result)]).size === like.length + result.length;
    if (template === null || !isApart || bytes > MAX_BYTES) return unknown;
    for (const node of captured) node.hold();
    return { template, shapes: result.map(shapeOf), bytes };
  });
}

const unknown: Known = { template: null, shapes: [], bytes: 0 };

const shapeOf = ({ shape }: Tensor): Shape => shape;

/** The node whose stored bytes a result has. */
function storedOf(node: Node): Node {
  return node.op.kind === "reshape" ? storedOf(node.inputs[0]!) : node;
}

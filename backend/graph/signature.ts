/** Whole numbers that are equal for graphs that lead to the same kernels. */
import type { AttentionCall } from "./attention.ts";
import type { CustomCall } from "./custom.ts";
import { type DType, dtypes } from "./dtype.ts";
import type { Node } from "./node.ts";
import { isRowOp, type Op, type RoutineCall, type RowOp } from "./op.ts";

const dtypeIds = new Map(Object.keys(dtypes).map((name, id) => [name as DType, id]));
const textIds = new Map<string, number>();

function idOf(text: string): number {
  let id = textIds.get(text);
  if (id === undefined) textIds.set(text, id = textIds.size);
  return id;
}

const scratch = new Float64Array(1);
const halves = new Int32Array(scratch.buffer);

/** An operation as a number: odd for elementwise functions, whose names may be those of others. */
function opId(op: Op): number {
  return op.kind === "elementwise" ? 2 * idOf(op.fn) + 1 : 2 * idOf(op.kind);
}

const BUFFER = opId({ kind: "buffer" });

/**
 * Describes graphs one at a time. Every list is preceded by its length, so different graphs never
 * have the same words. Nothing is allocated where the graph is known.
 */
export class Signature {
  #words = new Int32Array(1024);
  #length = 0;
  #hash = 0;
  /** The calls with several outputs that were met, in order. */
  readonly #calls: (CustomCall | RoutineCall | AttentionCall)[] = [];
  readonly #hasNumbers: boolean;

  /** @param hasNumbers False where graphs that differ in their numbers are the same; true by default. */
  constructor(hasNumbers = true) {
    this.#hasNumbers = hasNumbers;
  }

  /** Equal signatures have equal hashes. */
  get hash(): number {
    return this.#hash;
  }

  /** A copy of the words. */
  take(): Int32Array {
    return this.#words.slice(0, this.#length);
  }

  /** True when the words are these. */
  equals(words: Int32Array): boolean {
    const length = this.#length, own = this.#words;
    if (words.length !== length) return false;
    for (let k = 0; k < length; k++) if (own[k] !== words[k]) return false;
    return true;
  }

  /**
   * Describes a graph.
   *
   * @param order Its nodes in topological order, with their positions.
   * @param wanted Those that are asked for.
   * @param later Those that will be asked for.
   * @param ahead Words for what will be made of them and asked for.
   */
  describe(
    order: readonly Node[],
    wanted: readonly Node[],
    later: readonly Node[],
    ahead: readonly (string | number)[],
  ): void {
    this.#length = 0;
    this.#hash = 0x811c9dc5 | 0;
    this.#calls.length = 0;
    for (const node of order) this.#node(node);
    for (const node of wanted) this.#push(node.position);
    this.#push(-1);
    for (const node of later) this.#push(node.position);
    this.#push(-1);
    for (const word of ahead) this.#push(typeof word === "string" ? idOf(word) : word);
  }

  #push(word: number): void {
    if (this.#length === this.#words.length) {
      const longer = new Int32Array(2 * this.#length);
      longer.set(this.#words);
      this.#words = longer;
    }
    this.#words[this.#length++] = word;
    this.#hash = Math.imul(this.#hash ^ word, 0x01000193) ^ (this.#hash >>> 15);
  }

  #list(words: readonly number[]): void {
    this.#push(words.length);
    for (const word of words) this.#push(word);
  }

  #number(value: number): void {
    scratch[0] = value;
    this.#push(halves[0]!);
    this.#push(halves[1]!);
  }

  /** A call is a number, the same for all of its outputs: two outputs of one call are not those of two calls. */
  #call(call: CustomCall | RoutineCall | AttentionCall): void {
    let at = this.#calls.indexOf(call);
    if (at < 0) at = this.#calls.push(call) - 1;
    this.#push(at);
    this.#push(call.outputs.length);
    for (const { shape, dtype } of call.outputs) {
      this.#list(shape);
      this.#push(dtypeIds.get(dtype)!);
    }
  }

  #customCall({ kernel, numbers, global, local }: CustomCall): void {
    this.#push(kernel.id);
    this.#push(numbers.length);
    for (const value of numbers) this.#number(value);
    this.#list(global);
    this.#list(local ?? []);
  }

  #attentionCall(
    { pass, scale, isCausal, isInterleaved, mask, dropout, filled }: AttentionCall,
  ): void {
    this.#push(idOf(pass));
    this.#number(scale);
    this.#push((isCausal ? 1 : 0) + (isInterleaved ? 2 : 0));
    this.#push(idOf(mask));
    this.#number(dropout?.probability ?? 0);
    this.#number(dropout?.seed ?? 0);
    this.#number(filled ? filled.window ?? 0 : -1);
    this.#number(filled?.cap ?? 0);
  }

  #node(node: Node): void {
    const { op, shape } = node;
    const isStored = node.storage !== null;
    this.#push((isStored ? BUFFER : opId(op)) * 16 + dtypeIds.get(node.dtype)!);
    this.#list(shape);
    if (isStored) return;
    this.#push(node.inputs.length);
    for (const input of node.inputs) this.#push(input.position);
    this.#attributes(op);
  }

  /** The attributes of an operation along rows, whatever they are. */
  #rowAttributes(op: RowOp): void {
    const attributes: Readonly<Record<string, string | number | boolean>> = op;
    for (const name in attributes) {
      const value = attributes[name]!;
      if (typeof value === "string") this.#push(idOf(value));
      else this.#number(Number(value));
    }
  }

  #attributes(op: Op): void {
    switch (op.kind) {
      case "constant":
        return this.#hasNumbers ? this.#number(op.value) : undefined;
      case "random":
        return this.#number(op.seed);
      case "permute":
        return this.#list(op.axes);
      case "slice":
        this.#list(op.starts);
        return this.#list(op.steps);
      case "pad":
        this.#list(op.before);
        return this.#number(op.value);
      case "im2col":
        this.#list(op.kernel);
        this.#list(op.stride);
        return this.#list(op.dilation);
      case "reduce":
        this.#push(idOf(op.fn));
        return this.#list(op.axes);
      case "contract":
        this.#push(op.batch);
        this.#push(op.m);
        this.#push(op.n);
        return this.#push(idOf(op.precision ?? "highest"));
      case "gather":
        this.#push(op.axis);
        return this.#push(idOf(op.opName));
      case "decode":
        return this.#push(idOf(op.format));
      case "scatter":
        this.#push(op.axis);
        this.#push(idOf(op.mode));
        return this.#push(idOf(op.opName));
      case "custom":
        this.#push(op.output);
        this.#call(op.call);
        return this.#customCall(op.call);
      case "routine":
        this.#push(op.output);
        this.#call(op.call);
        return this.#push(op.call.template.id);
      case "attention":
        this.#push(op.output);
        this.#call(op.call);
        return this.#attentionCall(op.call);
      case "recurrence":
        this.#push(idOf(op.pass));
        this.#push(idOf(op.gates));
        return this.#push(Number(op.isReverse));
      case "buffer":
      case "data":
      case "iota":
      case "elementwise":
      case "cast":
      case "reshape":
      case "expand":
      case "copy":
        return;
      default:
        return isRowOp(op) ? this.#rowAttributes(op) : op satisfies never;
    }
  }
}

/**
 * Python's pickles (protocols 0 to 5, Lib/pickletools.py), read without Python: numbers, texts, lists,
 * dicts, and of classes and functions those that the caller names. Nothing else is built, and nothing
 * is run.
 *
 * This folder (`torch/`) reads PyTorch's checkpoints. It imports `archives/` and `core/` beside it, and
 * `ops/`.
 */
import { FileFormatError, shown } from "../core/file_format_error.ts";
import type { ByteCursor } from "./byte_cursor.ts";
import { opcodes } from "./opcodes.ts";

/** A class or function that a pickle may name: what a call of it gives. */
export class Callable {
  /** Its name with its module, for messages. */
  readonly name: string;
  /** Its result for its arguments. */
  readonly call: (args: readonly unknown[]) => unknown;

  /** Names a function. */
  constructor(name: string, call: (args: readonly unknown[]) => unknown) {
    this.name = name;
    this.call = call;
  }
}

/** A value that takes what the pickle says of it after it was made. */
export interface Stateful {
  /** Takes it. */
  setState(state: unknown): void;
}

function isStateful(value: unknown): value is Stateful {
  return typeof value === "object" && value !== null && "setState" in value;
}

/** Names that a pickle may use. */
export interface PickleNames {
  /** The class, function or value of this name, such as "collections.OrderedDict"; throws for others. */
  find(name: string): unknown;
  /** The value of a persistent id. */
  load(id: unknown): unknown;
}

/**
 * Reads one pickle. A dict is a Map, a tuple or list an array, None null; whole numbers beyond 2^53
 * are bigints.
 *
 * @param cursor Where it begins; afterwards where it has ended.
 * @param names What it may name.
 * @throws {FileFormatError} For damage, and for all that is not built here.
 */
export function unpickle(cursor: ByteCursor, names: PickleNames): unknown {
  const machine = new PickleMachine(cursor, names);
  for (;;) {
    const at = cursor.at, code = cursor.uint8();
    if (code === STOP) return machine.pop();
    const run = opcodes[code];
    if (run) run(machine);
    else throw new FileFormatError(`The pickle has the unknown code ${code} at byte ${at}`);
  }
}

const STOP = ".".charCodeAt(0);

/** The stack on which a pickle builds its value. */
export class PickleMachine {
  /** The bytes. */
  readonly cursor: ByteCursor;
  readonly #names: PickleNames;
  readonly #memo = new Map<number, unknown>();
  readonly #encoded = new Map<string, Uint8Array>();
  #stack: unknown[] = [];
  /** The stacks below each mark. */
  readonly #below: unknown[][] = [];
  /** Elements that calls may still copy: each element stands in the file, so that a list copied often is hostile. */
  #copies: number;

  /** A machine at the start of a pickle. */
  constructor(cursor: ByteCursor, names: PickleNames) {
    this.cursor = cursor;
    this.#names = names;
    this.#copies = cursor.left + 1000;
  }

  /** Puts a value on top. */
  push(value: unknown): void {
    this.#stack.push(value);
  }

  /** Takes the top value off. */
  pop(): unknown {
    if (this.#stack.length === 0) throw this.error("takes a value that it has not made");
    return this.#stack.pop();
  }

  /** The top value. */
  top(): unknown {
    if (this.#stack.length === 0) throw this.error("uses a value that it has not made");
    return this.#stack.at(-1);
  }

  /** Begins a sequence. */
  mark(): void {
    this.#below.push(this.#stack);
    this.#stack = [];
  }

  /** All values since the last mark. */
  popToMark(): unknown[] {
    const values = this.#stack, below = this.#below.pop();
    if (!below) throw this.error("ends a sequence that it has not begun");
    this.#stack = below;
    return values;
  }

  /** True where the top is a mark. */
  get isAtMark(): boolean {
    return this.#stack.length === 0 && this.#below.length > 0;
  }

  /** Keeps the top value. */
  remember(index = this.#memo.size): void {
    this.#memo.set(index, this.top());
  }

  /** Puts a kept value on top. */
  recall(index: number): void {
    if (!this.#memo.has(index)) throw this.error(`recalls value ${index}, which it has not kept`);
    this.push(this.#memo.get(index));
  }

  /** Puts what a module's name stands for on top. */
  find(module: unknown, name: unknown): void {
    this.push(this.#names.find(`${module}.${name}`));
  }

  /** Puts what an id stands for on top. */
  load(id: unknown): void {
    this.push(this.#names.load(id));
  }

  /** Calls what may be called. */
  call(fn: unknown, args: unknown): void {
    if (!(fn instanceof Callable)) throw this.error(`calls ${describe(fn)}`);
    if (!Array.isArray(args)) throw this.error(`calls ${fn.name} with ${describe(args)}`);
    if (fn.name === "_codecs.encode") return this.push(this.#encode(args[0]));
    this.#countCopies(args);
    this.push(fn.call(args));
  }

  /**
   * Gives the top value its state. Attributes of other objects, such as the versions that a state dict
   * carries, are left: values are what counts.
   */
  setState(state: unknown): void {
    const made = this.top();
    if (!isStateful(made)) return;
    this.#countCopies([state, ...Array.isArray(state) ? state : []]);
    made.setState(state);
  }

  #countCopies(parts: readonly unknown[]): void {
    for (const part of parts) {
      if (Array.isArray(part) || part instanceof Uint8Array || typeof part === "string") {
        this.#copies -= part.length;
      } else if (part instanceof Map) this.#copies -= part.size;
    }
    if (this.#copies < 0) throw this.error("copies more than it holds");
  }

  /** Bytes of a text, as protocol 2 writes them; each text once, however often it is asked for. */
  #encode(text: unknown): Uint8Array {
    if (typeof text !== "string") throw this.error(`encodes ${describe(text)}`);
    const known = this.#encoded.get(text);
    if (known) return known;
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    this.#encoded.set(text, bytes);
    return bytes;
  }

  /** An error about the pickle, with the place. */
  error(what: string): FileFormatError {
    return new FileFormatError(`The pickle ${what} (byte ${this.cursor.at})`);
  }
}

/** A value in few words: a hostile one may be as long as the file, or hold itself. */
export function describe(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (value instanceof Map) return `a dict of ${value.size}`;
  if (value instanceof Callable) return value.name;
  if (typeof value === "object" && value !== null) return `a ${value.constructor.name}`;
  return typeof value === "bigint" ? "a large number" : shown(value);
}

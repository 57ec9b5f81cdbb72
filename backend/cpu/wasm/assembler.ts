/**
 * WebAssembly modules, put together byte by byte. Every module here has one function, `run`, of four
 * numbers, and imports one shared memory; some have a page of memory of their own, as each thread has its
 * own instance. This file is long because the builder has a method for each form of instruction.
 */
import {
  EMPTY,
  I32,
  localsOf,
  memoryOf,
  name,
  section,
  signed,
  unsigned,
  V128,
} from "./encoding.ts";
import { bulk, core, i32, i32x4, v128 } from "./opcodes.ts";

/**
 * A local variable of the function: its number. Four lanes of 64 bits are a pair of vectors, which
 * has a number below zero: see {@linkcode FunctionBuilder.pair}.
 */
export type Local = number;

/** A place in memory: the shared one, or the page that the instance has for itself. */
export interface Place {
  readonly address: Local;
  readonly offset: number;
  readonly isPrivate: boolean;
}

/** A function in the making: a part that runs once, then the rest. */
export class FunctionBuilder {
  /** The parameters: where the arguments lie, the range to compute, and which thread does. */
  static readonly parameters = { args: 0, begin: 1, end: 2, thread: 3 } as const;
  readonly #types: number[] = [];
  readonly #first: number[] = [];
  readonly #rest: number[] = [];
  readonly #hoisted = new Map<string, Local>();
  readonly #pairs: (readonly [Local, Local])[] = [];
  #out = this.#rest;

  #local(type: number): Local {
    return this.#types.push(type) + 3;
  }

  /** A new i32 variable. */
  number(): Local {
    return this.#local(I32);
  }

  /** A new v128 variable. */
  vector(): Local {
    return this.#local(V128);
  }

  /** Appends bytes. */
  put(...bytes: readonly number[]): void {
    for (const byte of bytes) this.#out.push(byte);
  }

  /** Appends an operation with one unsigned number, without the arrays that most operations would cost. */
  #putWith(op: number, value: number): void {
    const out = this.#out;
    out.push(op);
    for (; value > 0x7f; value >>>= 7) out.push((value & 0x7f) | 0x80);
    out.push(value);
  }

  /** Puts a variable's value on the stack. */
  get(local: Local): void {
    this.#putWith(core.get, local);
  }

  /** Takes a variable's value from the stack. */
  set(local: Local): void {
    this.#putWith(core.set, local);
  }

  /** Four lanes of 64 bits: those of two vectors. */
  pair(low: Local, high: Local): Local {
    return -this.#pairs.push([low, high]);
  }

  /** The vectors of four lanes of 64 bits. */
  halves(pair: Local): readonly [Local, Local] {
    const found = this.#pairs[-1 - pair];
    if (found === undefined) throw new Error("A vector is no pair");
    return found;
  }

  /** True when a variable is a pair of vectors. */
  isPair(local: Local): boolean {
    return local < 0;
  }

  /** Copies a variable's value to another. */
  assign(target: Local, source: Local): void {
    if (this.isPair(target)) {
      const from = this.halves(source);
      this.halves(target).forEach((half, k) => this.assign(half, from[k]!));
      return;
    }
    this.get(source);
    this.set(target);
  }

  /** A new variable with the value of another number. */
  copy(source: Local): Local {
    const local = this.number();
    this.assign(local, source);
    return local;
  }

  /** A new variable with the value of another vector. */
  copyVector(source: Local): Local {
    const local = this.vector();
    this.assign(local, source);
    return local;
  }

  /** The value of `make`, computed once before everything else. */
  once(key: string, make: () => Local): Local {
    const known = this.#hoisted.get(key);
    if (known !== undefined) return known;
    const local = this.writeTo(this.#first, make);
    this.#hoisted.set(key, local);
    return local;
  }

  /** The instructions of `write`, which are put nowhere yet. */
  detached(write: () => void): number[] {
    const code: number[] = [];
    this.writeTo(code, write);
    return code;
  }

  /** Writes instructions behind others that were detached. */
  writeTo<R>(code: number[], write: () => R): R {
    const out = this.#out;
    this.#out = code;
    try {
      return write();
    } finally {
      this.#out = out;
    }
  }

  /** Puts instructions that were detached. */
  append(code: readonly number[]): void {
    for (const byte of code) this.#out.push(byte);
  }

  // ---- numbers

  /** Puts a constant on the stack. */
  constant(value: number): void {
    this.put(core.constant, ...signed(value));
  }

  /** A variable that holds a constant. */
  integer(value: number): Local {
    return this.once(`integer ${value}`, () => {
      this.constant(value);
      return this.#setNumber();
    });
  }

  #setNumber(): Local {
    const local = this.number();
    this.set(local);
    return local;
  }

  /** The result of an i32 operation. */
  i(op: number, ...operands: readonly Local[]): Local {
    for (const operand of operands) this.get(operand);
    this.put(op);
    return this.#setNumber();
  }

  /** The result of an i32 operation with a constant. */
  iWith(op: number, operand: Local, value: number): Local {
    this.get(operand);
    this.constant(value);
    this.put(op);
    return this.#setNumber();
  }

  /** Changes a variable by an operation with a constant. */
  step(local: Local, value: number): void {
    this.get(local);
    this.constant(value);
    this.put(i32.add);
    this.set(local);
  }

  /** `condition ? a : b`. */
  choose(condition: Local, a: Local, b: Local): Local {
    this.get(a);
    this.get(b);
    this.get(condition);
    this.put(core.select);
    return this.#setNumber();
  }

  /** The smaller of two numbers. */
  smaller(a: Local, b: Local): Local {
    return this.choose(this.i(i32.ltS, a, b), a, b);
  }

  /** The larger of two numbers. */
  larger(a: Local, b: Local): Local {
    return this.choose(this.i(i32.ltS, a, b), b, a);
  }

  /** The address of a 32-bit word of a table. */
  wordAt(table: Local, index: Local): Local {
    return this.i(i32.add, table, this.iWith(i32.shl, index, 2));
  }

  /** Loads a number from memory. */
  loadNumber(op: number, address: Local, offset = 0): Local {
    this.get(address);
    this.put(op, 0, ...unsigned(offset));
    return this.#setNumber();
  }

  /** Stores a number in memory. */
  storeNumber(address: Local, value: Local, offset = 0): void {
    this.get(address);
    this.get(value);
    this.put(i32.store, 0, ...unsigned(offset));
  }

  /** Copies so many bytes of memory; `isPrivate` says where they go. */
  copyBytes(to: Local, from: Local, count: Local, isPrivate = false): void {
    for (const operand of [to, from, count]) this.get(operand);
    this.put(core.bulk, bulk.copy, isPrivate ? 1 : 0, 0);
  }

  // ---- vectors

  #opcode(op: number): void {
    this.#putWith(core.vector, op);
  }

  #setVector(): Local {
    const local = this.vector();
    this.set(local);
    return local;
  }

  /** The result of a vector operation on variables. */
  v(op: number, ...operands: readonly Local[]): Local {
    for (const operand of operands) this.get(operand);
    this.#opcode(op);
    return this.#setVector();
  }

  /** Bytes picked from two vectors. */
  shuffle(a: Local, b: Local, lanes: readonly number[]): Local {
    this.get(a);
    this.get(b);
    this.#opcode(v128.shuffle);
    this.put(...lanes);
    return this.#setVector();
  }

  /** 32-bit lanes picked from two vectors. */
  shuffle32(a: Local, b: Local, lanes: readonly number[]): Local {
    return this.shuffle(a, b, lanes.flatMap((k) => [4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3]));
  }

  /** The columns of four rows of four lanes. */
  transpose(rows: readonly Local[]): Local[] {
    const [a, b, c, d] = rows as [Local, Local, Local, Local];
    const halves = [[0, 4, 1, 5], [2, 6, 3, 7]].map((lanes) =>
      [this.shuffle32(a, b, lanes), this.shuffle32(c, d, lanes)] as const
    );
    return halves.flatMap(([x, y]) =>
      [[0, 1, 4, 5], [2, 3, 6, 7]].map((lanes) => this.shuffle32(x, y, lanes))
    );
  }

  /** 1 where any bit of a vector is set. */
  anyTrue(vector: Local): Local {
    this.get(vector);
    this.#opcode(v128.anyTrue);
    return this.#setNumber();
  }

  /** A lane of a vector of 32-bit lanes, as a number. */
  laneOf(vector: Local, lane: number): Local {
    this.get(vector);
    this.#opcode(i32x4.extract);
    this.put(lane);
    return this.#setNumber();
  }

  /** A shift by a constant. */
  shift(op: number, vector: Local, by: number): Local {
    this.get(vector);
    this.constant(by);
    this.#opcode(op);
    return this.#setVector();
  }

  /** A constant whose four lanes are equal. */
  splat(bits: number): Local {
    return this.lanes([bits, bits, bits, bits]);
  }

  /** A constant, lane by lane. */
  lanes(bits: readonly number[]): Local {
    return this.once(`vector ${bits}`, () => {
      this.#opcode(v128.constant);
      this.put(...new Uint8Array(Int32Array.from(bits).buffer));
      return this.#setVector();
    });
  }

  /** A double constant in both lanes. */
  double(value: number): Local {
    const bits = new Int32Array(Float64Array.of(value).buffer);
    return this.lanes([...bits, ...bits]);
  }

  /** A float constant in all lanes. */
  float(value: number): Local {
    return this.splat(floatBits(value));
  }

  /** Loads a vector from memory. */
  load(op: number, address: Local, offset = 0): Local {
    return this.loadFrom(op, { address, offset, isPrivate: false });
  }

  /** Loads a vector from a place. */
  loadFrom(op: number, { address, offset, isPrivate }: Place): Local {
    this.get(address);
    this.#opcode(op);
    this.put(...memoryOf(isPrivate), ...unsigned(offset));
    return this.#setVector();
  }

  /** Loads a vector from the private page. An address that the engine knows is checked at no run. */
  loadFixed(op: number, address: number): Local {
    this.constant(0);
    this.#opcode(op);
    this.put(...memoryOf(true), ...unsigned(address));
    return this.#setVector();
  }

  /** Loads one lane; the others stay. */
  loadLane(op: number, address: Local, vector: Local, lane: number, offset = 0): Local {
    this.get(address);
    this.get(vector);
    this.#opcode(op);
    this.put(0, ...unsigned(offset), lane);
    return this.#setVector();
  }

  /** A vector of floats from anywhere, the first lanes of which are given. */
  gather(addresses: readonly Local[]): Local {
    const [first, ...others] = addresses;
    return others.reduce(
      (vector, at, k) => this.loadLane(v128.load32Lane, at, vector, k + 1),
      this.load(v128.load32Zero, first!),
    );
  }

  /** Stores a vector, or one lane of it. */
  store(op: number, address: Local, vector: Local, offset = 0, lane?: number): void {
    this.storeTo(op, { address, offset, isPrivate: false }, vector, lane);
  }

  /** Stores a vector, or one lane of it, at a place. */
  storeTo(op: number, { address, offset, isPrivate }: Place, vector: Local, lane?: number): void {
    this.get(address);
    this.get(vector);
    this.#opcode(op);
    this.put(...memoryOf(isPrivate), ...unsigned(offset));
    if (lane !== undefined) this.put(lane);
  }

  // ---- control

  /** Runs `body` while `head` says so; what `head` leaves on the stack is the condition. */
  while(head: () => void, body: () => void): void {
    this.put(core.block, EMPTY, core.loop, EMPTY);
    head();
    this.put(i32.eqz, core.branchIf, 1);
    body();
    this.put(core.branch, 0, core.end, core.end);
  }

  /** Runs `body` while `a` is less than `b`: numbers, or addresses, which have no sign. */
  whileLess(a: Local, b: Local, body: () => void, less: number = i32.ltS): void {
    this.while(() => {
      this.get(a);
      this.get(b);
      this.put(less);
    }, body);
  }

  /** Runs `body` for the numbers from `start` to `end`, `step` apart. */
  loop(start: Local, end: Local, step: number, body: (index: Local) => void): void {
    const index = this.copy(start);
    this.whileLess(index, end, () => {
      body(index);
      this.step(index, step);
    });
  }

  /** Runs `body`, which may leave itself by what it is given: a branch out where a number is 0. */
  leavable(body: (leaveIfZero: (value: Local) => void) => void): void {
    this.put(core.block, EMPTY);
    body((value) => {
      this.get(value);
      this.put(i32.eqz, core.branchIf, 0);
    });
    this.put(core.end);
  }

  /** Runs one of two bodies. */
  branch(condition: Local, then: () => void, orElse?: () => void): void {
    this.get(condition);
    this.put(core.if, EMPTY);
    then();
    if (orElse) {
      this.put(core.else);
      orElse();
    }
    this.put(core.end);
  }

  /** The module, with a page of memory of its own where that is asked for. */
  finish(hasPrivatePage = false): Uint8Array<ArrayBuffer> {
    const size = this.#first.length + this.#rest.length;
    const head = localsOf(this.#types);
    const code = [1, ...unsigned(head.length + size + 1), ...head];
    const before = [
      ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      ...section(1, [1, 0x60, 4, I32, I32, I32, I32, 0]),
      // A shared memory of at least one page and at most 65,536.
      ...section(2, [1, ...name("host"), ...name("memory"), 2, 3, 1, ...unsigned(65536)]),
      ...section(3, [1, 0]),
      ...hasPrivatePage ? section(5, [1, 1, 1, 1]) : [],
      ...section(7, [1, ...name("run"), 0, 0]),
      ...[10, ...unsigned(code.length + size + 1), ...code],
    ];
    const bytes = new Uint8Array(before.length + size + 1);
    bytes.set(before);
    bytes.set(this.#first, before.length);
    bytes.set(this.#rest, before.length + this.#first.length);
    bytes[bytes.length - 1] = core.end;
    return bytes;
  }
}

const scratch = new DataView(new ArrayBuffer(4));

/** The 32 bits of a float. */
export function floatBits(value: number): number {
  scratch.setFloat32(0, value);
  return scratch.getInt32(0);
}

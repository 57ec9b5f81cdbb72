/**
 * WebAssembly modules, put together byte by byte. Every module here has one function, `run`, of four
 * numbers, and imports one shared memory. Opcodes are those of the core specification 3.0, with SIMD
 * and relaxed SIMD.
 */

/** A local variable of the function: its number. */
export type Local = number;

/** A function in the making: a part that runs once, then the rest. */
export class FunctionBuilder {
  /** The parameters: where the arguments lie, the range to compute, and which thread does. */
  static readonly parameters = { args: 0, begin: 1, end: 2, thread: 3 } as const;
  readonly #types: number[] = [];
  readonly #first: number[] = [];
  readonly #rest: number[] = [];
  readonly #hoisted = new Map<string, Local>();
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

  /** Puts a variable's value on the stack. */
  get(local: Local): void {
    this.put(0x20, ...unsigned(local));
  }

  /** Takes a variable's value from the stack. */
  set(local: Local): void {
    this.put(0x21, ...unsigned(local));
  }

  /** Copies a variable's value to another. */
  assign(target: Local, source: Local): void {
    this.get(source);
    this.set(target);
  }

  /** What `make` computes, computed once before everything else. */
  once(key: string, make: () => Local): Local {
    const known = this.#hoisted.get(key);
    if (known !== undefined) return known;
    const out = this.#out;
    this.#out = this.#first;
    const local = make();
    this.#out = out;
    this.#hoisted.set(key, local);
    return local;
  }

  // ---- numbers

  /** Puts a constant on the stack. */
  constant(value: number): void {
    this.put(0x41, ...signed(value));
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
    this.put(0x1b);
    return this.#setNumber();
  }

  /** Loads a number from memory. */
  loadNumber(op: number, address: Local, offset = 0): Local {
    this.get(address);
    this.put(op, 0, ...unsigned(offset));
    return this.#setNumber();
  }

  // ---- vectors

  #opcode(op: number): void {
    this.put(0xfd, ...unsigned(op));
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

  /** The result of a vector operation that ends in a lane or another immediate. */
  vLane(op: number, lane: number, ...operands: readonly Local[]): Local {
    for (const operand of operands) this.get(operand);
    this.#opcode(op);
    this.put(lane);
    return this.#setVector();
  }

  /** The number that a vector operation gives. */
  extract(op: number, vector: Local, lane?: number): Local {
    this.get(vector);
    this.#opcode(op);
    if (lane !== undefined) this.put(lane);
    return this.#setNumber();
  }

  /** Bytes picked from two vectors. */
  shuffle(a: Local, b: Local, lanes: readonly number[]): Local {
    this.get(a);
    this.get(b);
    this.#opcode(13);
    this.put(...lanes);
    return this.#setVector();
  }

  /** 32-bit lanes picked from two vectors. */
  shuffle32(a: Local, b: Local, lanes: readonly number[]): Local {
    return this.shuffle(a, b, lanes.flatMap((k) => [4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3]));
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
      this.#opcode(12);
      this.put(...new Uint8Array(Int32Array.from(bits).buffer));
      return this.#setVector();
    });
  }

  /** A float constant in all lanes. */
  float(value: number): Local {
    return this.splat(floatBits(value));
  }

  /** Loads a vector from memory. */
  load(op: number, address: Local, offset = 0): Local {
    this.get(address);
    this.#opcode(op);
    this.put(0, ...unsigned(offset));
    return this.#setVector();
  }

  /** Loads one lane; the others stay. */
  loadLane(op: number, address: Local, vector: Local, lane: number): Local {
    this.get(address);
    this.get(vector);
    this.#opcode(op);
    this.put(0, 0, lane);
    return this.#setVector();
  }

  /** Stores a vector, or one lane of it. */
  store(op: number, address: Local, vector: Local, offset = 0, lane?: number): void {
    this.get(address);
    this.get(vector);
    this.#opcode(op);
    this.put(0, ...unsigned(offset));
    if (lane !== undefined) this.put(lane);
  }

  // ---- control

  /** Runs `body` while `head` says so; what `head` leaves on the stack is the condition. */
  while(head: () => void, body: () => void): void {
    this.put(0x02, EMPTY, 0x03, EMPTY);
    head();
    this.put(0x45, 0x0d, 1);
    body();
    this.put(0x0c, 0, 0x0b, 0x0b);
  }

  /** Runs `body` at least once, and again while the condition that it leaves holds. */
  repeat(body: () => void): void {
    this.put(0x03, EMPTY);
    body();
    this.put(0x0d, 0, 0x0b);
  }

  /** Runs one of two bodies. */
  branch(condition: Local, then: () => void, otherwise?: () => void): void {
    this.get(condition);
    this.put(0x04, EMPTY);
    then();
    if (otherwise) {
      this.put(0x05);
      otherwise();
    }
    this.put(0x0b);
  }

  /** The module. */
  finish(): Uint8Array<ArrayBuffer> {
    const locals: number[] = [];
    for (const type of this.#types) {
      if (locals.at(-1) === type) locals[locals.length - 2]!++;
      else locals.push(1, type);
    }
    const groups: number[] = [];
    for (let k = 0; k < locals.length; k += 2) {
      groups.push(...unsigned(locals[k]!), locals[k + 1]!);
    }
    const size = this.#first.length + this.#rest.length;
    const head = [...unsigned(locals.length / 2), ...groups];
    const length = head.length + size + 1;
    const code = [1, ...unsigned(length), ...head];
    const before = [
      ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      ...section(1, [1, 0x60, 4, I32, I32, I32, I32, 0]),
      // A shared memory of at least one page and at most 65,536.
      ...section(2, [1, ...name("host"), ...name("memory"), 2, 3, 1, ...unsigned(65536)]),
      ...section(3, [1, 0]),
      ...section(7, [1, ...name("run"), 0, 0]),
      ...[10, ...unsigned(code.length + size + 1), ...code],
    ];
    const bytes = new Uint8Array(before.length + size + 1);
    bytes.set(before);
    bytes.set(this.#first, before.length);
    bytes.set(this.#rest, before.length + this.#first.length);
    bytes[bytes.length - 1] = 0x0b;
    return bytes;
  }
}

const I32 = 0x7f, V128 = 0x7b, EMPTY = 0x40;

/** An unsigned number in LEB128. */
function unsigned(value: number): number[] {
  if (value < 0x80) return [value];
  const bytes: number[] = [];
  for (; value > 0x7f; value >>>= 7) bytes.push((value & 0x7f) | 0x80);
  return [...bytes, value];
}

/** A signed number in LEB128. */
function signed(value: number): number[] {
  const bytes: number[] = [];
  for (;;) {
    const low = value & 0x7f;
    value >>= 7;
    if (value === 0 && !(low & 0x40) || value === -1 && low & 0x40) return [...bytes, low];
    bytes.push(low | 0x80);
  }
}

function section(id: number, content: readonly number[]): number[] {
  return [id, ...unsigned(content.length), ...content];
}

function name(text: string): number[] {
  return [text.length, ...new TextEncoder().encode(text)];
}

const scratch = new DataView(new ArrayBuffer(4));

/** The 32 bits of a float. */
export function floatBits(value: number): number {
  scratch.setFloat32(0, value);
  return scratch.getInt32(0);
}

/** Opcodes of 32-bit numbers. */
export const i32 = {
  load: 0x28,
  loadByte: 0x2d,
  loadShort: 0x2f,
  eqz: 0x45,
  ltS: 0x48,
  ltU: 0x49,
  leS: 0x4c,
  add: 0x6a,
  sub: 0x6b,
  mul: 0x6c,
  divU: 0x6e,
  remU: 0x70,
  and: 0x71,
  or: 0x72,
  shl: 0x74,
  shrU: 0x76,
} as const;

/** Opcodes of vectors in memory, and of all their bits. */
export const v128 = {
  load: 0,
  loadSplat: 9,
  load64Splat: 10,
  store: 11,
  not: 77,
  and: 78,
  andnot: 79,
  or: 80,
  xor: 81,
  bitselect: 82,
  anyTrue: 83,
  load8Lane: 84,
  load16Lane: 85,
  load32Lane: 86,
  store8Lane: 88,
  store16Lane: 89,
  store32Lane: 90,
  store64Lane: 91,
  load32Zero: 92,
  load64Zero: 93,
} as const;

/** Opcodes of eight 16-bit lanes and sixteen bytes. */
export const narrow = {
  shortsToBytes: 102,
  intsToShorts: 134,
  bytesToShorts: 137,
  shortsToInts: 169,
} as const;

/** Opcodes of four 32-bit lanes. */
export const i32x4 = {
  splat: 17,
  extractLane: 27,
  replaceLane: 28,
  eq: 55,
  ne: 56,
  ltS: 57,
  ltU: 58,
  gtS: 59,
  leS: 61,
  geS: 63,
  geU: 64,
  abs: 160,
  neg: 161,
  allTrue: 163,
  shl: 171,
  shrS: 172,
  shrU: 173,
  add: 174,
  sub: 177,
  mul: 181,
  minS: 182,
  minU: 183,
  maxS: 184,
  truncate: 248,
} as const;

/** Opcodes of four floats. */
export const f32x4 = {
  eq: 65,
  ne: 66,
  lt: 67,
  gt: 68,
  le: 69,
  ge: 70,
  demote: 94,
  ceil: 103,
  floor: 104,
  trunc: 105,
  nearest: 106,
  abs: 224,
  neg: 225,
  sqrt: 227,
  add: 228,
  sub: 229,
  mul: 230,
  div: 231,
  min: 232,
  max: 233,
  pmin: 234,
  pmax: 235,
  convert: 250,
  relaxedMadd: 261,
} as const;

/** Opcodes of two doubles. */
export const f64x2 = { promote: 95, floor: 117, add: 240, mul: 242, div: 243 } as const;
/** Opcodes of two 64-bit numbers. */
export const i64x2 = { extmulLow: 222, extmulHigh: 223 } as const;

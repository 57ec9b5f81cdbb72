/** The codes of pickles, by their letters in Lib/pickletools.py. */
import type { PickleMachine } from "./pickle.ts";
import { FileFormatError } from "../core/file_format_error.ts";

type Run = (m: PickleMachine) => void;

// Numbers of more digits are no data of a checkpoint, and slow to parse.
const MAX_INTEGER_BYTES = 256;

const table: Readonly<Record<string, Run>> = {
  // Frames and versions mean nothing to a reader of whole files.
  "\x80": (m) => requireProtocol(m.cursor.uint8()),
  "\x95": (m) => void m.cursor.uint64(),

  // Numbers.
  "N": (m) => m.push(null),
  "\x88": (m) => m.push(true),
  "\x89": (m) => m.push(false),
  "J": (m) => m.push(m.cursor.int32()),
  "K": (m) => m.push(m.cursor.uint8()),
  "M": (m) => m.push(m.cursor.uint16()),
  "I": (m) => m.push(textInteger(m, m.cursor.line())),
  "L": (m) => m.push(textInteger(m, m.cursor.line().replace(/L$/, ""))),
  "\x8a": (m) => m.push(integer(m, m.cursor.uint8())),
  "\x8b": (m) => m.push(integer(m, m.cursor.uint32())),
  "F": (m) => m.push(textFloat(m, m.cursor.line())),
  "G": (m) => m.push(m.cursor.float64BigEndian()),

  // Texts and bytes.
  "S": (m) => m.push(quoted(m, m.cursor.line())),
  "T": (m) => m.push(latin1(m, m.cursor.uint32())),
  "U": (m) => m.push(latin1(m, m.cursor.uint8())),
  "V": (m) => m.push(unescape(m.cursor.line())),
  "X": (m) => m.push(utf8(m, m.cursor.uint32())),
  "\x8c": (m) => m.push(utf8(m, m.cursor.uint8())),
  "\x8d": (m) => m.push(utf8(m, m.cursor.uint64())),
  "B": (m) => m.push(m.cursor.take(m.cursor.uint32()).slice()),
  "C": (m) => m.push(m.cursor.take(m.cursor.uint8()).slice()),
  "\x8e": (m) => m.push(m.cursor.take(m.cursor.uint64()).slice()),
  "\x96": (m) => m.push(m.cursor.take(m.cursor.uint64()).slice()),

  // Tuples, lists, dicts, sets.
  "(": (m) => m.mark(),
  ")": (m) => m.push([]),
  "]": (m) => m.push([]),
  "}": (m) => m.push(new Map()),
  "\x8f": (m) => m.push(new Set()),
  "t": (m) => m.push(m.popToMark()),
  "l": (m) => m.push(m.popToMark()),
  "d": (m) => m.push(setItems(m, new Map(), m.popToMark())),
  "\x91": (m) => m.push(new Set(m.popToMark())),
  "\x85": (m) => m.push([m.pop()]),
  "\x86": (m) => m.push(lastOf(m, 2)),
  "\x87": (m) => m.push(lastOf(m, 3)),
  "a": (m) => append(m, [m.pop()]),
  "e": (m) => append(m, m.popToMark()),
  "s": (m) => void setItems(m, m, lastOf(m, 2)),
  "u": (m) => void setItems(m, m, m.popToMark()),
  "\x90": (m) => addToSet(m, m.popToMark()),

  // The stack and the memo.
  "0": (m) => m.isAtMark ? void m.popToMark() : void m.pop(),
  "1": (m) => void m.popToMark(),
  "2": (m) => m.push(m.top()),
  "p": (m) => m.remember(Number(m.cursor.line())),
  "q": (m) => m.remember(m.cursor.uint8()),
  "r": (m) => m.remember(m.cursor.uint32()),
  "\x94": (m) => m.remember(),
  "g": (m) => m.recall(Number(m.cursor.line())),
  "h": (m) => m.recall(m.cursor.uint8()),
  "j": (m) => m.recall(m.cursor.uint32()),

  // Names, and what is made of them.
  "c": (m) => m.find(m.cursor.line(), m.cursor.line()),
  "\x93": (m) => {
    const [module, name] = lastOf(m, 2);
    m.find(module, name);
  },
  "P": (m) => m.load(m.cursor.line()),
  "Q": (m) => m.load(m.pop()),
  "R": call,
  "\x81": call,
  "i": (m) => {
    m.find(m.cursor.line(), m.cursor.line());
    const fn = m.pop();
    m.call(fn, m.popToMark());
  },
  "o": (m) => {
    const [fn, ...args] = m.popToMark();
    m.call(fn, args);
  },
  "b": (m) => m.setState(m.pop()),
};

/** The code's effect, by its number. */
export const opcodes: readonly (Run | undefined)[] = Array.from(
  { length: 256 },
  (_, code) => table[String.fromCharCode(code)],
);

function requireProtocol(version: number): void {
  if (version > 5) {
    throw new FileFormatError(`The pickle's protocol is ${version}: 0 to 5 are read`);
  }
}

function call(m: PickleMachine): void {
  const [fn, args] = lastOf(m, 2);
  m.call(fn, args);
}

function lastOf(m: PickleMachine, count: number): unknown[] {
  return Array.from({ length: count }, () => m.pop()).reverse();
}

function append(m: PickleMachine, values: unknown[]): void {
  const list = m.top();
  if (!Array.isArray(list)) throw m.error("appends to what is no list");
  for (const value of values) list.push(value);
}

function addToSet(m: PickleMachine, values: unknown[]): void {
  const set = m.top();
  if (!(set instanceof Set)) throw m.error("adds to what is no set");
  for (const value of values) set.add(value);
}

/** Puts keys and values in turn into a dict, or into that on top of the stack. */
function setItems(m: PickleMachine, into: unknown, items: unknown[]): unknown {
  const dict = into === m ? m.top() : into;
  if (!(dict instanceof Map)) throw m.error("sets an item of what is no dict");
  if (items.length % 2 !== 0) throw m.error("sets an item without a value");
  for (let k = 0; k < items.length; k += 2) dict.set(items[k], items[k + 1]);
  return dict;
}

function small(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** A whole number of so many bytes, in two's complement, the lowest first. */
function integer(m: PickleMachine, count: number): number | bigint {
  if (count > MAX_INTEGER_BYTES) throw m.error(`has a whole number of ${count} bytes`);
  let value = 0n;
  for (const byte of m.cursor.take(count).toReversed()) value = value << 8n | BigInt(byte);
  return small(BigInt.asIntN(8 * count, value));
}

function textInteger(m: PickleMachine, text: string): number | bigint | boolean {
  if (text === "00" || text === "01") return text === "01";
  if (/^-?\d+$/.test(text) && text.length <= 2 * MAX_INTEGER_BYTES) return small(BigInt(text));
  throw m.error("has a whole number that is none");
}

function textFloat(m: PickleMachine, text: string): number {
  const special = { "inf": Infinity, "-inf": -Infinity, "nan": NaN }[text];
  if (special !== undefined) return special;
  if (/^[-+.\deE]+$/.test(text) && !Number.isNaN(Number(text))) return Number(text);
  throw m.error("has a number that is none");
}

function latin1(m: PickleMachine, count: number): string {
  return Array.from(m.cursor.take(count), (byte) => String.fromCharCode(byte)).join("");
}

function utf8(m: PickleMachine, count: number): string {
  return new TextDecoder().decode(m.cursor.take(count));
}

function quoted(m: PickleMachine, text: string): string {
  const [, , inner] = /^(['"])(.*)\1$/.exec(text) ?? [];
  if (inner === undefined) throw m.error("has a text without quotes");
  return unescape(inner).replace(/\\(.)/g, "$1");
}

function unescape(text: string): string {
  return text.replace(
    /\\(?:u([\da-f]{4})|U([\da-f]{8})|x([\da-f]{2}))/gi,
    (all, ...digits: (string | undefined)[]) => {
      const code = parseInt(digits.slice(0, 3).find((d) => d !== undefined)!, 16);
      return code <= 0x10ffff ? String.fromCodePoint(code) : all;
    },
  );
}

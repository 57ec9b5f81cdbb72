import type { DType, TypedArray } from "../../backend/internal.ts";
import { FileFormatError, readingFile, shown } from "./core/file_format_error.ts";
import { readMaybeGzipped, type ReadOptions, readRules } from "./core/gzip.ts";
import type { HostArray } from "./core/host_array.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";

/** Selection from a table of comma-separated values. */
export interface CsvOptions {
  /** True when the first record names the columns; without names columns are counted from 0. */
  header?: boolean;
  /** The character between two fields; a comma unless given. */
  delimiter?: string;
  /** The columns to keep, by name or number, in this order; all of them unless given. */
  columns?: readonly (string | number)[];
  /** The dtype of the values; float32 unless given. */
  dtype?: "float32" | "float64" | "int32" | "uint8";
  /** Value of an empty field; without it an empty field is an error. */
  missing?: number;
}

/** A table as it was read: one row a record, one column a field. */
export interface CsvTable extends HostArray {
  /** The names of the columns, or their numbers as text where the file names none. */
  readonly columns: readonly string[];
}

const arrays = {
  float32: Float32Array,
  float64: Float64Array,
  int32: Int32Array,
  uint8: Uint8Array,
} as const satisfies Partial<Record<DType, new (length: number) => TypedArray>>;

const rules: Rules<CsvOptions> = {
  header: takes.bool,
  delimiter: takes.text,
  columns: {
    takes: "an array of names or numbers",
    accepts: (value) =>
      Array.isArray(value) && [...value].every((one) => /^(string|number)$/.test(typeof one)),
  },
  dtype: takes.oneOf(...Object.keys(arrays)),
  missing: takes.number,
};

/**
 * Reads a table of numbers from a CSV file (RFC 4180), gzipped or not.
 *
 * @param path The file, in UTF-8.
 * @param options What to take from it.
 * @returns The values of shape [rows, columns], for a `TensorDataset` or `Tensor.fromHost`.
 * @throws {FileFormatError} For a file that is no table of numbers; it names line and column.
 *
 * @example Two columns of three
 * ```ts
 * import { loadCsv } from "@netcl/netcl";
 *
 * const path = await Deno.makeTempFile();
 * await Deno.writeTextFile(path, "name,height,weight\nA,1.5,60\nB,1.75,72\n");
 * const table = await loadCsv(path, { header: true, columns: ["height", "weight"] });
 * console.assert(table.shape.join() === "2,2" && table.data[2] === 1.75);
 * await Deno.remove(path);
 * ```
 */
export function loadCsv(
  path: string | URL,
  options: CsvOptions & ReadOptions = {},
): Promise<CsvTable> {
  checkOptions("read a CSV file", options, { ...rules, ...readRules });
  const { maxBytes, ...table } = options;
  const limit = maxBytes === undefined ? {} : { maxBytes };
  return readingFile(
    path,
    async () => parseCsv(decodeText(await readMaybeGzipped(path, limit)), table),
  );
}

function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw new FileFormatError("The file is not text in UTF-8", { cause: error });
  }
}

/**
 * Reads a table of numbers from text.
 *
 * @param text The whole table.
 * @param options What to take from it.
 * @throws {FileFormatError} Where the text is no table of numbers; it names line and column.
 */
export function parseCsv(text: string, options: CsvOptions = {}): CsvTable {
  requireValue("read a CSV table", "text", text, takes.text);
  checkOptions("read a CSV table", options, rules);
  const { header = false, delimiter = ",", dtype = "float32" } = options;
  const table = records(text, delimiter);
  const first = table.next().value;
  const width = first?.fields.length ?? 0;
  const names = first?.fields.map((field, i) => header ? field : String(i)) ?? [];
  const picked = (options.columns ?? names.map((_, i) => i)).map((column) =>
    columnIndex(column, names)
  );
  const values: number[] = [];
  let rows = 0;
  for (let record = header ? table.next().value : first; record; record = table.next().value) {
    if (record.fields.length !== width) {
      throw new FileFormatError(
        `Line ${record.line} has ${record.fields.length} fields: expected ${width}`,
      );
    }
    for (const column of picked) {
      const field = record.fields[column]!;
      values.push(toNumber(field, dtype, options.missing, record.line, names[column]!));
    }
    rows++;
  }
  return {
    data: arrays[dtype].from(values),
    shape: [rows, picked.length],
    dtype,
    columns: picked.map((column) => names[column]!),
  };
}

function columnIndex(column: string | number, names: readonly string[]): number {
  const index = typeof column === "number" ? column : names.indexOf(column);
  if (names[index] === undefined) {
    throw new RangeError(`Cannot read column ${shown(column)}: the table has ${names.join(", ")}`);
  }
  return index;
}

function toNumber(
  field: string,
  dtype: keyof typeof arrays,
  missing: number | undefined,
  line: number,
  column: string,
): number {
  const text = field.trim();
  if (text === "" && missing !== undefined) return missing;
  const value = text === "" ? NaN : Number(text);
  const isNumber = text !== "" && (!Number.isNaN(value) || /^[+-]?nan$/i.test(text));
  const fits = dtype.startsWith("float") || arrays[dtype].of(value)[0] === value;
  if (isNumber && fits) return value;
  const hint = text === "" ? ': "missing" says what an empty field stands for' : "";
  throw new FileFormatError(
    `Line ${line}, column "${column}" holds ${shown(field)}, which is no ${dtype}${hint}`,
  );
}

interface CsvRecord {
  readonly fields: string[];
  readonly line: number;
}

/** Yields the records of a table; empty lines are skipped, a byte order mark is no text. */
function* records(text: string, delimiter: string): Generator<CsvRecord, undefined> {
  if (delimiter.length !== 1 || '"\r\n'.includes(delimiter)) {
    throw new RangeError(`Cannot split fields at ${shown(delimiter)}: give one character`);
  }
  const ends = `${delimiter}\r\n`;
  let line = 1;
  for (let at = text.startsWith("\ufeff") ? 1 : 0; at < text.length;) {
    const record: CsvRecord = { fields: [], line };
    for (let more = true; more; at++) {
      const end = fieldEnd(text, at, ends, line);
      const field = text.slice(at, end);
      record.fields.push(unquoted(field));
      line += field.split("\n").length - 1;
      at = end;
      more = text[at] === delimiter;
    }
    // `at` is behind "\r" or "\n": a line that ends in both has one more to go.
    if (text[at - 1] === "\r" && text[at] === "\n") at++;
    line++;
    if (record.fields.length > 1 || record.fields[0] !== "") yield record;
  }
}

/** End of the field that begins at `at`: before a delimiter, a line's end or the text's. */
function fieldEnd(text: string, at: number, ends: string, line: number): number {
  let end = at;
  if (text[at] !== '"') {
    while (end < text.length && !ends.includes(text[end]!)) end++;
    return end;
  }
  do {
    const quote = text.indexOf('"', end + 1);
    if (quote < 0) throw new FileFormatError(`Line ${line} has a quote that is not closed`);
    end = quote + 1;
  } while (text[end] === '"'); // a doubled quote stands for one
  if (end < text.length && !ends.includes(text[end]!)) {
    throw new FileFormatError(`Line ${line} has text behind a closing quote`);
  }
  return end;
}

function unquoted(field: string): string {
  return field.startsWith('"') ? field.slice(1, -1).replaceAll('""', '"') : field;
}

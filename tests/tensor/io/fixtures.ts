// Files that NumPy and the safetensors project's own tools wrote (fixtures/make.py), and their values.
import { assert, assertEquals } from "@std/assert";
import type { HostArray } from "../../../tensor/io/core/host_array.ts";
import expectedValues from "./fixtures/expected.json" with { type: "json" };

interface Listed {
  shape: number[];
  values: (number | boolean | string)[];
}

const expected = expectedValues as unknown as Record<string, Listed | Record<string, Listed>>;

/** The fixtures whose names end so. */
export function fixtureNames(ending: string): string[] {
  const names = Object.keys(expected).filter((name) => name.endsWith(ending));
  assert(names.length > 0, `No fixture ends in ${ending}`);
  return names;
}

export function fixtureUrl(name: string): URL {
  return new URL(`./fixtures/${name}`, import.meta.url);
}

export function readFixture(name: string): Uint8Array<ArrayBuffer> {
  return Deno.readFileSync(fixtureUrl(name));
}

export function expectedArray(name: string): Listed {
  return expected[name] as Listed;
}

export function expectedArrays(name: string): Record<string, Listed> {
  return expected[name] as Record<string, Listed>;
}

/** Fails unless an array holds what the other tool says, to the last bit. */
export function assertHolds(array: HostArray, { shape, values }: Listed, what: string): void {
  assertEquals([...array.shape], shape, `${what}: shape`);
  assertEquals(Array.from(array.data, comparable), values.map(comparable), what);
}

function comparable(value: number | bigint | boolean | string): string {
  const text = typeof value === "boolean" ? String(Number(value)) : String(value);
  return text === "Infinity" ? "inf" : text === "NaN" ? "nan" : text;
}

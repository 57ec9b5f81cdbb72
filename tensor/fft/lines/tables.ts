/** Cosines and sines of multiples of an angle, which take longer to compute than a transform. */
import { Tensor } from "../../class/tensor.ts";

/** Cosines and sines. */
type Turns = [Float64Array<ArrayBuffer>, Float64Array<ArrayBuffer>];

/** Tables of the last transforms, the latest at the end. */
const tables = new Map<string, Turns>();
/** Tables that are kept, and the longest of them: 64 MiB in all at most. */
const MAX_TABLES = 4, MAX_KEPT = 2 ** 20;

/**
 * Cosines and sines of `count` multiples of 2 π / n, 0 for those that are negative, of a tensor's type and device.
 *
 * @param name Tells multiples from others.
 * @param shape Of each table; default: [count].
 */
export function tablesOf(
  { dtype, device }: Pick<Tensor, "dtype" | "device">,
  name: string,
  n: number,
  count: number,
  multiple: (k: number) => number,
  shape: number[] = [count],
): [c: Tensor, s: Tensor] {
  const key = `${name} ${n} ${count}`, table = tables.get(key) ?? computed(n, count, multiple);
  tables.delete(key);
  if (count <= MAX_KEPT) tables.set(key, table);
  if (tables.size > MAX_TABLES) tables.delete(tables.keys().next().value!);
  const made = (data: Float64Array<ArrayBuffer>) => Tensor.fromHost(data, { shape, dtype, device });
  return [made(table[0]), made(table[1])];
}

/** Those of the whole circle. */
export function circleOf(x: Pick<Tensor, "dtype" | "device">, n: number): [c: Tensor, s: Tensor] {
  return tablesOf(x, "circle", n, n, (k) => k);
}

function computed(n: number, count: number, multiple: (k: number) => number): Turns {
  const c = new Float64Array(count), s = new Float64Array(count);
  for (let k = 0; k < count; k++) {
    const at = multiple(k);
    if (at < 0) continue;
    const angle = 2 * Math.PI * (at % n) / n;
    c[k] = Math.cos(angle);
    s[k] = Math.sin(angle);
  }
  return [c, s];
}

/** Products on CPU devices whose columns are on vector lanes: what attention and recurrent layers are made of. */

/** Floats of a vector. */
export const LANES = 16;

/** A matrix whose elements are read one by one: a name, how its rows and columns lie. */
export interface Broadcast {
  readonly name: string;
  readonly pointer: string;
  readonly row: string;
  readonly column: string;
}

/** Vectors on the lanes, and rows that are computed at a time: together they fill the registers. */
export interface Tile {
  readonly vectors: number;
  readonly rows: number;
  /** Elements on the lanes. */
  readonly width: number;
}

/** The least multiple of `step` that is no less. */
export function ceilTo(n: number, step: number): number {
  return Math.ceil(n / step) * step;
}

/** The lines of `C[r][lanes] (+)= sum over k < count of A[r][k] * B[k][lanes]`, for r below `rows`. */
export function laneProducts(
  { vectors, rows: step, width }: Tile,
  c: string,
  a: Broadcast,
  b: string,
  rows: string,
  last: string,
  count: string,
  start: "zero" | "add" | "scale",
): string[] {
  const lines = [`for (int r0 = 0; r0 < ${rows}; r0 += ${step}) {`];
  const each = Array.from({ length: step }, (_, r) => r);
  const lanes = Array.from({ length: vectors }, (_, v) => v);
  for (const r of each) {
    lines.push(
      `  ${a.pointer} const float* x${r} = ${a.name} + (Index)min(r0 + ${r}, ${last}) * ${a.row};`,
    );
    for (const v of lanes) {
      const known = `vload16(${v}, ${c} + (r0 + ${r}) * ${width})`;
      const first = start === "zero" ? "0.0f" : start === "add" ? known : `${known} * scale${v}`;
      lines.push(`  float16 c${r}_${v} = ${first};`);
    }
  }
  lines.push(`  for (int k = 0; k < ${count}; ++k) {`);
  for (const v of lanes) {
    lines.push(`    const float16 b${v} = vload16(${v}, ${b} + k * ${width});`);
  }
  for (const r of each) {
    lines.push(`    const float u${r} = x${r}[(Index)k * ${a.column}];`);
    for (const v of lanes) lines.push(`    c${r}_${v} = fma((float16)u${r}, b${v}, c${r}_${v});`);
  }
  lines.push("  }");
  for (const r of each) {
    for (const v of lanes) {
      lines.push(`  vstore16(c${r}_${v}, ${v}, ${c} + (r0 + ${r}) * ${width});`);
    }
  }
  return [...lines, "}"];
}

/** Statements of OpenCL C that read numbers of lines and write results, and those of real signals. */
import type { Pair } from "./butterfly.ts";
import { type Form, isMirrored, type LinePlan } from "./line_plan.ts";

/** Parameters of a form: pointers to parts, or to pairs; `type` is that of a pointer. */
export function parameters(form: Form, type: string, re: string, im: string): string {
  const names = form === "parts" ? [re, im] : [re];
  return names.map((name) => `${type} ${name}`).join(", ");
}

/** Gives names the parts of the number at a place. */
export function numberAt(form: Form, { re, im }: Pair, place: string): string {
  if (form === "parts") return `{ const size_t at = ${place}; ${re} = re[at]; ${im} = im[at]; }`;
  if (form === "reals") return `${re} = re[${place}];`;
  return `{ const T2 pair = ((global const T2*)re)[${place}]; ${re} = pair.x; ${im} = pair.y; }`;
}

/** Writes parts of a result. */
export function resultAt(form: Form, { re, im }: Pair, place: string): string {
  if (form === "parts") return `{ const size_t at = ${place}; yr[at] = ${re}; yi[at] = ${im}; }`;
  return `((global T2*)yr)[${place}] = (T2)(${re}, ${im});`;
}

/**
 * Gives names number k of those whose transform has the pairs of a signal, of whose frequencies there are the
 * first half: Y_k + Y_k+m and their difference turned, where Y_k are conjugates, and Y_k+m that of Y_m-k.
 *
 * @param e The number of the line.
 */
export function tangled({ re, im }: Pair, e: string, n: number, readsAcross: boolean): string {
  const [k, all, line] = readsAcross
    ? [`l + lines * (${e})`, `lines * ${n}`, "from"]
    : [e, `${n}`, "from + (size_t)l * in_line"];
  return `{ const int k = ${k}, m = ${all}; const size_t line = ${line};
const T nr = re[line + k], fr = re[line + m - k];
const T ni = k == 0 ? 0 : im[line + k], fi = k == 0 ? 0 : im[line + m - k];
T c, s; turn(k, 2 * m, &c, &s);
const T dr = nr - fr, di = -ni - fi;
${re} = nr + fr + s * dr - c * di;
${im} = fi - ni + s * di + c * dr; }`;
}

/**
 * Writes frequencies k and m - k of a signal, of the transforms of its pairs for both: the sum with the
 * conjugate of the other is that of its even elements, the difference that of the odd ones.
 */
export function untangled(near: Pair, far: Pair, plan: LinePlan): string {
  const isPaired = isMirrored(plan), { n, to, extent } = plan;
  const [l, k, all, line, once] = isPaired
    ? [
      "first + w",
      "l + lines * j",
      `lines * ${n}`,
      "to",
      // Lines 0 and half of all are their own mirrored ones.
      `2 * l <= lines && !(l == 0 && 2 * j > ${n} || 2 * l == lines && 2 * j > ${n - 1})`,
    ]
    : ["first + w", "j", `${n}`, "to + (size_t)l * out_line", "l < lines"];
  const conjugates = extent === "half" ? "" : `if (k > 0) {
${resultAt(to, { re: "xr", im: "-xi" }, "line + 2 * m - k")}
${resultAt(to, { re: "zr", im: "-zi" }, "line + m + k")}
}`;
  return `const int l = ${l};
if (${once}) {
const int k = ${k}, m = ${all}; const size_t line = ${line};
T c, s; turn(k, 2 * m, &c, &s);
const T er = (${near.re} + ${far.re}) * scale / 2, ei = (${near.im} - ${far.im}) * scale / 2;
const T dr = (${near.re} - ${far.re}) * scale / 2, di = (${near.im} + ${far.im}) * scale / 2;
const T hr = c * di - s * dr, hi = -c * dr - s * di;
const T xr = er + hr, xi = ei + hi, zr = er - hr, zi = hi - ei;
${resultAt(to, { re: "xr", im: "xi" }, "line + k")}
${resultAt(to, { re: "zr", im: "zi" }, "line + m - k")}
${conjugates}
}`;
}

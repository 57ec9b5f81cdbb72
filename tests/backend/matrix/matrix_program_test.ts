/** Programs of matrices: the parser, and WebAssembly beside JavaScript. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { matrixModule } from "../../../backend/cpu/wasm/matrix/matrix_module.ts";
import { wasmRuntime } from "../../../backend/cpu/wasm/runtime.ts";
import type { MatrixProgram } from "../../../backend/matrix/language.ts";
import { parseMatrixText } from "../../../backend/matrix/parse.ts";
import { matrixScript } from "../../../backend/matrix/script.ts";

const runtime = wasmRuntime()!;
const types = ["float32", "float64"] as const;

/** A program of an input and an output of `n` rows and columns, and whole numbers beside it. */
function programOf(text: string, dtype: MatrixProgram["dtype"]): MatrixProgram {
  const size = ({ n }: Readonly<Record<string, number>>) => n! * n!;
  const array = (name: string, isWhole = false) => ({ name, isWhole, isShared: false, size });
  return {
    name: "tested",
    dtype,
    arrays: [array("a"), array("y"), array("k", true)],
    numbers: ["n"],
    constants: { EPS: dtype === "float32" ? 2 ** -23 : 2 ** -52 },
    body: parseMatrixText(text),
  };
}

/** Results of WebAssembly for matrices one behind the other. */
function byWasm(program: MatrixProgram, a: number[], n: number, relaxed: boolean) {
  const { memory, words } = runtime,
    View = program.dtype === "float32" ? Float32Array : Float64Array;
  const bytes = a.length * View.BYTES_PER_ELEMENT, whole = a.length * 4;
  const [at, to, kAt] = [bytes, bytes, whole].map((nbytes) => memory.tryAllocate(nbytes)!);
  new View(memory.memory.buffer as ArrayBuffer, at!, a.length).set(a);
  memory.bytes(to!, bytes).fill(0);
  memory.bytes(kAt!, whole).fill(0);
  const step = n * n * View.BYTES_PER_ELEMENT;
  words.set([at!, step, to!, step, kAt!, n * n * 4, n]);
  runtime.run(runtime.compile(matrixModule(program, relaxed)), a.length / (n * n), 1, 0);
  const y = Array.from(new View(memory.memory.buffer as ArrayBuffer, to!, a.length));
  const k = Array.from(new Int32Array(memory.memory.buffer, kAt!, a.length));
  for (const [address, nbytes] of [[at!, bytes], [to!, bytes], [kAt!, whole]] as const) {
    memory.deallocate(address, nbytes);
  }
  return { y, k };
}

function byScript(program: MatrixProgram, a: number[], n: number) {
  const y = new Array<number>(a.length).fill(0), k = new Array<number>(a.length).fill(0);
  const script = matrixScript(program), size = n * n;
  for (let at = 0; at < a.length; at += size) {
    const [ys, ks] = [new Array<number>(size).fill(0), new Array<number>(size).fill(0)];
    script(a.slice(at, at + size), ys, ks, n);
    y.splice(at, size, ...ys);
    k.splice(at, size, ...ks);
  }
  return { y, k };
}

const texts: Record<string, string> = {
  "rows in lanes":
    "each(j, 0, n) { for (int i = 0; i < n; i++) y[i * n + j] = 2 * a[i * n + j] - j; }",
  "columns in lanes":
    "each(i, 0, n) { for (int j = 0; j < n; j++) y[i * n + j] = a[j * n + i] / 3; }",
  "backwards": "each(i, 0, n) { y[n - 1 - i] = a[i]; }",
  "pairs": "pairs(i, 0, n, j, 1, n) { y[i * n + j] = i < j ? a[i * n + j] : -a[j * n + i]; }",
  "pairs that depend": "pairs(i, 0, n, j, 0, i) { y[i * n + j] = a[j]; }",
  "sums": `
    T sum = 1;
    T most = 0;
    fold(i, 0, n * n) { sum += a[i] * a[i]; most = fmax(most, fabs(a[i])); }
    each(i, 0, n) { y[i] = sum - most; }`,
  "sums of rows":
    "each(i, 0, n) { T s = 0; fold(j, 0, n) { s -= a[i * n + j]; } y[i] = sqrt(fabs(s)); }",
  "a way of each lane":
    "each(i, 0, n) { if (a[i] > 0) { y[i] = a[i]; k[i] = 1; } else { y[i] = EPS; } }",
  "whole numbers": `
    int count = 0;
    for (int i = 0; i < n * n; i++) { if (a[i] > 0 && i % 2 == 0 || i == 3) count++; }
    each(z, 0, 1) { k[0] = count; k[1] = (int)(a[0] * 8); k[n] = -count / 2; }`,
  "loops that end": `
    int at = 0;
    while (at < n) { if (a[at] < 0) { at += 2; if (a[at] > 0) break; } at++; }
    for (int i = 0; i < n; i++) { if (i == 2) { if (at > 0) break; } k[i] = i + 1; }
    y[0] = at;`,
  "arrays by choice": `
    T* from = n % 2 == 0 ? a : y;
    T* to = y;
    for (int s = 0; s < 2; s++) { sync; each(i, 0, n) { to[i + n * s] += from[i] + s; } }`,
  "names again": `
    for (int i = 0; i < n; i++) { const T f = a[i]; each(j, 0, n) { y[i * n + j] = f * a[j]; } }
    for (int i = 1; i < n; i++) { const T f = y[i]; each(j, i, n) { y[j * n + i] -= f * a[j * n + i - 1]; } }`,
};

Deno.test("matrixModule computes what the program says as JavaScript, for sizes around the lanes", () => {
  for (const [title, text] of Object.entries(texts)) {
    for (const dtype of types) {
      for (const n of [2, 3, 4, 5, 8, 17, 33]) {
        for (const relaxed of runtime.relaxed ? [false, true] : [false]) {
          const a = Array.from({ length: 3 * n * n }, (_, k) => ((k * 37) % 61 - 30) / 8);
          const program = programOf(text, dtype);
          const [found, wanted] = [byWasm(program, a, n, relaxed), byScript(program, a, n)];
          assertEquals(found.k, wanted.k.map((x) => x | 0), `${title}, ${n}`);
          const slack = dtype === "float32" ? 1e-4 : 1e-11;
          wanted.y.forEach((value, k) => {
            const far = slack * Math.max(1, Math.abs(value));
            const place = `${title} of ${n} rows, ${dtype}, at ${k}`;
            assert(Math.abs(found.y[k]! - value) <= far, `${place}: ${found.y[k]} for ${value}`);
          });
        }
      }
    }
  }
});

Deno.test("matrixModule puts neighbours in lanes: the module has a vector's load for rows", () => {
  // Four vectors, one vector and one element of rows; of what goes its own way one element alone.
  const rows = matrixModule(programOf("each(i, 0, n) { y[i] = a[i]; }", "float32"), false);
  const ways = matrixModule(
    programOf("each(i, 0, n) { if (a[i] > 0) y[i] = a[i]; }", "float32"),
    false,
  );
  assert(rows.length > ways.length);
});

Deno.test("parseMatrixText names what is missing, and where", () => {
  assertThrows(() => parseMatrixText("T x = 1"), SyntaxError, `";" is missing near "T x = 1"`);
  assertThrows(() => parseMatrixText("each(i, 0) { }"), SyntaxError, "is missing");
});

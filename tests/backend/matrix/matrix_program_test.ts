/** Programs of matrices: the parser, and WebAssembly beside JavaScript. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { matrixModule } from "../../../backend/cpu/wasm/matrix/matrix_module.ts";
import { wasmRuntime } from "../../../backend/cpu/wasm/runtime.ts";
import type { MatrixProgram } from "../../../backend/matrix/language.ts";
import { parseMatrixText } from "../../../backend/matrix/parse.ts";
import { programOf, scriptResults, texts } from "./texts.ts";

const runtime = wasmRuntime()!;
const types = ["float32", "float64"] as const;

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

Deno.test("matrixModule computes what the program says as JavaScript, for sizes around the lanes", () => {
  for (const [title, text] of Object.entries(texts)) {
    for (const dtype of types) {
      for (const n of [2, 3, 4, 5, 8, 17, 33]) {
        for (const relaxed of runtime.relaxed ? [false, true] : [false]) {
          const a = Array.from({ length: 3 * n * n }, (_, k) => ((k * 37) % 61 - 30) / 8);
          const program = programOf(text, dtype);
          const [found, wanted] = [byWasm(program, a, n, relaxed), scriptResults(program, a, n)];
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

/** Programs of matrices as OpenCL C of a work-item alone: beside JavaScript, and which loops have vectors. */
import { assert, assertEquals } from "@std/assert";
import { Tensor } from "../../../mod.ts";
import type { MatrixProgram } from "../../../backend/matrix/language.ts";
import { parseMatrixText } from "../../../backend/matrix/parse.ts";
import { vectorText } from "../../../backend/matrix/vector_text.ts";
import { callMatrixKernel, type MatrixKernel } from "../../../tensor/ops/custom/matrix_kernel.ts";
import { programOf, scriptResults, texts } from "./texts.ts";
import { testOnOpenCL } from "../../opencl.ts";

const zeros = "each(q, 0, n * n) { y[q] = 0; k[q] = 0; }\nsync;\n";

function kernelOf(title: string, text: string): MatrixKernel {
  return {
    name: `tested_${title.replaceAll(" ", "_")}`,
    inputs: { a: "n*n" },
    outputs: { y: "n*n", "int k": "n*n" },
    numbers: ["n"],
    text: zeros + text,
  };
}

testOnOpenCL("vectorText computes what JavaScript does, for sizes around the lanes", () => {
  for (const [title, text] of Object.entries(texts)) {
    const kernel = kernelOf(title, text);
    for (const dtype of ["float32", "float64"] as const) {
      for (const n of [3, 16, 37]) {
        const a = Array.from({ length: 2 * n * n }, (_, k) => ((k * 37) % 61 - 30) / 8);
        const shape = [2, n, n], x = Tensor.fromHost(a, { shape, dtype });
        const [y, k] = callMatrixKernel(kernel, [x], [shape, shape], [n], n);
        const wanted = scriptResults(programOf(zeros + text, dtype), a, n);
        assertEquals([...k!.toHostSync()].map(Number), wanted.k.map((x) => x | 0), title);
        const slack = dtype === "float32" ? 1e-4 : 1e-11, found = y!.toHostSync();
        wanted.y.forEach((value, at) => {
          const far = Math.abs(Number(found[at]) - value);
          const place = `${title} of ${n} rows, ${dtype}, at ${at}`;
          assert(far <= slack * Math.max(1, Math.abs(value)), `${place}: ${found[at]}, ${value}`);
        });
      }
    }
  }
});

Deno.test("vectorText has vectors where rounds are neighbours in memory, and else none", () => {
  const count = (text: string, dtype: MatrixProgram["dtype"] = "float32") =>
    vectorText({ ...programOf("y[0] = 0;", dtype), body: parseMatrixText(text) })
      .match(/\bvload(8|16)/g)?.length ?? 0;
  const rows =
    "each(j, 0, n) { T s = 0; for (int i = 0; i < n; i++) s += a[i * n + j]; y[j] = s; }";
  assertEquals([count(rows), count(rows, "float64")], [1, 1]);
  assertEquals(count("each(i, 0, n) { y[i] = a[i * n]; }"), 0);
  assertEquals(count("each(i, 0, n) { if (a[i] > 0) y[i] = a[i]; }"), 0);
  assertEquals(count("T s = 0; fold(i, 0, n) { s += a[i] * a[i]; } y[0] = s;"), 2);
  assertEquals(count("pairs(i, 0, n, j, 0, n) { y[i * n + j] -= a[j] * a[i]; }"), 2);
});

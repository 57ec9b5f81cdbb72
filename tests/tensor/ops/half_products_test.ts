/** Products of half types on devices whose vectors hold floats: of float32 copies, rounded once. */
import { assertEquals } from "@std/assert";
import type { Node } from "../../../backend/graph/node.ts";
import { Tensor } from "../../../mod.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { testOnBackends, testOpenCL } from "../../opencl.ts";
import { withCapabilities } from "../capabilities.ts";

const halves = ["float16", "bfloat16"] as const;
const wave = (shape: number[], step: number) => {
  const length = shape.reduce((a, b) => a * b);
  return Tensor.fromHost(Float32Array.from({ length }, (_, k) => Math.sin(step * k)), { shape });
};

/** The shapes that are cast to float32 on the way to a node. */
function castShapes(node: Node): string[] {
  if (node.isLeaf) return [];
  const own = node.op.kind === "cast" && node.dtype === "float32" ? [node.shape.join("x")] : [];
  return [...own, ...node.inputs.flatMap(castShapes)];
}

testOpenCL("a device that widens products casts what is in memory, not the windows of it", () => {
  return withCapabilities("cl", { widensProducts: true }, () => {
    for (const dtype of halves) {
      const x = wave([2, 4, 8, 8], 0.3).cast(dtype).realize();
      const w = wave([6, 4, 3, 3], 0.7).cast(dtype).realize();
      assertEquals(castShapes(nodeOf(x.conv2d(w, { padding: 1 }))).sort(), [
        "2x4x8x8",
        "6x4x3x3",
      ]);
      const row = wave([1, 8], 0.1).cast(dtype).realize();
      const few = row.expand([300, 8]).matmul(x.slice(0, 0));
      assertEquals([few.dtype, ...castShapes(nodeOf(few)).sort()], [dtype, "1x1x8x8", "1x8"]);
    }
  });
});

testOnBackends("products of halves are those of floats, rounded once", async () => {
  for (const dtype of halves) {
    const a = wave([33, 70], 0.3).cast(dtype).realize();
    const b = wave([70, 19], 0.7).cast(dtype).realize();
    const wide = a.cast("float32").matmul(b.cast("float32"));
    const [found, expected] = [a.matmul(b), wide.cast(dtype)].map((t) => t.cast("float32"));
    // The order of the sum may change the last digit.
    const unit = dtype === "float16" ? 2 ** -10 : 2 ** -7;
    assertEquals(await found!.allClose(expected!, { rtol: unit, atol: 1e-5 }), true, dtype);
  }
});
